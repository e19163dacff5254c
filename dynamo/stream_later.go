package dynamo

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// mostLater bounds the records of a shard that are put off, and with them the
	// memory that they take.
	mostLater = 10_000
	// laterPause is how long records that are put off wait for others, and for the
	// next try.
	laterPause = 5 * time.Second
)

// A laterQueue holds records of a shard that are handed on beside those that come
// after them. They are in memory only: no checkpoint passes the first of them, so
// that whoever follows the stream next reads it again from there.
//
//	reader        ── page ──▶ handle      page ──▶ handle
//	                   │                     │
//	                   └─ put off ─▶ queue ◀─┘
//	its goroutine                    queue ── batch ──▶ later
type laterQueue struct {
	mu      sync.Mutex
	waiting []putOff
	inHand  []putOff      // what is handed on now
	taken   chan struct{} // some have been taken in since the reader last waited for that
}

// A putOff is a record that was put off.
type putOff struct {
	Record
	after string // the sequence number of the record before it
}

// put queues records; ok is false if there is no room for them. starts says that
// the queue was empty, and needs a goroutine again that empties it.
func (q *laterQueue) put(records []putOff) (starts, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.lenLocked()
	if n > 0 && n+len(records) > mostLater {
		return false, false
	}
	q.waiting = append(q.waiting, records...)
	return n == 0, true
}

// waits reports whether there are any.
func (q *laterQueue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lenLocked() > 0
}

func (q *laterQueue) lenLocked() int { return len(q.waiting) + len(q.inHand) }

// next takes so many records into hand, instead of those that have been taken in by
// now; none if there are none, and then the queue's goroutine ends.
func (q *laterQueue) next(n int) (batch []Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.waiting))
	q.inHand = slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	select {
	case q.taken <- struct{}{}:
	default:
	}
	for i := range q.inHand {
		batch = append(batch, q.inHand[i].Record)
	}
	return batch
}

// shrinks waits until some have been taken in.
func (q *laterQueue) shrinks(ctx context.Context) error {
	select {
	case <-q.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// first is the sequence number before the first record, if there is one.
func (q *laterQueue) first() (after string, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, records := range [...][]putOff{q.inHand, q.waiting} {
		if len(records) > 0 {
			return records[0].after, true
		}
	}
	return "", false
}

// putOff has records of a page handed on later.
func (s *shardReader) putOff(ctx context.Context, page []Record, indexes []int) error {
	if len(indexes) == 0 {
		return nil
	}
	records := make([]putOff, 0, len(indexes))
	for _, i := range indexes {
		after := s.after
		if i > 0 {
			after = page[i-1].Sequence
		}
		records = append(records, putOff{page[i], after})
	}
	for {
		switch starts, ok := s.queue.put(records); {
		case starts:
			s.readers.Go(func() { s.emptyQueue(ctx) })
			return nil
		case ok:
			return nil
		}
		if err := s.queue.shrinks(ctx); err != nil {
			return err
		}
	}
}

// emptyQueue hands on what was put off, a batch at a time, until nothing is, or the
// context ends.
func (s *shardReader) emptyQueue(ctx context.Context) {
	_ = sleep(ctx, laterPause) // others may come
	for ctx.Err() == nil {
		batch := s.queue.next(s.o.Batch)
		if len(batch) == 0 || !s.insist(ctx, batch) {
			return
		}
	}
}

// insist hands on a batch that was put off until it is taken in; false if the
// context ends before.
func (s *shardReader) insist(ctx context.Context, batch []Record) bool {
	for {
		err := s.later(ctx, batch)
		if err == nil {
			return true
		}
		s.log.WarnContext(ctx, "records put off were not taken in", "shard", s.id, "records", len(batch), "error", err)
		if sleep(ctx, laterPause) != nil {
			return false
		}
	}
}
