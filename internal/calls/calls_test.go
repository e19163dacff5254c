package calls_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

type key struct{}

// A call gets its time less an eighth at least, and its time at most. Calls that begin
// within an eighth of the time end together.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := calls.NewDeadlines(8 * time.Second)
		defer d.End(errors.New("the test is over"))
		ended := func(ctx context.Context) time.Duration {
			began := time.Now()
			<-ctx.Done()
			return time.Since(began)
		}
		first := d.Detach(t.Context())
		time.Sleep(time.Second - time.Millisecond)
		second := d.Detach(t.Context())
		time.Sleep(2 * time.Millisecond)
		third := d.Detach(t.Context())
		if got := ended(second); got != 7*time.Second-time.Millisecond || first.Err() == nil {
			t.Errorf("the second call got %v, and the first ended: %v", got, first.Err())
		}
		if third.Err() != nil {
			t.Error("the third call ended with the first")
		}
		if got := ended(third); got != 1001*time.Millisecond {
			t.Errorf("the third call ended %v later", got)
		}
	})
}

// A detached context has the values of its call, and outlives the call.
func TestDetached(t *testing.T) {
	t.Parallel()
	d := calls.NewDeadlines(time.Hour)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	detached := d.Detach(ctx)
	cancel()
	if detached.Err() != nil || detached.Value(key{}) != "trace" {
		t.Errorf("error %v, value %v", detached.Err(), detached.Value(key{}))
	}
	why := errors.New("closing")
	d.End(why)
	if <-detached.Done(); !errors.Is(context.Cause(detached), why) {
		t.Errorf("ended because of %v", context.Cause(detached))
	}
}

// A closed tally refuses calls, takes work of calls under way, and is empty at its end.
func TestTally(t *testing.T) {
	t.Parallel()
	isEmpty := func(c *calls.Tally) bool {
		select {
		case <-c.Empty():
			return true
		default:
			return false
		}
	}
	c := calls.NewTally()
	if !c.Begin() || c.IsClosed() || c.UnderWay() != 1 {
		t.Fatalf("an open tally has %d under way", c.UnderWay())
	}
	c.Close()
	c.More()
	c.End()
	if c.Begin() || !c.IsClosed() || isEmpty(c) || c.UnderWay() != 1 {
		t.Fatalf("a closed tally with work has %d under way, empty: %v", c.UnderWay(), isEmpty(c))
	}
	c.End()
	if !isEmpty(c) || c.UnderWay() != 0 {
		t.Errorf("%d are under way in the end", c.UnderWay())
	}
}

// Workers run everything at once, and keep a bounded number of idle goroutines. None is
// left after closing.
func TestWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 200 // more than stay idle
		var w calls.Workers
		for range 3 {
			began, done := time.Now(), make(chan struct{}, n)
			for range n {
				w.Run(func() {
					time.Sleep(time.Second)
					done <- struct{}{}
				})
			}
			for range n {
				<-done
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("%d pieces of work of a second took %v", n, took)
			}
			if synctest.Wait(); w.Idle() != calls.MaxIdle {
				t.Errorf("%d goroutines are idle, want %d", w.Idle(), calls.MaxIdle)
			}
		}
		w.Close() // the bubble sees a goroutine that is left
	})
}

// Workers without work end, and those with work stay.
func TestIdleWorkersEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w calls.Workers
		defer w.Close()
		run := func(n int) {
			for range n {
				w.Run(func() { time.Sleep(time.Second) })
			}
		}
		idle := func(want int) {
			t.Helper()
			if synctest.Wait(); w.Idle() != want {
				t.Errorf("%d goroutines are idle, want %d", w.Idle(), want)
			}
		}
		run(10)
		time.Sleep(time.Second)
		idle(10)
		time.Sleep(calls.IdleTime - time.Second)
		idle(10)
		for range 10 { // two of them go on working
			run(2)
			time.Sleep(calls.IdleTime / 2)
		}
		idle(2)
		time.Sleep(2 * calls.IdleTime)
		idle(0)
		run(1) // after the timer has ended
		time.Sleep(time.Second)
		idle(1)
		time.Sleep(2 * calls.IdleTime)
		idle(0)
	})
}
