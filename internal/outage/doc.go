// Package outage is what a process admits by itself while the store is away: its share of every
// limit of the buckets that it knows (ADR 061). It has no clock and no I/O.
//
// Each of N processes has a bucket of its own for each limit, with an N-th of the capacity and of
// the rate. It begins with an N-th of the balance that the process saw last. When the store is back,
// the process debits what its buckets lack, and counts all that was taken of them.
package outage
