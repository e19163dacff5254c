package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Aggregator processes records. It is safe for concurrent use, as long as
// records of one item are not processed at the same time.
type Aggregator struct {
	o          Options
	namespaces *namespaces
	watch      *watch    // buckets that may be merged; nil without merging
	looks      *roll     // last looks at the shards of buckets
	traffic    *traffic  // of the busiest buckets
	warned     sync.Once // that the Python package's aggregator runs, too
}

// New makes an aggregator. It does no I/O. It fails with [store.ErrInvalid] if
// there is no opener or an option is negative.
func New(open Opener, o Options) (*Aggregator, error) {
	if open == nil {
		return nil, &store.ValidationError{Field: "open", Value: "nil", Reason: "give a function that opens namespaces"}
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Aggregator{o: o, namespaces: newNamespaces(open, o), looks: newRoll(), traffic: newTraffic(o.Busiest, o.MaxAge)}
	if o.Quiet > 0 {
		a.watch = newWatch(o.Quiet)
	}
	return a, nil
}

// Close forgets all namespaces: it waits for what goes on in the background, for some
// seconds at most, and calls their Close. Call it when nothing is processed any more.
func (a *Aggregator) Close() { a.namespaces.close() }

// A Result is the result of a batch.
type Result struct {
	Records int // in the batch, including those that it ignores
	Buckets int // bucket items that the records are about
	// Pages are deleted items whose hours were saved as usage, unless their entity was deleted.
	Pages int
	// Refills of items, and Doublings, Mends and Merges of the shards of buckets.
	Refills, Doublings, Mends, Merges int
	// Hours were closed for clients of the Python package, and Days copied for its readers.
	Hours, Days int
	// PeerUsage counts writes of the Python package's aggregator. Switch it off: what it counts
	// is in the hours of buckets, too.
	PeerUsage int
	// Healed counts items whose stamp lay far ahead and was moved back. Braked counts refills
	// that were not sent because the store had just throttled the item.
	Healed, Braked int
	// Archived counts audit events, stored in objects of ArchivedBytes in total.
	Archived, ArchivedBytes int
	// Errors are failed refills, doublings, mends and merges, and copies without permission. They lose nothing, and no
	// record is delivered again because of them.
	Errors int
	// Lag is the age of the oldest record.
	Lag time.Duration
	// Failed are records whose namespace could not be opened, whose hours were not closed or
	// saved, whose day was not copied or whose event was not archived, in the order of the
	// batch. Deliver them again.
	Failed []Failure
	// Poisoned are records that can never be read, in the order of the batch.
	Poisoned []Failure
}

// A Failure is a record that was not processed, and the reason.
type Failure struct {
	Index        int // in the batch
	ID, Sequence string
	Err          error
}

// Process processes a batch of records. It saves the hours of deleted items, some at a time,
// and makes one write for each bucket item that is worth a refill. It also makes the writes
// that double or merge a bucket, and one archive object for each day of expired audit events.
//
// Without records, Process does what is due for earlier records. A failure does not stop
// the rest. The error is the context's, if the context has ended; the result counts the
// completed work in any case.
func (a *Aggregator) Process(ctx context.Context, records []stream.Record) (Result, error) {
	b := a.sort(ctx, records)
	a.save(ctx, b)
	a.followPeers(ctx, b)
	a.tend(ctx, b)
	a.mergeQuiet(ctx, b)
	a.archive(ctx, b)
	return a.tell(ctx, b), ctx.Err()
}

// save saves the last pages of usage of the items that were deleted (ADR 039).
func (a *Aggregator) save(ctx context.Context, b *batch) {
	a.atOnce(len(b.remains), func(i int) {
		m := b.remains[i]
		if err := m.usage.Save(ctx, m.diaries...); err != nil {
			b.fail(m.records, fmt.Errorf("save the usage of deleted buckets: %w", err))
			return
		}
		b.tally(func(r *Result) { r.Pages += len(m.diaries) })
	})
}

// archive stores the expired events of the batch, including those of deleted namespaces. If
// events are not stored, their records fail: the table no longer has them.
func (a *Aggregator) archive(ctx context.Context, b *batch) {
	a.atOnce(len(b.days), func(i int) {
		d := b.days[i]
		size, err := a.o.Archive.Put(ctx, d.day, d.events)
		if err != nil {
			b.fail(d.records, fmt.Errorf("archive events of %s: %w", d.day.Format(time.DateOnly), err))
			return
		}
		b.tally(func(r *Result) { r.Archived, r.ArchivedBytes = r.Archived+len(d.events), r.ArchivedBytes+size })
	})
}

// tell ends a batch: it reports the result, and ends the use of the namespaces.
func (a *Aggregator) tell(ctx context.Context, b *batch) Result {
	res := b.result
	for i, err := range b.failed {
		if err != nil {
			res.Failed = append(res.Failed, b.failure(i, err))
		}
	}
	res.Healed, res.Braked = a.namespaces.end(b.namespaces)
	a.report(ctx, &res)
	a.o.Observe(res)
	return res
}

// report logs each failure.
func (a *Aggregator) report(ctx context.Context, res *Result) {
	for _, f := range res.Poisoned {
		a.o.Logger.ErrorContext(ctx, "record cannot be read", "event_id", f.ID, "sequence", f.Sequence, "error", f.Err)
	}
	for _, f := range res.Failed {
		a.o.Logger.WarnContext(ctx, "record was not processed", "event_id", f.ID, "sequence", f.Sequence, "error", f.Err)
	}
	if res.PeerUsage > 0 {
		a.warned.Do(func() {
			a.o.Logger.WarnContext(ctx, "the aggregator of the Python package writes usage to this table, too: switch it off, see docs/python.md")
		})
	}
	level := slog.LevelInfo
	if res.Buckets+res.Merges+res.Archived+len(res.Failed)+len(res.Poisoned) == 0 {
		level = slog.LevelDebug // the aggregator's own writes come back as records
	}
	a.o.Logger.Log(ctx, level, "batch processed", "records", res.Records, "buckets", res.Buckets, "pages", res.Pages,
		"refills", res.Refills, "doublings", res.Doublings, "mends", res.Mends, "merges", res.Merges, "errors", res.Errors,
		"hours", res.Hours, "days", res.Days, "peer_usage", res.PeerUsage,
		"healed", res.Healed, "braked", res.Braked,
		"archived", res.Archived, "archived_bytes", res.ArchivedBytes,
		"failed", len(res.Failed), "poisoned", len(res.Poisoned), "lag_ms", res.Lag.Milliseconds())
}

// atOnce runs f for 0 to n−1, several at a time.
func (a *Aggregator) atOnce(n int, f func(i int)) {
	workers := min(n, a.o.Concurrency)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var all sync.WaitGroup
	var next atomic.Int64
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}
