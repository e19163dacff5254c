package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// Follow processes what a follower reads until the context ends. It then finishes the
// batches in progress and returns nil. It retries failed records until they succeed. It
// logs records that cannot be read, passes them to Options.Observe, and skips them. It
// archives expired events some seconds later, without delaying later records. It merges
// quiet buckets even if no records come. Errors are those of [stream.Follower.Run].
func (a *Aggregator) Follow(ctx context.Context, f *stream.Follower) error {
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	if a.watch != nil {
		watcher.Go(func() { a.keepWatch(watching) })
	}
	defer watcher.Wait()
	defer stop()
	return f.Run(ctx, a.take, a.takeLater)
}

// take processes records, and defers those of expired events.
func (a *Aggregator) take(ctx context.Context, records []stream.Record) (events []int, err error) {
	// Work in progress is finished although the follower stops: requests have their own
	// timeouts.
	ctx = context.WithoutCancel(ctx)
	b := a.sort(ctx, records)
	a.save(ctx, b)
	a.followPeers(ctx, b)
	a.tend(ctx, b)
	a.mergeQuiet(ctx, b)
	for _, d := range b.days {
		events = append(events, d.records...)
	}
	slices.Sort(events)
	res := a.tell(ctx, b)
	return events, again(records, &res, events)
}

// takeLater archives the expired events in records.
func (a *Aggregator) takeLater(ctx context.Context, records []stream.Record) error {
	ctx = context.WithoutCancel(ctx)
	b := a.sort(ctx, records)
	b.result.Records, b.result.Lag = 0, 0 // reported when the records were first processed
	a.archive(ctx, b)
	res := a.tell(ctx, b)
	return again(records, &res, nil)
}

// again returns an error if some records failed. It then empties the other records, except
// those to keep, so that they have no effect when the follower delivers all of them again.
func again(records []stream.Record, res *Result, keep []int) error {
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
			records[i] = stream.Record{ID: records[i].ID, Sequence: records[i].Sequence, At: records[i].At}
		}
	}
	return fmt.Errorf("%d of %d records were not processed: %w", len(res.Failed), len(records), res.Failed[0].Err)
}
