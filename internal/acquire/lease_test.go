package acquire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

func TestALeaseIsSettled(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10), limiter.PerHour("tph", 1000))
		lease := w.Lease(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 400}))
		w.Must(lease.Adjust("tph", 50))
		w.Must(lease.Adjust("tph", -350))
		if diff := cmp.Diff(map[string]int64{"rph": 1, "tph": 100}, lease.Consumed()); diff != "" {
			w.Errorf("consumed (-want +got):\n%s", diff)
		}
		before := w.Meter.Totals()
		w.Must(lease.Commit(w.Context()))
		w.Must(lease.Commit(w.Context()))
		w.Must(lease.Rollback(w.Context()))
		if got := w.Meter.Totals().Sub(before)["UpdateItem"]; got.Requests != 2 || got.WCU != 2 {
			w.Errorf("settling cost %+v, want a write for each entity", got)
		}
		w.holds("key", "rph", 9, "key", "tph", 900, "project", "rph", 9, "project", "tph", 900)
		if err := lease.Adjust("tph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
			w.Errorf("adjusting a closed lease: %v", err)
		}
	})
}

func TestALeaseIsRolledBack(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10))
		lease := w.Lease(w.Limiter, ask("key", "rph", 4))
		w.Must(lease.Adjust("rph", 2))
		gone, cancel := context.WithCancel(w.Context())
		cancel()
		for range 2 {
			if err := lease.Rollback(gone); err != nil && !errors.Is(err, context.Canceled) {
				w.Error(err)
			}
		}
		driverOf(w.Limiter).Settle()
		w.holds("key", "rph", 10, "project", "rph", 10)
	})
}

func TestCreditsNeverLiftABalanceAboveTheCapacity(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 10))
		lease := w.Lease(w.Limiter, ask("user", "rpm", 8))
		time.Sleep(2 * time.Minute)
		w.Take(w.Limiter, ask("user", "rpm", 1)) // refills to 10, takes 1
		w.Must(lease.Rollback(w.Context()))
		stored := w.item()["b_rpm_tk"].(*types.AttributeValueMemberN).Value
		if stored != "10000" {
			w.Errorf("the item holds %s millitokens, want 10000", stored)
		}
		if got := w.item()["b_rpm_tc"].(*types.AttributeValueMemberN).Value; got != "1000" {
			w.Errorf("counted as consumed: %s, want 1000", got)
		}
	})
}

func TestAnAdjustmentStaysWithinBounds(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		lease := w.Lease(w.Limiter, ask("user", "rph", 4))
		for _, tt := range []struct {
			limit string
			delta int64
		}{{"tph", 1}, {"rph", -5}, {"rph", limiter.MaxTokens}, {"rph", limiter.MaxTokens + 1}, {"rph", -limiter.MaxTokens * 2}} {
			if err := lease.Adjust(tt.limit, tt.delta); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("adjust %s by %d: %v, want it refused", tt.limit, tt.delta, err)
			}
		}
		w.Must(lease.Adjust("rph", -4))
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "rph", 10)
	})
}

func TestDo(t *testing.T) {
	failure := errors.New("the model failed")
	for _, tt := range []struct {
		name string
		f    func(context.Context, *limiter.Lease) error
		want error
		left int
	}{
		{"success", func(_ context.Context, l *limiter.Lease) error { return l.Adjust("rph", 2) }, nil, 5},
		{"failure", func(context.Context, *limiter.Lease) error { return failure }, failure, 10},
		{"panic", func(context.Context, *limiter.Lease) error { panic(failure) }, failure, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerHour("rph", 10))
				var err error
				func() {
					defer func() {
						if p := recover(); p != nil {
							err = p.(error)
						}
					}()
					err = w.Do(w.Context(), ask("user", "rph", 3), tt.f)
				}()
				if !errors.Is(err, tt.want) {
					w.Errorf("got %v, want %v", err, tt.want)
				}
				w.holds("user", "rph", tt.left)
			})
		})
	}
}

