package loadtest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
)

// A driver carries out the operations of one class for a time.
type driver struct {
	plan  *scenario.Plan
	class int
	now   func() time.Time
	start time.Time // of this time
	// from is the instant of start, from the start of the measurement, and length how long
	// operations become due. They must begin within patience after that.
	from, length, patience time.Duration
	// next is the number of the class's next operation.
	next *atomic.Int64
	// do carries out an operation and returns when it has ended. Each client calls it from
	// its own goroutine.
	do func(ctx context.Context, client int, op *scenario.Op, due time.Time)

	tally *tally
}

// drive carries out the operations until their time is over or ctx is done, and waits for
// those in progress.
func (d *driver) drive(ctx context.Context) {
	if d.plan.Classes[d.class].Arrival.Open() {
		d.open(ctx)
		return
	}
	d.closed(ctx)
}

// A feed hands out the operations of a rate, in the order in which they are due.
type feed struct {
	mu       sync.Mutex
	schedule *scenario.Schedule
	length   time.Duration
	next     *atomic.Int64
}

// take returns the number of the next operation, and when it is due; false after the last.
func (f *feed) take() (n int64, due time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due, ok = f.schedule.Next()
	if !ok || due >= f.length {
		return 0, 0, false
	}
	return f.next.Add(1) - 1, due, true
}

// open carries out the operations of a rate.
func (d *driver) open(ctx context.Context) {
	f := &feed{schedule: d.plan.Schedule(d.class, d.from), length: d.length, next: d.next}
	var clients sync.WaitGroup
	for client := range d.plan.Classes[d.class].Arrival.Clients {
		clients.Go(func() {
			alarm := time.NewTimer(d.length)
			defer alarm.Stop()
			var op scenario.Op
			for ctx.Err() == nil {
				n, at, ok := f.take()
				if !ok {
					return
				}
				due, late := d.start.Add(at), time.Duration(-1)
				if wait := due.Sub(d.now()); wait > 0 {
					if !until(ctx, alarm, wait) {
						return
					}
					late = max(0, d.now().Sub(due))
				} else if -wait > d.patience {
					return // what is left is never begun
				}
				d.plan.Op(d.class, n, d.from+at, &op)
				d.tally.begin(late)
				d.do(ctx, client, &op, due)
			}
		})
	}
	clients.Wait()
}

// closed carries out the operations of users. Their number follows the schedule.
func (d *driver) closed(ctx context.Context) {
	schedule := d.plan.Schedule(d.class, d.from)
	var all sync.WaitGroup
	var stops []context.CancelFunc
	alarm := time.NewTimer(d.length)
	defer alarm.Stop()
	for at := time.Duration(0); at < d.length; {
		users := schedule.Users(at)
		for len(stops) < users {
			waiting, stop := context.WithCancel(ctx)
			user := len(stops)
			stops = append(stops, stop)
			all.Go(func() { d.user(ctx, waiting, user) })
		}
		for len(stops) > users {
			stops[len(stops)-1]()
			stops = stops[:len(stops)-1]
		}
		next, ok := schedule.NextUsers(at)
		if !ok || next >= d.length {
			next = d.length
		}
		if !until(ctx, alarm, d.start.Add(next).Sub(d.now())) {
			break
		}
		at = next
	}
	all.Wait()
	for _, stop := range stops {
		stop()
	}
}

// user carries out operations until the time is over, or until waiting is done.
func (d *driver) user(ctx, waiting context.Context, user int) {
	alarm := time.NewTimer(d.length)
	defer alarm.Stop()
	var op scenario.Op
	end := d.start.Add(d.length)
	for waiting.Err() == nil {
		due := d.now()
		if !due.Before(end) {
			return
		}
		d.plan.Op(d.class, d.next.Add(1)-1, d.from+due.Sub(d.start), &op)
		d.tally.begin(-1)
		d.do(ctx, user, &op, due)
		think := op.Think
		if ended := d.now(); think == 0 && ended.Equal(due) {
			// The clock is virtual and the operation took no time: without a pause the
			// clock would stand still forever.
			think = time.Millisecond
		} else if !ended.Add(think).Before(end) {
			return
		}
		if !until(waiting, alarm, think) {
			return
		}
	}
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
