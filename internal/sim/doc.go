// Package sim holds the limiter to its promises by simulation. It has nothing
// but tests.
//
// A run is six clients, each a limiter on a store of its own with a clock of
// its own, over one embedded engine. Between each client and the engine lies a
// link that delays requests, loses them or their answers, throttles, and stops
// clients dead. Every request takes effect at an instant of its own, drawn from
// the seed under testing/synctest's virtual time, so that a seed is a history:
// the same one on every machine. (Callers of one process who share writes stand
// in a line; where two come to it at the same instant, the scheduler decides, so
// that seeds with crowds may replay differently.)
//
// Buckets get hot: the play takes away the writes that their items have left and
// lets their partitions throttle, so that clients double them and race at it;
// shards get lost, and somebody else refills them. In some seeds callers come in
// crowds.
//
// In some seeds one or two real aggregators follow the engine's stream, each over a
// link and by a clock like any client's. Its records come to them shard by shard,
// in batches of any size, some of them again, and after a crash from further back;
// what was not taken in comes until it is. A stream's shards are the seed's, not
// the engine's, which go by the random id in the keys. Or they read them like
// processes, by a follower that keeps checkpoints; its pauses after a failure are
// no seed's, so that such a one may replay differently.
//
// In some seeds answers have dates, by which clients correct local clocks that are off by
// seconds or hours, drift and are set; and there is one client whose clock is an hour
// ahead and which nobody tells. In some seeds, with dates or without, clocks are set by
// up to an hour while they are in use.
//
// Seasons are runs of another kind: half an hour in which operators, in processes of
// their own, change every level of configuration, by this library's rules or by the
// Python peer's. Meanwhile processes with caches of different age use buckets often or
// rarely. Contests count what each of several identical processes is granted.
//
// The link records what the engine applied, which is the truth; the clients
// record what they were answered. A checker that shares no code with the
// limiter holds the two against each other and against the promises of the
// design:
//
//   - each write is a legal step of a token bucket: what is earned is what the
//     grid gives, balances end at the capacity, items are whole, and stamps run
//     back only from where no honest clock is;
//   - shards never overlap, so that shares sum to no more than the limit; a shard
//     is born with what its sibling gives, or empty;
//   - over every interval, what was admitted is covered by capacity and rate
//     (never over), but for one capacity each time that a stamp is moved far ahead;
//   - what was refused left no debit and what was granted the whole one (all or
//     nothing; cancellation is a rollback);
//   - a refusal has a reason, in what all shards hold together, or, if nobody was
//     asked, in what its client was shown a moment ago; and its wait is exact;
//   - the hidden limit on writes appears nowhere;
//   - when the stream has been taken in to its end, usage is what was consumed, in
//     every window, to the millitoken and the event;
//   - aggregators consume nothing, and write nothing for nothing;
//   - every call returned in time;
//   - a limit comes back full only if an operator added it again or deleted its bucket;
//   - what is answered rests on configuration, and on a parent, that was in force within
//     the time to live, and nobody undoes a newer change;
//   - an item that expires has paid and is full by then;
//   - a step of a clock is followed only where dates confirm it, and silences nobody.
//
// Flags: -sim.seeds=N runs that many seeds, -sim.seed=N one alone and prints its
// trace; -sim.followers=N has that many aggregators in each of them, and
// -sim.tailed lets those be processes; -sim.dated has answers with dates in each, and
// -sim.stepped sets clocks in each. One season is played for every 20 seeds. Deliberately
// broken stores prove that each check can fail.
package sim
