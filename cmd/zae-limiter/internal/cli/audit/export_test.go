package audit

// Pairs writes details for people.
var Pairs = pairs
