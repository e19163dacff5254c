// Package dynamolite is a DynamoDB-compatible engine that lives in the calling process.
//
// A [DB] offers the DynamoDB data plane as methods with the signatures of the AWS SDK's client, so
// a caller that depends on a few of them through an interface takes a *[DB] in place of a
// *dynamodb.Client. Nothing is serialised and nothing is sent: a call costs microseconds. Data is
// held in memory and is gone when the process ends.
//
// Its truth is AWS's documented behaviour: expressions, exact decimal numbers, item and key limits,
// secondary indexes, transactions, error types, and the bill. Every operation accounts for the
// capacity it would consume on AWS, conditional failures and index writes included; read the sum
// with [DB.Ledger], or each share with ReturnConsumedCapacity.
//
// # Structure
//
// A table is a fixed number of shards, chosen by a hash of the partition key, each with one lock and
// one ordered tree of items. The key of the tree is an order-preserving encoding of partition key
// and sort key, so that a partition is a contiguous range. A global secondary index has the same
// form: its tree key is the index's own keys followed by the table's, so that items which tie on
// the index's keys have an order and a page can resume between them.
//
// These always hold:
//   - A stored item is never changed in place. A write stores a new item that shares unchanged
//     values with the old one, so a reader that left the lock still holds a consistent image. What
//     enters is copied and what leaves is copied: no caller reaches the store through an alias.
//   - Table shards are locked before index shards, and of several table shards the one of the older
//     table, then of the lower number, first. At most one index shard is held at a time.
//   - A write is first evaluated, with no side effect, and then applied, which cannot fail. A
//     transaction evaluates all its writes under all its locks and applies them or none.
//   - An index is brought up to date under the lock of the table shard, so index entries follow the
//     order of the writes of their item. A query of an index may all the same see a transaction
//     half applied, as on AWS.
//
// The naive design is one lock and one map per database. It is simpler and several times slower with
// concurrent callers, and a map gives no order for Query. One tree per partition key was the
// other choice; most partitions hold one item, and a tree for each costs more memory than it saves time.
//
// # What it leaves out
//
// Scan, UpdateTable, local secondary indexes, streams, TTL, tags, backups, PartiQL, the legacy
// parameters that expressions replaced (Expected, AttributeUpdates, KeyConditions, …), throttling,
// durability and the HTTP protocol. A request that uses one of these is refused with a
// ValidationException that names it. Table names are names, not ARNs. The option functions of the
// SDK's signatures configure a client's transport; there is none here, so they are not called.
package dynamolite
