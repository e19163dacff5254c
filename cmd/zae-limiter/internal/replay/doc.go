// Package replay tells what limits would have done to what happened. It decides the
// events of a log in virtual time, with the arithmetic of the limiter.
//
// [Merge] and [Order] make one ordered stream of several logs, [Replayer.Add] decides an
// event, and [Replayer.Result] tells what came of it. [Replayer.Propose] searches for the
// smallest limits that refuse no more than a given share. Package replay/logs reads log
// files.
//
// # What is decided
//
// A decision is the one that a limiter takes for a bucket of one shard whose callers have
// exact clocks. A bucket starts full. An event takes its amounts of all limits of its
// entity's bucket, and of its parent's, or of none. An event of a refused request is not
// repeated: what callers would do after a refusal is not modelled. Latency, shards,
// coalescing, throttling, settlements of leases and changes of configuration are not
// modelled either.
//
// # Memory
//
// Memory grows with the number of buckets (pairs of entity and resource), never with the
// number of events. Order keeps the events of its window, up to a maximum.
package replay
