package loadtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Pace determines when operations are due. In the zero Pace none is due.
type Pace struct {
	// Rate is the number of operations per second, evenly spaced; 0 is a closed loop.
	Rate int64
	// For is how long operations become due.
	For time.Duration
}

// Due is the time from the start at which operation n is due, counted from 0; false after
// the end. It needs a rate.
func (p Pace) Due(n int64) (at time.Duration, ok bool) {
	// Computing whole seconds separately avoids overflow.
	at = time.Duration(n/p.Rate)*time.Second + time.Duration(n%p.Rate)*time.Second/time.Duration(p.Rate)
	return at, at < p.For
}

// Count is the number of operations that become due; 0 for a closed loop, where it is
// unknown.
func (p Pace) Count() int64 {
	if p.Rate == 0 {
		return 0
	}
	seconds, rest := p.For/time.Second, p.For%time.Second
	n := int64(seconds)*p.Rate + int64(rest)*p.Rate/int64(time.Second)
	if _, more := p.Due(n); more {
		n++
	}
	return n
}

// A load is a sequence of operations, numbered from first, that clients carry out.
type load struct {
	Pace
	clients int
	first   int64
	// do carries out operation n, which was due at an instant. Each client calls it from
	// its own goroutine.
	do func(ctx context.Context, client int, n int64, due time.Time)
}

// drive runs a load from start until its time is over or ctx is done, and waits for the
// operations in progress. It returns how many operations it began.
func (l load) drive(ctx context.Context, now func() time.Time, start time.Time) int64 {
	var next, begun atomic.Int64
	var clients sync.WaitGroup
	for client := range l.clients {
		clients.Go(func() {
			alarm := time.NewTimer(l.For)
			defer alarm.Stop()
			var last time.Time
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				due := now()
				if l.Rate > 0 {
					at, ok := l.Due(n)
					if !ok {
						return
					}
					due = start.Add(at)
					if !until(ctx, alarm, due.Sub(now())) {
						return
					}
				} else if due.Sub(start) >= l.For {
					return
				} else if due.Equal(last) {
					// The clock is virtual and the last operation took no time: without a
					// pause the clock would stand still forever.
					const pause = time.Millisecond
					until(ctx, alarm, pause)
					due = now()
				}
				last = due
				begun.Add(1)
				l.do(ctx, client, l.first+n, due)
			}
		})
	}
	clients.Wait()
	return begun.Load()
}

// until waits for d; false if ctx is done before.
func until(ctx context.Context, alarm *time.Timer, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	alarm.Reset(d)
	select {
	case <-alarm.C:
		return true
	case <-ctx.Done():
		alarm.Stop()
		return false
	}
}

// A draw is the random choice of an operation's request.
type draw struct {
	entity, resource int
	reserve, use     int64 // tokens of the limit that is settled
	all              bool  // requests the whole capacity
}

// draw chooses the request of operation n from the seed and n alone, so that it does not
// depend on the order of the clients.
func (w *workload) draw(seed uint64, n int64) draw {
	if w.inTurn {
		return draw{entity: int(n % int64(len(w.entities)))}
	}
	var p rand.PCG
	p.Seed(seed, uint64(n))
	below := func(bound int) int { return int(p.Uint64() % uint64(bound)) }
	d := draw{entity: below(len(w.entities)), resource: below(len(w.resources))}
	if w.settles {
		const least, spread = 100, 1500
		d.reserve = int64(least + below(spread))
		d.use = 1 + int64(below(int(d.reserve)))
	}
	return d
}
