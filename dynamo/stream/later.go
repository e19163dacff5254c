package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
)

const (
	// mostLater bounds the deferred records of a shard, and with them their memory.
	mostLater = 10_000
	// laterPause is how long deferred records wait for others, and for the next
	// attempt.
	laterPause = 5 * time.Second
)

// A laterQueue holds the deferred records of a shard, which are delivered concurrently
// with the records that follow. They are in memory only. No checkpoint passes the first
// of them, so the next follower of the stream reads again from there.
//
//	reader        ── page ──▶ handle      page ──▶ handle
//	                   │                     │
//	                   └── defer ─▶ queue ◀──┘
//	its goroutine                    queue ── batch ──▶ later
type laterQueue struct {
	mu      sync.Mutex
	waiting []putOff
	inHand  []putOff      // the batch being delivered now
	taken   chan struct{} // signals that records were processed since the reader last waited for that
}

// A putOff is a deferred record.
type putOff struct {
	Record
	after string // the sequence number of the record before it
}

// put queues records; ok is false if there is no room for them. starts reports that the
// queue was empty, and that its goroutine must be started again.
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

// waits reports whether the queue holds records.
func (q *laterQueue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lenLocked() > 0
}

func (q *laterQueue) lenLocked() int { return len(q.waiting) + len(q.inHand) }

// next replaces the processed batch with the next one, of up to n records. It returns
// none if the queue is empty; then the queue's goroutine ends.
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

// shrinks waits until records were processed.
func (q *laterQueue) shrinks(ctx context.Context) error {
	select {
	case <-q.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// first returns the sequence number before the first queued record, if there is one.
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

// putOff queues records of a page for later delivery.
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

// emptyQueue delivers deferred records, a batch at a time, until none is left or the
// context ends.
func (s *shardReader) emptyQueue(ctx context.Context) {
	_ = conn.Sleep(ctx, laterPause) // more records may come
	for ctx.Err() == nil {
		batch := s.queue.next(s.o.Batch)
		if len(batch) == 0 || !s.insist(ctx, batch) {
			return
		}
	}
}

// insist delivers a batch of deferred records until later accepts it. It returns false
// if the context ends before.
func (s *shardReader) insist(ctx context.Context, batch []Record) bool {
	for {
		err := s.later(ctx, batch)
		if err == nil {
			return true
		}
		s.log.WarnContext(ctx, "deferred records not processed", "shard", s.id, "records", len(batch), "error", err)
		if conn.Sleep(ctx, laterPause) != nil {
			return false
		}
	}
}
