package drive

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// A Driver carries out the operations of one class for a time.
type Driver struct {
	Plan  *scenario.Plan
	Class int
	Now   func() time.Time
	Start time.Time // of this time
	// From is the instant of Start, from the start of the measurement, and Length how long
	// operations become due. They must begin within Patience after that.
	From, Length, Patience time.Duration
	// Next is the number of the class's next operation.
	Next *atomic.Int64
	// Begin learns of each operation, and how late the generator itself was; -1 if it was due
	// when its client was ready.
	Begin func(late time.Duration)
	// Do carries out an operation and returns when it has ended. Each client calls it from
	// its own goroutine.
	Do func(ctx context.Context, client int, op *scenario.Op, due time.Time)
}

// A Load makes the drivers of a plan, which count its operations together.
type Load struct {
	plan *scenario.Plan
	now  func() time.Time
	next []atomic.Int64 // number of the next operation, by class
}

// NewLoad makes a load that begins with the first operation of each class.
func NewLoad(p *scenario.Plan, now func() time.Time) *Load {
	return &Load{p, now, make([]atomic.Int64, len(p.Classes))}
}

// Drivers are those of the classes that are active in a phase, for a time from an instant on.
// Their Begin and Do are for the caller to set.
func (l *Load) Drivers(phase int, from, length time.Duration) (all []*Driver) {
	const leastPatience = 10 * time.Second
	for c := range l.plan.Classes {
		if l.plan.Classes[c].Active(phase) {
			all = append(all, &Driver{
				Plan: l.plan, Class: c, Now: l.now, From: from, Length: length, Patience: max(length, leastPatience), Next: &l.next[c],
			})
		}
	}
	return all
}

// Drive carries out the operations until their time is over or ctx is done, and waits for
// those in progress.
func (d *Driver) Drive(ctx context.Context) {
	if d.Plan.Classes[d.Class].Arrival.Open() {
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
func (d *Driver) open(ctx context.Context) {
	f := &feed{schedule: d.Plan.Schedule(d.Class, d.From), length: d.Length, next: d.Next}
	var clients sync.WaitGroup
	for client := range d.Plan.Classes[d.Class].Arrival.Clients {
		clients.Go(func() {
			alarm := time.NewTimer(d.Length)
			defer alarm.Stop()
			var op scenario.Op
			for ctx.Err() == nil {
				n, at, ok := f.take()
				if !ok {
					return
				}
				due, late := d.Start.Add(at), time.Duration(-1)
				if wait := due.Sub(d.Now()); wait > 0 {
					if !until(ctx, alarm, wait) {
						return
					}
					late = max(0, d.Now().Sub(due))
				} else if -wait > d.Patience {
					return // what is left is never begun
				}
				d.Plan.Op(d.Class, n, d.From+at, &op)
				d.Begin(late)
				d.Do(ctx, client, &op, due)
			}
		})
	}
	clients.Wait()
}

// closed carries out the operations of users. Their number follows the schedule.
func (d *Driver) closed(ctx context.Context) {
	schedule := d.Plan.Schedule(d.Class, d.From)
	var all sync.WaitGroup
	var stops []context.CancelFunc
	alarm := time.NewTimer(d.Length)
	defer alarm.Stop()
	for at := time.Duration(0); at < d.Length; {
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
		if !ok || next >= d.Length {
			next = d.Length
		}
		if !until(ctx, alarm, d.Start.Add(next).Sub(d.Now())) {
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
func (d *Driver) user(ctx, waiting context.Context, user int) {
	alarm := time.NewTimer(d.Length)
	defer alarm.Stop()
	var op scenario.Op
	end := d.Start.Add(d.Length)
	for waiting.Err() == nil {
		due := d.Now()
		if !due.Before(end) {
			return
		}
		d.Plan.Op(d.Class, d.Next.Add(1)-1, d.From+due.Sub(d.Start), &op)
		d.Begin(-1)
		d.Do(ctx, user, &op, due)
		think := op.Think
		if ended := d.Now(); think == 0 && ended.Equal(due) {
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

// Together carries out the operations of several classes from now on, the instant start. It
// takes at least the length.
func Together(ctx context.Context, all []*Driver, start time.Time, length time.Duration) {
	rest := time.NewTimer(length)
	defer rest.Stop()
	var running sync.WaitGroup
	for _, d := range all {
		d.Start = start
		running.Go(func() { d.Drive(ctx) })
	}
	running.Wait()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}
