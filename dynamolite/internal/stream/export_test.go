package stream

// Overhead is what a record is counted with besides its size.
const Overhead = overhead
