package store

import "fmt"

// A SaturatedWarning says that a bucket has [MaxShards] shards and is written to faster
// than they all sustain: its callers wait for each other. The limiter logs it, once for
// each bucket and limiter, as the attribute "warning".
type SaturatedWarning struct{ Entity, Resource string }

// WritesPerSecond is what the hidden write limit of one shard admits: the writes that
// one DynamoDB partition sustains.
const WritesPerSecond = 1000

// String names the bucket and what to do.
func (w SaturatedWarning) String() string {
	return fmt.Sprintf("%s of entity %q is written to more than %d times a second, and has no more than %d shards: spread the load over several entities",
		w.Resource, w.Entity, MaxShards*WritesPerSecond, MaxShards)
}
