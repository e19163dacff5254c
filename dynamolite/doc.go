// Package dynamolite is a DynamoDB-compatible engine that lives in the calling process.
//
// A [DB] offers the DynamoDB API as methods with the signatures of the AWS SDK's client, so
// a caller that depends on a few of them through an interface takes a *[DB] in place of a
// *dynamodb.Client. Nothing is serialised and nothing is sent: a call costs microseconds. [New] makes one
// in memory, [Open] one in a directory, and [NewHandler] offers it over HTTP to any DynamoDB client.
//
// Its truth is AWS's documented behaviour: expressions, exact decimal numbers, item and key limits,
// secondary indexes, transactions, streams, expiry, error types, and the bill. Every operation accounts for the
// capacity it would consume on AWS, conditional failures and index writes included; read the sum
// with [DB.Ledger], or each share with ReturnConsumedCapacity. With [Options.Limits] it throttles as AWS does, with
// [Options.Latency] it takes as long.
//
// # Structure
//
// A table is a fixed number of shards, chosen by a hash of the partition key, each with one lock and
// one ordered tree of items. The key of the tree is an order-preserving encoding of partition key
// and sort key, so that a partition is a contiguous range. An index has the same
// form: its tree key is the index's own keys followed by the table's, so that items which tie on
// the index's keys have an order and a page can resume between them. Items at rest are encoded, each
// one string of about the size that AWS counts, and are decoded for each request.
//
// These always hold:
//   - A stored item is never changed in place. A write stores a new item that shares unchanged
//     values with the old one, so a reader that left the lock still holds a consistent image. What
//     enters is copied and what leaves is copied: no caller reaches the store through an alias.
//   - Table shards are locked before index shards, and of several table shards the one of the older
//     table, then of the lower number, first. At most one index shard is held at a time.
//   - A write is first evaluated, with no side effect, and then applied, which cannot fail. A
//     transaction evaluates all its writes under all its locks, takes their items, and then applies all or none.
//   - An index is brought up to date under the lock of the table shard, so index entries follow the
//     order of the writes of their item. A query of an index may all the same see a transaction
//     half applied, as on AWS.
//
// The naive design is one lock and one map per database. It is simpler and several times slower with
// concurrent callers, and a map gives no order for Query. One tree per partition key was the
// other choice; most partitions hold one item, and a tree for each costs more memory than it saves time.
//
// # On disk
//
// A write is appended to a log under the locks of its items, so the log has the order of the writes of each item, and a
// transaction is one entry of it. Nothing is answered before what the answer depends on is on disk: not a
// write, and not a read of what another caller has just written. The log is synced for all who wait together. When it has
// outgrown the data a checkpoint takes its place: the trees are cloned, which costs nothing, between two
// writes, and written out beside what goes on. Indexes are not on disk; [Open] makes them anew. The ledger
// begins at zero.
//
// # What it leaves out
//
// PartiQL, backups, global tables, exports and imports, resource policies, encryption settings and the legacy
// parameters that expressions replaced (Expected, AttributeUpdates, KeyConditions, …). A request that uses
// one of these is refused with a ValidationException that names it, over HTTP an operation of theirs with an
// UnknownOperationException. Table names are names, not ARNs. The option functions of the
// SDK's signatures configure a client's transport; there is none here, so they are not called.
package dynamolite
