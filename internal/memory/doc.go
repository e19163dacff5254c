// Package memory holds what one process remembers of buckets: the last image of each
// shard, the number of shards, which items other processes write to, which shards
// throttle, and what each bucket is to be. It sends nothing and waits for nothing.
//
// A memory may be behind. Every write is conditional, so a wrong memory costs a round
// trip and never an error.
package memory
