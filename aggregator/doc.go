// Package aggregator does the work behind the requests (ADR 020). It reads the records of a
// table's stream, saves the usage of deleted buckets, and refills buckets before their users
// have to. It
// doubles the shards of buckets whose write rate approaches what one partition takes,
// and merges them when the rate has dropped. It passes expired audit events to an
// archive, if there is one. It does not depend on the source of the records:
//
//   - [Aggregator.Follow] reads the stream itself through a [stream.Follower], for a
//     table of DynamoDB or of an engine in the same process.
//   - Package aggregator/lambda is the function that AWS Lambda calls with records.
//   - [Aggregator.Process] accepts records from any caller.
//
// # Usage
//
// A bucket item keeps what was consumed of it in each hour. The record of its deletion shows
// all of that, and the aggregator saves it as the item's last page ([Usage]). So usage is
// exact whatever other records the stream has lost. It makes no difference who deleted the
// item: the table on its expiry, an operator, or a merge.
//
// # Repeated delivery
//
// Streams deliver at least once. Work that is done again has no further effect: a page is
// the same page, and refills, doublings and merges are conditional writes.
//
// # Memory
//
// Memory is bounded by the batch, by the remembered namespaces (Options.Namespaces),
// and by the buckets that the limiter of each remembers. The aggregator also keeps the
// 10,000 sharded buckets most recently seen, with their counts at the last read, and the
// traffic of 256 buckets ([Traffic]).
// Nothing else of a record outlives [Aggregator.Process]. When a process ends, or the
// environment of a function, it forgets how long each bucket has been quiet. Nothing is
// merged where AWS Lambda replaces environments more often than every [Options].Quiet,
// nor where it delivers no records.
package aggregator
