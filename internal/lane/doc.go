// Package lane has the queue in which callers of one process share a write. It knows
// nothing of buckets: a caller queues with a claim of any type.
package lane
