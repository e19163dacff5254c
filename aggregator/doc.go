// Package aggregator does what goes on behind the requests: it reads the records
// of a table's stream, sums up usage, refills buckets before their users have to,
// doubles the shards of those that are about to be written to faster than one
// partition takes, and merges those that no longer are. The events of the audit
// trail that expire it hands to an archive, if there is one. It knows nothing of
// where records come from:
//
//   - [Aggregator.Follow] reads the stream itself, of a table of DynamoDB or of an
//     engine in the same process, by way of a [dynamo.Follower].
//   - Package aggregator/lambda is the function that AWS Lambda calls with them.
//   - [Aggregator.Process] takes them from anybody.
//
// # What is counted
//
// A bucket item counts what was ever consumed of each limit, less what was
// returned. The difference between the two images of a record is what one write
// consumed; of an item that is new, all that it has counted. It belongs to the
// window of the record's own time, which is cut to the second. The hidden write
// limit is never counted. What a merge retires was counted when it was consumed: an
// item that is deleted has consumed nothing by that, and the one that takes over what
// it held does not take over its count.
//
// A write is one event if it consumed anything of any limit. Where callers of a
// process share writes (limiter.Options.InFlight) that is fewer events than
// acquires: a record cannot tell how many callers one write served. Tokens are
// exact in any case.
//
// # Delivered twice
//
// Streams deliver at least once. Within a batch a record counts once. Across
// batches what counts is [Usage]: each record is a step of its own, named by its
// shard and sequence number, so that those which were added before can be told.
//
// # What is not kept
//
// Memory is bounded by the batch, by the namespaces that are remembered
// (Options.Namespaces), by the buckets that the limiter of each remembers, and by
// the last 10,000 sharded buckets that were heard of, with what they had counted
// when they were last read: nothing else of a record outlives
// [Aggregator.Process]. How long a bucket has been quiet is forgotten by a process
// that ends, a function's environment too: where AWS Lambda starts them anew more often
// than every [Options].Quiet, and where it brings no records, nothing is merged.
package aggregator
