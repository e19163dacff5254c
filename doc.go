// Package limiter decides requests against token buckets that many processes share
// through a [Store], DynamoDB for instance. It has no server of its own.
//
// An entity (an API key, a user, a project) consumes limits ("rpm", "tpm") of a resource
// ("gpt-4"). An entity may have a parent and cascade to it: what it acquires is taken
// from both. Each pair of an entity and a resource has one bucket, which holds all of its
// limits. A request that names several of them is therefore one conditional write,
// admitted as a whole or not at all.
//
// # Which method to use
//
//   - [Limiter.Do] for work with a beginning and an end: it acquires, runs a
//     function, and commits, or returns everything if the function fails.
//   - [Limiter.Acquire] where that does not fit. It returns a [Lease], to be
//     adjusted to what was really used and committed, or rolled back.
//   - [Limiter.Available] and [Limiter.TimeUntilAvailable] to ask for a request's
//     chances without taking.
//   - [Limiter.Limits], [Limiter.Standing] and [Limiter.Top] for whoever operates
//     limits: what holds, what is left, and who is nearest to a limit.
//
// A refusal is an [ExceededError]; it carries the status of every limit and
// the exact wait, and marshals to the body of an HTTP 429.
//
// [Limiter.Wait] waits instead of being refused, in the order of arrival.
//
// Every call but Wait and [Limiter.Top] returns within [Options.Timeout], and every call
// when its context ends. After [Limiter.Close] calls fail with [ErrClosed].
//
// # Where limits come from
//
// Configuration has four levels: an entity's limits for a resource, its limits for every
// resource ([DefaultResource]), a resource's, and the system's. The first level that has
// any holds, whole. It is cached for [Options.ConfigTTL]. Within that time a change
// reaches buckets in use: a change of limits, and an operator's switch that disables an
// entity or a resource. [Request.Fallback] is the last level, for where no other has any
// limits.
//
// # What is promised
//
// Over any interval, what is admitted less what is returned is at most the capacity and
// what the limit earns in the interval. The difference between clients' clocks lengthens
// the interval. Nothing earned is lost to rounding. A write whose
// answer was lost is sent again, and applied once. If a process cannot know in time whether its
// tokens were taken, they count as taken until it learns that nobody has them.
//
// A clock more than 30 s ahead leaves a stamp that would stop the bucket until then. A
// store corrects its clock, but a peer may have such a clock. Clients that have compared
// their clocks with the store's move such a stamp back ([store.CheckedClock], [Stats]).
// Each time, up to one capacity is admitted in excess.
//
// # Hot buckets
//
// A DynamoDB partition takes about 1,000 writes a second. Callers of one process share
// writes to a bucket ([Options.InFlight]). A bucket that takes more writes splits into up
// to [MaxShards] items, each in a partition of its own. Splitting never creates tokens,
// and callers still see one bucket.
//
// # Further reading
//
// In the repository, docs/concepts.md explains levels, cascades, leases and debts. docs/errors.md
// has every error with its HTTP status and gRPC code. docs/programs.md has whole programs to
// copy.
package limiter
