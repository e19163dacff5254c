package stream

// Overhead is the number of bytes that a record counts for beyond its size.
const Overhead = overhead
