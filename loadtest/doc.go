// Package loadtest measures a limiter on a DynamoDB, or on an engine in its
// place: how fast it decides, what that costs, and whether what it decided was
// right. [Run] drives one [Scenario] and returns a [Result].
//
// # Latency
//
// Latency counts from the instant at which an operation was due, not from the one
// at which a client got round to it. Where operations are due at a rate, a store
// that stalls for a second so shows in all operations of that second, and not
// in one for each client (known as coordinated omission). Every operation is timed, whatever its
// answer. In a closed loop, a client's next operation is due when its last has
// ended, and a stall is seen once for each client.
//
// # Prices
//
// Dollars are on-demand prices of us-east-1 as the founding documents have them
// (seed 001, section 6, "DynamoDB Cost Breakdown"): 0.625 for a million write
// units and 0.125 for a million read units. Writes to indexes are units like any
// other; storage and streams are not counted.
//
// # Right and wrong
//
// A bucket that is used from one instant to another can admit its capacity and
// what it earns in between; that, or what was asked for where that is less, is the
// entitlement. The instants are the begin of the first operation on the bucket
// and the end of the last, warm-up included. Wrong are tokens admitted beyond what could
// be admitted, and refusals of a bucket of which all that was ever asked fits
// into its capacity alone.
//
// # Time
//
// Everything takes time from package time, so that a run inside a testing/synctest
// bubble on an engine in process takes no time at all. A run starts goroutines and
// waits for all of them. Waiting for the next due instant is as exact as timers
// are: what they overshoot is part of the latency. In a closed loop, a client whose
// operation took no time at all, as only virtual time has it, pauses for a
// millisecond.
package loadtest
