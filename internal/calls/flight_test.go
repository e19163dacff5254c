package calls_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// One caller works, and the others wait for its end, or leave.
func TestFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type result struct {
			ran bool
			err error
		}
		var f calls.Flight
		did := 0
		begin := func(ctx context.Context, left <-chan struct{}) <-chan result {
			done := make(chan result, 1)
			go func() {
				ran, err := f.Do(ctx, left, func() { time.Sleep(time.Second); did++ })
				done <- result{ran, err}
			}()
			synctest.Wait()
			return done
		}
		first, second := begin(t.Context(), nil), begin(t.Context(), nil)
		left := make(chan struct{})
		third := begin(t.Context(), left)
		ctx, cancel := context.WithCancelCause(t.Context())
		fourth, why := begin(ctx, nil), errors.New("the time is up")
		close(left)
		cancel(why)
		if r := <-third; r.ran || !errors.Is(r.err, calls.ErrLeft) {
			t.Errorf("the caller that left: %+v", r)
		}
		if r := <-fourth; r.ran || !errors.Is(r.err, why) {
			t.Errorf("the caller whose time was up: %+v", r)
		}
		if r := <-second; r.ran || r.err != nil || did != 1 {
			t.Errorf("the caller that waited: %+v, and the work was done %d times", r, did)
		}
		if r := <-first; !r.ran || r.err != nil {
			t.Errorf("the caller that worked: %+v", r)
		}
		if r := <-begin(t.Context(), nil); !r.ran || did != 2 {
			t.Errorf("the next caller: %+v, and the work was done %d times", r, did)
		}
	})
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left, ended := make(chan struct{}), errors.New("the time is up")
		ctx, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		if err := calls.Sleep(ctx, left, time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("slept %v, error %v", time.Since(began), err)
		}
		if err := calls.Sleep(ctx, left, 0); err != nil {
			t.Errorf("no time to wait: %v", err)
		}
		time.AfterFunc(time.Minute, func() { close(left) })
		time.AfterFunc(time.Second, func() { cancel(ended) })
		for _, d := range []time.Duration{time.Hour, 0} {
			if err := calls.Sleep(ctx, nil, d); !errors.Is(err, ended) {
				t.Errorf("wait of %v with a context that ends: %v", d, err)
			}
		}
		for _, d := range []time.Duration{time.Hour, 0} {
			if err := calls.Sleep(context.Background(), left, d); !errors.Is(err, calls.ErrLeft) {
				t.Errorf("wait of %v with a caller that leaves: %v", d, err)
			}
		}
	})
}
