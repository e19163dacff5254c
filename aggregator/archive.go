package aggregator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// An Archive keeps audit events that a table has deleted on expiry. *archive.Archive is
// one.
type Archive interface {
	// Put stores all events of one day (UTC) or none, and returns their size in bytes. It
	// accepts the same events again.
	Put(ctx context.Context, day time.Time, events []audit.TrailEvent) (size int, err error)
}

// An expiry is the expired events of one day in a batch.
type expiry struct {
	day     time.Time
	events  []audit.TrailEvent
	records []int // one for each event
}

// archive stores the expired events of the batch, including those of deleted namespaces. If
// events are not stored, their records fail: the table no longer has them.
func (a *Aggregator) archive(ctx context.Context, b *batch, days []*expiry) {
	var events, size atomic.Int64
	a.atOnce(len(days), func(i int) {
		d := days[i]
		n, err := a.o.Archive.Put(ctx, d.day, d.events)
		if err != nil {
			b.fail(d.records, fmt.Errorf("archive events of %s: %w", d.day.Format(time.DateOnly), err))
			return
		}
		events.Add(int64(len(d.events)))
		size.Add(int64(n))
	})
	b.archived, b.archivedBytes = int(events.Load()), int(size.Load())
}

// expired groups the expired events of a batch by day, if there is an archive. Unreadable
// ones are poisoned.
func (a *Aggregator) expired(b *batch) (days []*expiry) {
	if a.o.Archive == nil {
		return nil
	}
	byDay := map[time.Time]*expiry{}
	for i := range b.records {
		r := &b.records[i]
		if r.Item == nil || r.Err != nil {
			continue
		}
		e, ok, err := r.ExpiredEvent()
		if err != nil {
			b.poisoned = append(b.poisoned, Failure{i, r.ID, r.Sequence, fmt.Errorf("read the end of %s: %w", r.Key, err)})
			continue
		}
		if !ok {
			continue
		}
		day := e.Time.UTC().Truncate(24 * time.Hour)
		d := byDay[day]
		if d == nil {
			d = &expiry{day: day}
			byDay[day] = d
			days = append(days, d)
		}
		d.events, d.records = append(d.events, e), append(d.records, i)
	}
	return days
}