func TestACommitThatWasNotAppliedMayBeRepeated(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		lease := w.Lease(l, ask("user", "rph", 1))
		w.Must(lease.Adjust("rph", 3))
		api.Set(faults.On(faults.Fail(faults.BusyTable()), faults.UpdateItem))
		if err := lease.Commit(w.Context()); !errors.Is(err, limiter.ErrThrottled) {
			w.Errorf("got %v", err)
		}
		api.Set(nil)
		w.Must(lease.Commit(w.Context()))
		w.holds("user", "rph", 6)
	})
}

// The quoted wait is exact: the request is admitted after it, and refused a millisecond
// before.
func TestTheWaitIsExact(t *testing.T) {
	for _, l := range []limiter.Limit{
		limiter.PerSecond("x", 3), limiter.PerMinute("x", 7), limiter.PerMinute("x", 100, limiter.Burst(150)),
		limiter.PerHour("x", 11), limiter.PerDay("x", 13), limiter.Custom("x", 999_983, 7*time.Second),
	} {
		t.Run(fmt.Sprintf("%d in %v", l.Amount, l.Period), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(l)
				half := l.Capacity/2 + 1
				for range 5 {
					for w.Take(w.Limiter, ask("user", "x", half)) == nil {
						continue
					}
					wait, err := w.TimeUntilAvailable(w.Context(), ask("user", "x", half))
					w.Must(err)
					refused := w.Take(w.Limiter, ask("user", "x", half))
					if refused.RetryAfter() != wait {
						w.Errorf("refused for %v, available in %v", refused.RetryAfter(), wait)
					}
					time.Sleep(wait - time.Millisecond)
					early := w.Take(w.Limiter, ask("user", "x", half))
					if early == nil {
						w.Fatalf("admitted 1 ms before %v were over", wait)
					}
					if early.RetryAfter() != time.Millisecond {
						w.Errorf("1 ms before, the wait is %v", early.RetryAfter())
					}
					time.Sleep(time.Millisecond)
					if refused := w.Take(w.Limiter, ask("user", "x", half)); refused != nil {
						w.Fatalf("after %v: %v", wait, refused)
					}
				}
			})
		})
	}
}

func TestARefusalMarshalsToTheBodyOfA429(t *testing.T) {
	e := &limiter.ExceededError{Statuses: []limiter.Status{
		{Entity: "user", Resource: "gpt-4", Limit: limiter.PerMinute("rpm", 10), Available: 3, Requested: 1},
		{Entity: "user", Resource: "gpt-4", Limit: limiter.PerMinute("tpm", 100, limiter.Burst(150)), Available: -2, Requested: 5, Exceeded: true, RetryAfter: 4200 * time.Millisecond},
	}}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"error":"rate_limit_exceeded",` +
		`"message":"rate limit exceeded: tpm of user/gpt-4 (requested 5, available -2): retry after 4.2s",` +
		`"retry_after_seconds":4.2,"retry_after_ms":4200,"limits":[` +
		`{"entity_id":"user","resource":"gpt-4","limit_name":"rpm","kind":"rate","capacity":10,"refill_amount":10,"refill_period_seconds":60,"available":3,"requested":1,"exceeded":false,"soft":false,"retry_after_seconds":0,"retry_after_ms":0},` +
		`{"entity_id":"user","resource":"gpt-4","limit_name":"tpm","kind":"rate","capacity":150,"refill_amount":100,"refill_period_seconds":60,"available":-2,"requested":5,"exceeded":true,"soft":false,"retry_after_seconds":4.2,"retry_after_ms":4200}]}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.Statuses[1].RetryAfter = limiter.Never
	if body, err = json.Marshal(e); err != nil || !json.Valid(body) {
		t.Fatal(err)
	}
	var never struct {
		Wait *float64 `json:"retry_after_seconds"`
	}
	if err := json.Unmarshal(body, &never); err != nil || never.Wait != nil {
		t.Errorf("a wait that never ends is %v in %s", never.Wait, body)
	}
}
