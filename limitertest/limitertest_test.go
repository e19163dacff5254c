package limitertest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// ask asks for a request of key-1.
func ask(t *testing.T, l *limiter.Limiter) error {
	t.Helper()
	lease, err := l.Acquire(t.Context(), limiter.Request{Entity: "key-1", Resource: "api", Consume: map[string]int64{"rpm": 1}})
	if err != nil {
		return err
	}
	return lease.Commit(t.Context())
}

func TestTimeInABubbleIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
		for range 3 {
			if err := ask(t, limits.Limiter); err != nil {
				t.Fatal(err)
			}
		}
		var refused *limiter.ExceededError
		if err := ask(t, limits.Limiter); !errors.As(err, &refused) || refused.RetryAfter() != 20*time.Second {
			t.Fatalf("got %v, want a refusal for 20s", err)
		}
		time.Sleep(refused.RetryAfter())
		if err := ask(t, limits.Limiter); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailureIsTheErrorOfProduction(t *testing.T) {
	t.Parallel()
	for _, want := range []error{
		limiter.ErrUnavailable, limiter.ErrThrottled, limiter.ErrHotPartition, limiter.ErrConflict, limiter.ErrAccessDenied, limiter.ErrNotFound, io.ErrUnexpectedEOF,
	} {
		t.Run(want.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
				if err := ask(t, limits.Limiter); err != nil {
					t.Fatal(err)
				}
				limits.Fail(want)
				if err := ask(t, limits.Limiter); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				limits.Restore()
				time.Sleep(time.Minute) // a throttled partition gets a pause
				if err := ask(t, limits.Limiter); err != nil {
					t.Errorf("after Restore: %v", err)
				}
			})
		})
	}
}

func TestAConnectionErrorIsUnavailable(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t, limiter.PerHour("rpm", 3))
	limits.Fail(io.ErrUnexpectedEOF)
	if err := ask(t, limits.Limiter); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestAnOutageMayAdmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
		limits.Fail(limiter.ErrUnavailable)
		lease, err := limits.Acquire(t.Context(), limiter.Request{
			Entity: "key-1", Resource: "api", Consume: map[string]int64{"rpm": 1}, OnUnavailable: limiter.Allow,
		})
		if err != nil || !lease.Degraded() {
			t.Errorf("got %v, want a degraded lease", err)
		}
	})
}

func TestAStalledTableNeverAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
		limits.Stall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := limits.Acquire(ctx, limiter.Request{Entity: "key-1", Resource: "api", Consume: map[string]int64{"rpm": 1}})
		if !errors.Is(err, limiter.ErrUnavailable) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		go func() { _ = ask(t, limits.Limiter) }() // is under way when the test ends
		synctest.Wait()
	})
}

func TestARefusalIsTheLimitersOwnAndCanBeTakenBack(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*limitertest.Limits){
		"of all limits":   func(l *limitertest.Limits) { l.Refuse("key-1", "api") },
		"of one limit":    func(l *limitertest.Limits) { l.Refuse("key-1", "api", "rpm") },
		"of the parent":   func(l *limitertest.Limits) { l.Refuse("acme", "api", "rpm") },
		"of both, parent": func(l *limitertest.Limits) { l.Refuse("acme", "api", "rpm"); l.Refuse("key-1", "api", "rpm") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := limitertest.New(t, limiter.PerMinute("rpm", 3), limiter.PerHour("rph", 100))
				for _, e := range []limiter.Entity{{ID: "acme"}, {ID: "key-1", Parent: "acme", Cascade: true}} {
					if _, err := limits.Store.CreateEntity(t.Context(), e); err != nil {
						t.Fatal(err)
					}
				}
				if err := ask(t, limits.Limiter); err != nil {
					t.Fatal(err)
				}
				refuse(limits)
				for range 2 {
					var refused *limiter.ExceededError
					if err := ask(t, limits.Limiter); !errors.As(err, &refused) || refused.RetryAfter() != 20*time.Second {
						t.Fatalf("got %v, want a refusal for 20s", err)
					}
				}
				limits.Restore()
				for range 2 {
					if err := ask(t, limits.Limiter); err != nil {
						t.Fatal(err)
					}
				}
				if err := ask(t, limits.Limiter); !errors.Is(err, limiter.ErrExceeded) {
					t.Errorf("got %v: Restore has returned too much", err)
				}
			})
		})
	}
}

func TestTheStoreConfiguresDuringAnOutage(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t)
	other := limits.NewLimiter(limiter.Options{ConfigTTL: -1})
	limits.Fail(limiter.ErrUnavailable)
	if err := limits.Store.SetSystem(t.Context(), []limiter.Limit{limiter.PerHour("rpm", 1)}, ""); err != nil {
		t.Fatal(err)
	}
	if err := ask(t, other); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	limits.Restore()
	if err := ask(t, other); err != nil {
		t.Error(err)
	}
	if err := ask(t, limits.Limiter); !errors.Is(err, limiter.ErrExceeded) {
		t.Errorf("got %v: the limiters have different tables", err)
	}
}
