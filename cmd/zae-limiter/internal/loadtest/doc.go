// Package loadtest measures a limiter on DynamoDB, or on an engine in its place. It tells
// how fast the limiter decides, what its decisions cost, and whether they are right.
// [Run] drives a scenario (package scenario) and returns what it measured (package
// result).
//
// # Latency
//
// Latency counts from the instant at which an operation was due, not from the instant at
// which a client started it. With a rate, a store that stalls for a second therefore delays
// all operations of that second. Measuring only one of them for each client is the error
// known as coordinated omission. Every operation is timed, whatever its answer. Operations
// of users are due when they are sent, so each user sees a stall once. The time for which a
// lease is held does not count.
//
// How late the generator itself is, is measured apart. It knows for operations for which a
// client was free when they were due. If this lag is not small, the figures are not those of
// the limiter, and the result says that it is unreliable.
//
// # Right and wrong
//
// Between two instants a bucket can admit its capacity and what it earns in between. The
// entitlement is that amount, or the demand if it is less. The instants are the start of
// the first operation on the bucket and the end of the last, including the warm-up. Two
// results count as wrong: tokens admitted beyond the possible amount, and a refusal by a
// bucket whose capacity alone covers all requests so far. Tokens that a settlement uses
// beyond its request are debt, which no bucket refuses.
//
// The books are compared with the table: a bucket's counters of consumed tokens must be what
// the answers to its operations say. Operations without an answer leave a range.
//
// # Time
//
// Everything takes the time from package time, so a run inside a testing/synctest bubble on
// an in-process engine takes no time at all. A run waits for all goroutines that it starts.
// Waiting for the next due instant is as exact as timers are. A user pauses for a
// millisecond after an operation that took no time, which happens only in virtual time.
package loadtest
