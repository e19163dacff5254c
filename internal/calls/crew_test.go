package calls_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

var errWork = errors.New("the work's own error")

// Work that may wait runs apart from its caller, who gets an answer in time.
func TestCrewAnswersInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := calls.NewCrew(time.Second, false)
		ctx, leave := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer leave()
		for name, test := range map[string]struct {
			ctx  context.Context //nolint:containedctx // it is what the test is about
			work time.Duration
			took time.Duration
		}{
			"done":      {t.Context(), 100 * time.Millisecond, 100 * time.Millisecond},
			"too long":  {t.Context(), time.Minute, time.Second},
			"left":      {ctx, time.Minute, 300 * time.Millisecond},
			"left late": {ctx, 0, 0},
		} {
			if !c.Begin() {
				t.Fatal("closed")
			}
			var finished atomic.Bool
			began := time.Now()
			answer, ended, err := calls.Carry(test.ctx, c.Detach(t.Context()), c, func(ctx context.Context) (string, error) {
				if calls.Sleep(context.WithoutCancel(ctx), nil, test.work) == nil {
					finished.Store(true)
				}
				return name, errWork
			})
			if took := time.Since(began); took > test.took || ended == nil && !finished.Load() {
				t.Errorf("%s: answered after %v, ended %v", name, took, ended)
			}
			if answered := answer == name && errors.Is(err, errWork); answered != (ended == nil) || !answered && (answer != "" || err != nil) {
				t.Errorf("%s: answered %q, %v, ended %v", name, answer, err, ended)
			}
		}
		if cutOff := c.Close(time.Hour, nil); cutOff || c.UnderWay() != 0 {
			t.Errorf("closed with %d under way, cut off: %t", c.UnderWay(), cutOff)
		}
		if c.Begin() {
			t.Error("a closed crew takes calls")
		}
	})
}

// Close cuts off what goes on for too long, with a cause.
func TestCrewCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, why := calls.NewCrew(time.Hour, false), errors.New("closing")
		c.Begin()
		cause := make(chan error, 1)
		ctx := c.Detach(t.Context())
		c.InBackground(func() {
			<-ctx.Done()
			cause <- context.Cause(ctx)
		})
		c.End()
		if !c.Close(time.Second, why) {
			t.Error("it was not cut off")
		}
		if err := <-cause; !errors.Is(err, why) {
			t.Errorf("cause %v", err)
		}
	})
}

// A crew whose work never waits needs no goroutine.
func TestCrewInline(t *testing.T) {
	c := calls.NewCrew(time.Second, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0 // no lock: everything runs here
	c.AtOnce(3, func(i int) { n += i })
	c.Soon(func() { n++ })
	c.Begin()
	carry := func() (int, context.Context, error) {
		return calls.Carry(ctx, ctx, c, func(context.Context) (int, error) { n++; return n, errWork })
	}
	if got, ended, err := carry(); got != n || !errors.Is(err, errWork) || ended != nil || c.HasReturned(ctx, ctx) {
		t.Errorf("answered %d, %v; the caller left: %v", got, err, ended)
	}
	if n != 5 || !c.IsInline() {
		t.Errorf("ran %d", n)
	}
	if c.Close(time.Second, nil) {
		t.Error("cut off")
	}
}

// A call whose work never waits allocates nothing besides the work.
func TestACallInlineAllocatesNothing(t *testing.T) {
	c := calls.NewCrew(time.Second, true)
	ctx, work := t.Context(), func(context.Context) (bool, error) { return true, nil }
	if n := testing.AllocsPerRun(100, func() {
		c.Begin()
		if done, _, err := calls.Carry(ctx, ctx, c, work); !done || err != nil {
			t.Error(done, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// AtOnce runs all pieces of work side by side.
func TestCrewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := calls.NewCrew(time.Minute, false)
		for n := range 5 {
			began := time.Now()
			var ran atomic.Int64
			c.AtOnce(n, func(int) { time.Sleep(time.Second); ran.Add(1) })
			if took := time.Since(began); ran.Load() != int64(n) || took != time.Duration(min(n, 1))*time.Second {
				t.Errorf("%d of %d ran in %v", ran.Load(), n, took)
			}
		}
		c.Close(time.Second, nil)
	})
}

// Callers that want the same value share the work that finds it; others do not.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g calls.Group[string, int]
		var worked atomic.Int64
		get := func(ctx context.Context, key string) (int, error) {
			return g.Do(ctx, key, func() int { time.Sleep(time.Second); return int(worked.Add(1)) })
		}
		hurried, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		first := make(chan int, 2)
		for range cap(first) {
			go func() {
				v, err := get(t.Context(), "a")
				if err != nil {
					t.Error(err)
				}
				first <- v
			}()
		}
		synctest.Wait()
		if v, err := get(hurried, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose time is up got %d, %v", v, err)
		}
		if v, err := get(t.Context(), "b"); err != nil || v == <-first {
			t.Errorf("another key got the same value: %d, %v", v, err)
		}
		<-first
		if n := worked.Load(); n != 2 {
			t.Errorf("worked %d times, want 2", n)
		}
		if v, err := get(t.Context(), "a"); err != nil || v != 3 {
			t.Errorf("the next caller got %d, %v", v, err)
		}
	})
}

// An attempt has an eighth of the time of a call, and no less than half a second, unless the call has less. It
// ends as its crew is closed.
func TestTheTimeOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for of, want := range map[time.Duration]time.Duration{
			8 * time.Second: time.Second, 2 * time.Second: 500 * time.Millisecond, 400 * time.Millisecond: 400 * time.Millisecond,
		} {
			c := calls.NewCrew(of, false)
			l := c.NewLeavable(t.Context())
			c.Limit(&l)
			first, stop := c.First(c.Detach(t.Context()))
			defer stop()
			plain, stopPlain := c.First(t.Context())
			defer stopPlain()
			for name, ctx := range map[string]context.Context{"a request that the caller carries": &l, "another one": first} {
				end, _ := ctx.Deadline()
				if got := time.Until(end); got != want {
					t.Errorf("of %v: %s has %v, want %v", of, name, got, want)
				}
			}
			if end, _ := plain.Deadline(); time.Until(end) != max(want, 500*time.Millisecond) {
				t.Errorf("of %v: one of a caller has %v", of, time.Until(end))
			}
			if end, _ := l.Detached.Deadline(); time.Until(end) != of {
				t.Errorf("of %v: the call has %v", of, time.Until(end))
			}
			c.Close(0, errWork)
			if l.Err() == nil || first.Err() == nil {
				t.Errorf("of %v: an attempt goes on after its crew was closed", of)
			}
		}
	})
}
