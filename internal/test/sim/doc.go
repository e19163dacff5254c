// Package sim checks the limiter's promises by simulation. It contains only tests.
//
// A run has six clients over one embedded engine. Each client is a limiter with its own
// store and its own clock. Between each client and the engine is a link that delays
// requests, loses them or their answers, throttles them, and stops clients dead. Every
// request takes effect at an instant of its own, drawn from the seed in
// testing/synctest's virtual time. So a seed is a history, the same on every machine.
// (Callers of one process that share writes wait in a queue. If two join it at the same
// instant, the scheduler decides, so seeds with crowds may replay differently.)
//
// Buckets get hot: the play takes away the remaining writes of their items and throttles
// their partitions, so that clients double them and race. Shards get lost, and an
// outside process refills buckets. In some seeds callers come in crowds.
//
// In some seeds one process is alone. Its callers carry most of their writes themselves, and leave
// them.
//
// In some seeds callers are patient: they wait for tokens, several of a process at a time and
// up to a bound, and extend and reduce open leases, sometimes while a lease is being ended.
//
// In some seeds, some limits are quotas. The run then begins shortly before the end of a
// period, mostly around a change of the clocks in the quotas' zone, and so do its later rounds.
// An edit changes a quota's amount or calendar, or makes it a rate. In half of these seeds,
// quotas carry what is left into their next period, or a debt. In some seeds, some quotas are
// sessions; no bucket is doubled there.
//
// In some seeds, some limits follow timetables, by which they have other parameters at other
// times. Such a run, too, begins shortly before a change. Where there are quotas, too, some of these
// have timetables of their amounts. In some seeds, with any of these, an operator resets limits
// and tops them up. He gives a command again, with its key, until he has its answer, also from
// another process after his own has died.
//
// In some seeds, some limits are soft, and edits make them so or hard. In some seeds, some
// limits are in shadow or off, maybe for a part of the entities, and edits change that. In some
// seeds, some requests name several resources.
//
// In some seeds one or two real aggregators follow the engine's stream, each over a link
// and with a clock like any client's. They get the records shard by shard, in batches of
// any size. Some records come again, after a crash from further back, and failed records
// come until they succeed. The seed divides the stream into shards; the engine's own
// shards depend on the random id in the keys. Alternatively they read the records like
// processes, with a follower that keeps checkpoints. Its pauses after a failure do not
// depend on the seed, so such a seed may replay differently.
//
// In some seeds answers have dates. With them, clients correct local clocks that are off
// by seconds or hours, drift and are set. One client's clock is an hour ahead, and
// nothing corrects it. In some seeds, with dates or without, clocks are set by up to an
// hour while they are in use.
//
// Seasons are runs of another kind: half an hour in which operators, in processes of their
// own, change every level of configuration, by this library's rules or by the Python peer's.
// They switch buckets off and on and bypass them, with and without an end, and move an entity
// between parents. They may die half-way, and others go on with their keys. Meanwhile processes with
// caches of different age use buckets often or rarely. A week is one in which a caller waits as
// long as it is told. Contests count what each of
// several identical processes is granted.
//
// The link records what the engine applied, which is the truth; the clients record their
// answers. A checker that shares no code with the limiter compares the two with each
// other and with the promises of the design:
//
//   - Each write is a legal step of a token bucket. A limit earns what the grid gives,
//     balances do not exceed the capacity, items are complete, and a stamp moves back only
//     from an instant that no honest clock shows.
//   - Shards never overlap, so that shares sum to at most the limit. A shard is born with
//     what its sibling gives, or empty.
//   - Over every interval, capacity and rate cover what was admitted (never over). Each
//     move of a stamp far ahead may cost one capacity more.
//     The capacity of a limit with a timetable is the one in force at the beginning, and its rate is integrated.
//   - In every period of a quota, the largest amount that held in it (of one with a timetable and one
//     shard, that of the admission's instant), with what operators gave
//     and what the period before left, covers what was admitted, less what was returned. What
//     is carried has a maximum, or is a debt. The stamp says of which period a balance is, so
//     no clock matters. No take crosses the end of a period, and a credit returns to its period
//     or to none.
//   - A session begins with the first use after the one before has ended, and at no other time.
//   - A reset makes a balance its share, and a top-up adds what it says, once for each key.
//   - A soft limit counts exactly and refuses nobody. It is one by a stamp on the item, which
//     follows configuration.
//   - A limit in shadow refuses nobody. It debits what it held for, notes the rest, and owes one
//     capacity at most. One that is off only counts. An amount that only counted moves no
//     balance later, either. Enforcement begins without a debt.
//   - A refused request leaves no debit, and a granted one leaves the whole debit (all or
//     nothing; cancellation is a rollback).
//   - A refusal has a reason in the content of all shards together. If the client did not
//     ask the store, the reason is in what it saw a moment ago. Its wait is exact.
//   - The hidden limit on writes appears nowhere.
//   - Once the whole stream has been processed, usage equals consumption in every window,
//     to the millitoken and the event.
//   - Aggregators consume nothing, and write nothing without need.
//   - Every call returns in time.
//   - What a lease took at first and later, less what it released and returned, is what its
//     buckets count.
//   - Callers that wait in a process are admitted in the order of their arrival. No line has
//     more callers than its bound, and nobody is turned away while there is room. A caller
//     gives up only if its wait would not end in time, and leaves nothing behind.
//   - Nothing is taken of an item that has the mark of a switch. When a switch is set, every
//     item below its level is as all levels say. Only switches mark, and only they, or an end,
//     remove marks.
//   - A bypassed bucket counts, moves no balance, and refuses nobody. Its stamp follows what
//     the levels say, and lives a minute at most. A lease of such a use is settled so.
//   - When an entity has been moved, its items name the new parent. What was taken returns to
//     whom it was taken from.
//   - A limit comes back full only if an operator added it again or deleted its bucket.
//   - An answer rests on configuration, and on a parent, that was in force within the time
//     to live. No write undoes a newer change.
//   - An item that expires has paid its debts and is full by then. One with quotas outlives their next
//     period.
//   - A client follows a step of its clock only if dates confirm it, and a step never
//     blocks a client.
//
// Flags: -sim.seeds=N runs that many seeds, from -sim.first on, and -sim.seed=N runs a single
// seed and prints its trace. -sim.followers=N sets the number of aggregators in each seed,
// and -sim.tailed makes them processes. -sim.dated gives answers dates in each seed,
// -sim.quotas has quotas in each, -sim.carries quotas that carry, -sim.sessions sessions,
// -sim.varied timetables, -sim.granted resets and top-ups, -sim.soft soft limits,
// -sim.modes limits in shadow and off, and -sim.joint requests of several resources. -sim.stepped sets clocks in each, and
// -sim.patient makes the callers of each patient. One season is played for every 20 seeds.
// Deliberately broken stores prove that each check can fail.
package sim
