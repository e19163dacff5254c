// Package dynamolite is a DynamoDB-compatible engine that lives in the calling process (ADR 003).
//
// A [DB] offers the DynamoDB API as methods with the signatures of the AWS SDK's client. A caller
// that depends on some of them through an interface can use a *[DB] in place of a
// *dynamodb.Client. The engine serialises nothing and sends nothing, so a call costs
// microseconds. [New] makes a database in memory, [Open] makes one in a directory, and
// [NewHandler] offers one over HTTP to any DynamoDB client.
//
// The engine follows AWS's documented behaviour: expressions, exact decimal numbers, item and key
// limits, secondary indexes, transactions, streams, expiry, error types, and the bill. Every
// operation accounts for the capacity that it would consume on AWS, including conditional
// failures and index writes. [DB.Ledger] returns the sum, and ReturnConsumedCapacity returns each
// operation's share. With [Options.Limits] the engine throttles as AWS does; with
// [Options.Latency] it takes as long as AWS.
//
// # Structure
//
// A table has a fixed number of shards. A hash of the partition key chooses the shard. Each shard
// has one lock, a map that finds single items, and one ordered tree of items. The tree key is an
// order-preserving encoding of the partition key and the sort key, so a partition is a contiguous
// range.
//
// An index has the same form. Its tree key is the index's own keys followed by the table's keys.
// Items with equal index keys therefore have an order, and a page can resume between them. Items
// at rest are encoded: each is one string of about the size that AWS counts. The engine decodes
// them for each request.
//
// These always hold:
//   - A stored item is never changed in place. A write stores a new item that shares unchanged
//     values with the old one. A reader that has released the lock therefore still holds a
//     consistent image. The engine copies everything that enters and everything that leaves: no
//     caller reaches the store through an alias.
//   - Table shards are locked before index shards. Among table shards, the order is by the age of
//     the table, oldest first, and then by the shard number. At most one index shard is held at a
//     time.
//   - A write is first evaluated, without side effects, and then applied, which cannot fail. A
//     transaction evaluates all its writes under all its locks, takes their items, and then
//     applies all or none.
//   - An index is updated under the lock of the table shard, so index entries follow the order of
//     the writes of their item. A query of an index may still see a transaction half applied, as
//     on AWS.
//
// The naive design is one lock and one map per database. It is simpler, but several times slower
// with concurrent callers, and a map gives no order for Query. The other choice was one tree per
// partition key. Most partitions hold one item, and a tree for each costs more memory than it
// saves time.
//
// # On disk
//
// A write is appended to a log under the locks of its items. The log therefore has the order of
// the writes of each item, and a transaction is one entry. The engine answers only after
// everything that the answer depends on is on disk. This holds for writes and also for reads of
// another caller's recent write. One sync of the log serves all callers that wait for it.
//
// When the log has outgrown the data, a checkpoint replaces it. The engine clones the trees
// between two writes, which costs nothing, and writes the clones out while operations continue.
// Indexes are not on disk; [Open] rebuilds them. The ledger starts at zero.
//
// # Limitations
//
// The engine leaves out PartiQL, backups, global tables, exports and imports, and resource
// policies. It stores and describes settings of encryption, on-demand limits and warm throughput,
// which change nothing. It also leaves out the legacy parameters that expressions replaced
// (Expected, AttributeUpdates, KeyConditions, …). A request that uses one of these fails with a
// ValidationException that names it. Over HTTP, an operation of this kind fails with an
// UnknownOperationException. A table may be named by its ARN, of any account and region. The option functions of the SDK's
// signatures configure a client's transport. The engine has no transport, so it does not call
// them.
package dynamolite
