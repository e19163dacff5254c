package aggregator

import (
	"context"
	"fmt"
	"sync"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Follow processes what a follower reads, until the context ends: then batches
// under way are finished, and it returns nil. Records that failed are processed
// again until they no longer do; those that cannot be read are logged, handed to
// Options.Observe, and passed over. Buckets that have become quiet are merged whether
// records come or not. Errors are those of [dynamo.Follower.Run].
func (a *Aggregator) Follow(ctx context.Context, f *dynamo.Follower) error {
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	if a.watch != nil {
		watcher.Go(func() { a.keepWatch(watching) })
	}
	defer watcher.Wait()
	defer stop()
	return f.Run(ctx, func(ctx context.Context, records []dynamo.Record) error {
		return a.take(ctx, records)
	})
}

// take processes records. When some fail, the others are emptied, so that they
// are of no interest when the follower brings all of them again.
func (a *Aggregator) take(ctx context.Context, records []dynamo.Record) error {
	// What was begun is finished although the follower is being stopped: requests
	// have ends of their own.
	res, err := a.Process(context.WithoutCancel(ctx), records)
	if err != nil || len(res.Failed) == 0 {
		return err
	}
	failed := res.Failed
	for i := range records {
		if len(failed) > 0 && failed[0].Index == i {
			failed = failed[1:]
			continue
		}
		records[i] = dynamo.Record{ID: records[i].ID, Sequence: records[i].Sequence, At: records[i].At}
	}
	return fmt.Errorf("%d of %d records were not taken in: %w", len(res.Failed), len(records), res.Failed[0].Err)
}
