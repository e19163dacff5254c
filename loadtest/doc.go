// Package loadtest measures a limiter on DynamoDB, or on an engine in its place: how fast
// it decides, what its decisions cost, and whether they are right. [Run] drives one
// [Scenario] and returns a [Result].
//
// # Latency
//
// Latency counts from the instant at which an operation was due, not from the instant at
// which a client started it. With a rate, a store that stalls for a second therefore delays
// all operations of that second. Measuring only one of them for each client is the error
// known as coordinated omission. Every operation is timed, whatever its answer. In a closed loop, a
// client's next operation is due when its last has ended, so each client sees a stall once.
//
// # Prices
//
// Dollars are on-demand prices of us-east-1 as in the founding documents (seed 001, section
// 6, "DynamoDB Cost Breakdown"): 0.625 for a million write units and 0.125 for a million
// read units. Writes to indexes count as write units; storage and streams are not counted.
//
// # Right and wrong
//
// Between two instants a bucket can admit its capacity and what it earns in between. The
// entitlement is that amount, or the demand if it is less. The instants are the start of
// the first operation on the bucket and the end of the last, including the warm-up. Two
// results count as wrong: tokens admitted beyond the possible amount, and a refusal by a
// bucket whose capacity alone covers all requests so far.
//
// # Time
//
// Everything takes the time from package time, so a run inside a testing/synctest bubble on
// an in-process engine takes no time at all. A run waits for all goroutines that it starts.
// Waiting for the next due instant is as exact as timers are; their delay is part of the
// latency. In a closed loop, a client pauses for a millisecond after an operation that took
// no time, which happens only in virtual time.
package loadtest
