package locust

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// users are the goroutines that carry out the load. The methods are for one goroutine.
type users struct {
	load  Load
	stats *stats
	now   func() time.Time
	names []string // of the classes
	// running are the users that are to run, by class, in the order of their start.
	running [][]*user
	next    []atomic.Int64 // operation, by class
	first   int64          // operation of this worker
	began   time.Time      // of the test
	all     sync.WaitGroup // counts also users that are to stop and have not
}

// A user repeats operations until it is told to stop.
type user struct {
	leave  chan struct{} // closed when the operation under way is the last
	cancel context.CancelFunc
}

func newUsers(load Load, s *stats, now func() time.Time) *users {
	names := load.Classes()
	return &users{load: load, stats: s, now: now, names: names, running: make([][]*user, len(names)), next: make([]atomic.Int64, len(names))}
}

// begin prepares a test on worker i.
func (u *users) begin(worker int64) {
	u.began, u.first = u.now(), worker*opsOfWorker
	for i := range u.next {
		u.next[i].Store(0)
	}
}

// set starts and stops users until there are as many as wanted; classes that wanted does
// not name stay. The youngest users stop first. It returns the classes that the load does
// not have, in order.
func (u *users) set(ctx context.Context, wanted map[string]int64, grace time.Duration) (unknown []string) {
	for class, name := range u.names {
		n, ok := wanted[name]
		if !ok {
			continue
		}
		for int64(len(u.running[class])) < n {
			u.running[class] = append(u.running[class], u.start(ctx, class))
		}
		for _, last := range u.running[class][n:] {
			last.stop(grace)
		}
		u.running[class] = u.running[class][:n]
	}
	for name := range maps.Keys(wanted) {
		if !slices.Contains(u.names, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// stop stops all users. The channel is closed when they have ended.
func (u *users) stop(grace time.Duration) (ended <-chan struct{}) {
	for class, running := range u.running {
		for _, one := range running {
			one.stop(grace)
		}
		u.running[class] = nil
	}
	done := make(chan struct{})
	go func() {
		u.all.Wait()
		close(done)
	}()
	return done
}

// counts says how many users are to run.
func (u *users) counts() userCounts {
	c := userCounts{ClassesCount: make(map[string]int64, len(u.names))}
	for class, name := range u.names {
		n := int64(len(u.running[class]))
		c.ClassesCount[name] = n
		c.UserCount += n
	}
	return c
}

// stop ends the user after its operation, or after the grace.
func (one *user) stop(grace time.Duration) {
	close(one.leave)
	if grace <= 0 {
		one.cancel()
		return
	}
	time.AfterFunc(grace, one.cancel) // does nothing to a user that has ended
}

func (u *users) start(ctx context.Context, class int) *user {
	ctx, cancel := context.WithCancel(ctx)
	one := &user{leave: make(chan struct{}), cancel: cancel}
	u.all.Go(func() {
		defer cancel()
		u.run(ctx, class, one.leave)
	})
	return one
}

// run carries out the operations of a user.
func (u *users) run(ctx context.Context, class int, leave <-chan struct{}) {
	report := func(e Event) {
		if e.Err != nil && ctx.Err() != nil {
			return // the request did not fail: it was cut off
		}
		u.stats.add(&e, u.now())
	}
	first, began := u.first, u.began
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-leave:
		case <-ctx.Done():
		case <-pause.C:
		}
		if isClosed(leave) || ctx.Err() != nil {
			return // even if the pause has ended at the same time
		}
		n := u.next[class].Add(1) - 1
		pause.Reset(u.load.Do(ctx, Op{Class: class, N: first + n, At: u.now().Sub(began)}, report))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
