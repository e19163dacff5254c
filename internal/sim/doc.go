// Package sim holds the limiter to its promises by simulation. It has nothing
// but tests.
//
// A run is eight clients, each a limiter on a store of its own with a clock of
// its own, over one embedded engine. Between each client and the engine lies a
// link that delays requests, loses them or their answers, throttles, and stops
// clients dead. Every request takes effect at an instant of its own, drawn from
// the seed under testing/synctest's virtual time, so that a seed is a history:
// the same one on every machine.
//
// The link records what the engine applied, which is the truth; the clients
// record what they were answered. A checker that shares no code with the
// limiter holds the two against each other and against the promises of the
// design:
//
//   - each write is a legal step of a token bucket: what is earned is what the
//     grid gives, balances end at the capacity, stamps never run back, items
//     are whole;
//   - over every interval, what was admitted is covered by capacity and rate
//     (never over);
//   - what was refused left no debit and what was granted the whole one (all or
//     nothing; cancellation is a rollback);
//   - a refusal has a reason, and its wait is exact;
//   - every call returned in time.
//
// Flags: -sim.seeds=N runs that many seeds, -sim.seed=N one alone and prints its
// trace. Deliberately broken stores prove that each check can fail.
package sim
