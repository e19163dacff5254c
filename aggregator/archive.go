package aggregator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// An Archive keeps the events of the audit trail that a table has deleted because
// they had expired. *archive.Archive is one.
type Archive interface {
	// Put stores events of one day (UTC), all or none, and returns the bytes that
	// they take. The same events may be given again.
	Put(ctx context.Context, day time.Time, events []dynamo.TrailEvent) (size int, err error)
}

// An expiry is the expired events of a batch that are of one day.
type expiry struct {
	day     time.Time
	events  []dynamo.TrailEvent
	records []int // of each event
}

// archive stores expired events that the batch tells of, those of namespaces that
// do not exist any more among them. Events that are not stored leave their
// records failed: the table has them no more.
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

// expired are the expired events of a batch by day, if they are to be archived. Those
// that cannot be read are poisoned.
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
