package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Follow processes what a follower reads, until the context ends: then batches
// under way are finished, and it returns nil. Records that failed are processed
// again until they no longer do; those that cannot be read are logged, handed to
// Options.Observe, and passed over. Expired events are archived some seconds later,
// beside what comes after them. Buckets that have become quiet are merged whether
// records come or not. Errors are those of [dynamo.Follower.Run].
func (a *Aggregator) Follow(ctx context.Context, f *dynamo.Follower) error {
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	if a.watch != nil {
		watcher.Go(func() { a.keepWatch(watching) })
	}
	defer watcher.Wait()
	defer stop()
	return f.Run(ctx, a.take, a.takeLater)
}

// take processes records. Those of expired events are put off.
func (a *Aggregator) take(ctx context.Context, records []dynamo.Record) (events []int, err error) {
	// What was begun is finished although the follower is being stopped: requests
	// have ends of their own.
	ctx = context.WithoutCancel(ctx)
	b := newBatch(records, a.o.Now())
	a.takeIn(ctx, b)
	for _, d := range a.expired(b) {
		events = append(events, d.records...)
	}
	slices.Sort(events)
	res := b.result()
	a.tell(ctx, &res)
	return events, again(records, &res, events)
}

// takeLater archives the expired events that records tell of.
func (a *Aggregator) takeLater(ctx context.Context, records []dynamo.Record) error {
	ctx = context.WithoutCancel(ctx)
	b := newBatch(records, a.o.Now())
	a.archive(ctx, b, a.expired(b))
	res := b.result()
	res.Records, res.Lag = 0, 0 // as they were told when the records were taken
	a.tell(ctx, &res)
	return again(records, &res, nil)
}

// again is an error if some of the records failed. The others are emptied then, but
// for those that are to be kept, so that they are of no interest when the follower
// brings all of them again.
func again(records []dynamo.Record, res *Result, keep []int) error {
	failed := res.Failed
	if len(failed) == 0 {
		return nil
	}
	for i := range records {
		switch {
		case len(failed) > 0 && failed[0].Index == i:
			failed = failed[1:]
		case len(keep) > 0 && keep[0] == i:
			keep = keep[1:]
		default:
			records[i] = dynamo.Record{ID: records[i].ID, Sequence: records[i].Sequence, At: records[i].At}
		}
	}
	return fmt.Errorf("%d of %d records were not taken in: %w", len(res.Failed), len(records), res.Failed[0].Err)
}
