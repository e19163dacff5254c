// Package aggregator does the work behind the requests (ADR 020). It reads the records of a
// table's stream, sums up usage, and refills buckets before their users have to. It
// doubles the shards of buckets whose write rate approaches what one partition takes,
// and merges them when the rate has dropped. It passes expired audit events to an
// archive, if there is one. It does not depend on the source of the records:
//
//   - [Aggregator.Follow] reads the stream itself through a [stream.Follower], for a
//     table of DynamoDB or of an engine in the same process.
//   - Package aggregator/lambda is the function that AWS Lambda calls with records.
//   - [Aggregator.Process] accepts records from any caller.
//
// # What is counted
//
// A bucket item counts all that was ever consumed of each limit, less what was
// returned. The difference between the two images of a record is what one write
// consumed; for a new item, it is the item's whole count. It belongs to the window of
// the record's own time, which has a precision of one second. The hidden write limit is
// never counted. Merging counts nothing twice: deleting an item consumes nothing, and
// the item that takes over its tokens does not take over its count.
//
// A write is one event if it consumed anything of any limit. Where callers of a
// process share writes (limiter.Options.InFlight), there are fewer events than
// acquires: a record cannot show how many callers one write served. Token counts are
// exact in any case.
//
// # Repeated delivery
//
// Streams deliver at least once. Within a batch a record counts once. Across batches
// [Usage] prevents double counting: each record is a step of its own, identified by its
// shard and sequence number, so that [Usage] recognizes steps that it has added.
//
// # Memory
//
// Memory is bounded by the batch, by the remembered namespaces (Options.Namespaces),
// and by the buckets that the limiter of each remembers. The aggregator also keeps the
// 10,000 sharded buckets most recently seen, with their counts at the last read.
// Nothing else of a record outlives [Aggregator.Process]. When a process ends, or the
// environment of a function, it forgets how long each bucket has been quiet. Nothing is
// merged where AWS Lambda replaces environments more often than every [Options].Quiet,
// nor where it delivers no records.
package aggregator
