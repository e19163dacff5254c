package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// family configures limits and creates a project and a key that cascades to it.
func (w *world) family(limits ...limiter.Limit) {
	w.Helper()
	w.System(limits...)
	w.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
}

// sentOnce are a limit and so many others that no write to the bucket is sent again.
func sentOnce(l limiter.Limit) []limiter.Limit {
	limits := []limiter.Limit{l}
	for i := range 16 {
		limits = append(limits, limiter.PerDay(fmt.Sprint("other", i), 100))
	}
	return limits
}

// holds checks balances in whole tokens, given as entity, limit, tokens.
func (w *world) holds(want ...any) {
	w.Helper()
	for i := 0; i < len(want); i += 3 {
		entity, limit, tokens := want[i].(string), want[i+1].(string), int64(want[i+2].(int))
		if got := w.Balance(entity, limit); got != tokens {
			w.Errorf("%s holds %d %s, want %d", entity, got, limit, tokens)
		}
	}
}

func TestEveryLimitIsDebitedOrNone(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10), limiter.PerHour("tph", 1000))
		lease := w.Lease(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 400}))
		w.Must(lease.Commit(w.Context()))
		w.holds("key", "rph", 9, "key", "tph", 600, "project", "rph", 9, "project", "tph", 600)

		refused := w.Take(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 700}))
		if refused == nil {
			w.Fatal("700 of 600 were served")
		}
		w.holds("key", "rph", 9, "key", "tph", 600, "project", "rph", 9, "project", "tph", 600)
		var exceeded []string
		for _, s := range refused.Statuses {
			if s.Exceeded {
				exceeded = append(exceeded, s.Entity+" "+s.Limit.Name)
			}
		}
		if diff := cmp.Diff([]string{"key tph", "project tph"}, exceeded); diff != "" {
			w.Errorf("exceeded (-want +got):\n%s", diff)
		}
		if len(refused.Statuses) != 4 {
			w.Errorf("%d statuses, want every limit of both", len(refused.Statuses))
		}
	})
}

func TestOneSideRefusingCreditsTheOther(t *testing.T) {
	for _, short := range []string{"key", "project"} {
		t.Run(short, func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerHour("rph", 10))
				w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: short, Resource: "gpt-4"}, []limiter.Limit{limiter.PerHour("rph", 2)}))
				other := map[string]string{"key": "project", "project": "key"}[short]
				for range 2 {
					w.Serve(w.Limiter, ask("key", "rph", 1))
				}
				for _, l := range []*limiter.Limiter{w.Limiter, w.NewLimiter(w.Store, limiter.Options{})} {
					if w.Take(l, ask("key", "rph", 1)) == nil {
						w.Error("the third of two was admitted")
					}
					w.holds(short, "rph", 0, other, "rph", 8)
				}
			})
		})
	}
}

// The wait of a refused cascade covers the parent too, although the entity refuses. A
// wait that covers only the entity would end in another refusal.
func TestTheWaitCoversTheParentThoughTheEntityRefuses(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerMinute("rpm", 3))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerHour("rpm", 3)}))
		w.Serve(w.Limiter, ask("key", "rpm", 3))
		cold := w.NewLimiter(w.Store, limiter.Options{})
		for _, l := range []*limiter.Limiter{cold, cold, w.Limiter} {
			refused := w.Take(l, ask("key", "rpm", 1))
			if refused == nil || refused.RetryAfter() != 20*time.Minute || len(refused.Statuses) != 2 {
				w.Errorf("%+v, want 20m of the project's", refused)
			}
		}
	})
}

func TestASideThatRefillsKeepsTheOther(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerMinute("rpm", 60))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 3)}))
		m := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})
		w.Take(m, ask("key", "rpm", 1)) // remembers that the project holds 2
		for range 2 {
			w.Take(w.Limiter, ask("key", "rpm", 1))
		}
		time.Sleep(40 * time.Second)
		driverOf(w.Limiter).Settle()
		driverOf(m).Settle()
		before := w.Meter.Totals()
		w.Serve(m, ask("key", "rpm", 1))
		driverOf(m).Settle()
		// The writes are the key's take, the project's refused take and the project's
		// refill. Nothing is compensated.
		if got := w.Meter.Totals().Sub(before)["UpdateItem"].Requests; got != 3 {
			w.Errorf("%d writes, want 3", got)
		}
	})
}

func TestAParentTracksASubset(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
		set := func(entity string, limits ...limiter.Limit) {
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: entity, Resource: "gpt-4"}, limits))
		}
		set("key", limiter.PerHour("rph", 10), limiter.PerHour("tph", 100))

		// The request names none of the parent's limits, so the parent is not debited.
		for range 3 {
			w.Serve(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 10}))
		}
		w.holds("key", "rph", 7, "key", "tph", 70)

		set("project", limiter.PerHour("tph", 50))
		for range 2 {
			w.Serve(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 20}))
		}
		w.holds("key", "rph", 5, "key", "tph", 30, "project", "tph", 10)
		if refused := w.Take(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 20})); refused == nil {
			w.Error("the project's 10 served 20")
		}
		w.holds("key", "rph", 5, "key", "tph", 30, "project", "tph", 10)
	})
}

func TestUnknownLimitsAreNamed(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10))
		for _, entity := range []string{"stranger", "key"} {
			for round := range 2 {
				_, err := w.Acquire(w.Context(), askAll(entity, tokens{"rph": 1, "nope": 1, "tph": 1}))
				var unknown *limiter.NotConfiguredError
				if !errors.As(err, &unknown) || !slices.Equal(unknown.Limits, []string{"nope", "tph"}) || errors.Is(err, limiter.ErrInvalid) {
					w.Errorf("%s, round %d: %v, want an error that names nope and tph", entity, round, err)
				}
				w.Take(w.Limiter, ask(entity, "rph", 1)) // now the bucket exists
			}
		}
		w.holds("stranger", "rph", 8, "key", "rph", 8, "project", "rph", 8)
	})
}

// A declared limit asks for 0 tokens, so nothing of it has to be returned. It does not
// prevent the refund of the other limits.
func TestADeclaredLimitDoesNotHinderReturning(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10), limiter.PerSecond("rps", 5))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerHour("rph", 2)}))
		for range 2 {
			w.Serve(w.Limiter, askAll("key", tokens{"rph": 1, "rps": 1}))
		}
		time.Sleep(10 * time.Second) // rps is full again, and overflows
		if w.Take(w.Limiter, askAll("key", tokens{"rph": 1, "rps": 0})) == nil {
			w.Error("the project's third of two was admitted")
		}
		w.holds("key", "rph", 8)
		lease := w.Lease(w.Limiter, ask("project", "rph", 0))
		time.Sleep(time.Hour)
		w.Must(lease.Rollback(w.Context()))
	})
}

// A request for a limit that was removed from the configuration fails, even before the
// repair removes the limit from the bucket.
func TestALimitTakenOffIsUnknownAtOnce(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10), limiter.PerHour("tph", 100))
		w.Take(w.Limiter, askAll("user", tokens{"rph": 1, "tph": 1}))
		w.Must(w.OpenOn(w.Engine).SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 10)}, ""))
		cold := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{})
		if _, err := cold.Acquire(w.Context(), askAll("user", tokens{"rph": 1, "tph": 1})); !errors.Is(err, limiter.ErrNotConfigured) {
			w.Errorf("got %v, want tph to be unknown", err)
		}
		w.holds("user", "rph", 9)
	})
}

func TestALimitAddedLaterIsAddedToTheBucket(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		w.Take(w.Limiter, ask("user", "rph", 4))
		w.System(limiter.PerHour("rph", 10), limiter.PerHour("tph", 100))
		w.Serve(w.Limiter, askAll("user", tokens{"rph": 1, "tph": 30}))
		w.holds("user", "rph", 5, "user", "tph", 70)
		w.System(limiter.PerHour("tph", 100))
		w.Take(w.Limiter, ask("user", "tph", 1))
		driverOf(w.Limiter).Settle() // the comparison is done
		if _, err := w.Acquire(w.Context(), ask("user", "rph", 1)); !errors.Is(err, limiter.ErrNotConfigured) {
			w.Errorf("a limit taken off: %v, want it unknown", err)
		}
		w.holds("user", "tph", 69)
	})
}

func TestBadRequests(t *testing.T) {
	good := ask("user", "rpm", 1)
	with := func(change func(*limiter.Request)) limiter.Request {
		r := good
		r.Consume = maps.Clone(good.Consume)
		change(&r)
		return r
	}
	for name, req := range map[string]limiter.Request{
		"no entity":        with(func(r *limiter.Request) { r.Entity = "" }),
		"hash":             with(func(r *limiter.Request) { r.Entity = "a#b" }),
		"trailing newline": with(func(r *limiter.Request) { r.Entity = "user\n" }),
		"resource newline": with(func(r *limiter.Request) { r.Resource = "gpt-4\n" }),
		"default resource": with(func(r *limiter.Request) { r.Resource = limiter.DefaultResource }),
		"nothing":          with(func(r *limiter.Request) { r.Consume = nil }),
		"negative":         with(func(r *limiter.Request) { r.Consume["rpm"] = -1 }),
		"too many":         with(func(r *limiter.Request) { r.Consume["rpm"] = limiter.MaxTokens + 1 }),
		"reserved":         with(func(r *limiter.Request) { r.Consume["wcu"] = 1 }),
		"limit newline":    with(func(r *limiter.Request) { r.Consume["rpm\n"] = 1 }),
		"mode":             with(func(r *limiter.Request) { r.OnUnavailable = "maybe" }),
		"limit twice": with(func(r *limiter.Request) {
			r.Fallback = []limiter.Limit{limiter.PerMinute("rpm", 1), limiter.PerMinute("rpm", 2)}
		}),
		"capacity":     with(func(r *limiter.Request) { r.Fallback = []limiter.Limit{limiter.PerMinute("rpm", 1, limiter.Burst(0))} }),
		"reserved own": with(func(r *limiter.Request) { r.Fallback = []limiter.Limit{limiter.PerMinute("wcu", 1)} }),
		"period":       with(func(r *limiter.Request) { r.Fallback = []limiter.Limit{limiter.Custom("rpm", 1, time.Millisecond)} }),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				before := w.Meter.Totals()
				_, err := w.Acquire(w.Context(), req)
				var invalid *limiter.ValidationError
				if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Reason == "" {
					w.Errorf("got %v, want a validation error", err)
				}
				if d := w.Meter.Totals().Sub(before); len(d) != 0 {
					w.Errorf("requests were sent: %v", d)
				}
			})
		})
	}
}

func TestWhatHappensWithoutTheStore(t *testing.T) {
	outage := &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: errors.New("connection reset")}
	denied := &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}
	throttled := &types.ProvisionedThroughputExceededException{}
	for _, tt := range []struct {
		name     string
		fail     error
		mode     limiter.OnUnavailable
		system   limiter.OnUnavailable
		want     error
		degraded bool
	}{
		{name: "outage", fail: outage, want: limiter.ErrUnavailable},
		{name: "outage, block", fail: outage, mode: limiter.Block, system: limiter.Allow, want: limiter.ErrUnavailable},
		{name: "outage, allow", fail: outage, mode: limiter.Allow, degraded: true},
		{name: "outage, system allows", fail: outage, system: limiter.Allow, degraded: true},
		{name: "throttled", fail: throttled, want: limiter.ErrThrottled},
		{name: "throttled, allow", fail: throttled, mode: limiter.Allow, degraded: true},
		{name: "denied, allow", fail: denied, mode: limiter.Allow, want: limiter.ErrAccessDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				api := faults.NewTap(w.Engine)
				l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
				w.Must(w.Store.SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 10)}, tt.system))
				w.Take(l, ask("user", "rph", 1))
				api.Set(faults.On(faults.Fail(tt.fail), faults.UpdateItem))
				req := ask("user", "rph", 1)
				req.OnUnavailable = tt.mode
				lease, err := l.Acquire(w.Context(), req)
				if tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					w.Fatalf("got %v, want %v", err, tt.want)
				}
				if !tt.degraded {
					return
				}
				if !lease.Degraded() {
					w.Error("the lease does not say that it is degraded")
				}
				w.Must(lease.Adjust("rph", 5))
				w.Must(lease.Commit(w.Context()))
				w.holds("user", "rph", 9)
			})
		})
	}
}

// loseEveryAnswer also loses the answer that a write was refused.
func loseEveryAnswer(ctx context.Context, _ *faults.Call, next faults.Next) error {
	_ = next(ctx)
	return context.DeadlineExceeded
}

// A take whose answer is lost is sent again until the time is up, and debited once. If no answer comes,
// and the process writes no more, it counts as taken.
func TestATakeWhoseAnswerIsLostCountsAsTaken(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.Take(l, ask("user", "rph", 1))
		loses := atomic.Int32{}
		api.Set(faults.On(faults.When(func(*faults.Call) bool { return loses.Add(-1) >= 0 }, loseEveryAnswer), faults.UpdateItem))
		for _, tt := range []struct{ loses, sent, left int }{{1, 2, 6}, {3, 4, 3}} {
			loses.Store(int32(tt.loses))
			api.Take()
			w.Take(l, ask("user", "rph", 3))
			if n := api.Count(faults.UpdateItem); n != tt.sent {
				w.Errorf("sent %d times, want %d", n, tt.sent)
			}
			w.holds("user", "rph", tt.left)
		}
		loses.Store(1000)
		if _, err := l.Acquire(w.Context(), ask("user", "rph", 3)); !errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrThrottled) {
			w.Errorf("got %v", err)
		}
		w.holds("user", "rph", 0)
		loses.Store(0)
		w.Take(l, ask("user", "rph", 1)) // its image shows that the lost one was applied, for nobody
		driverOf(l).Settle()
		w.holds("user", "rph", 3)
	})
}

func TestPeerFeaturesGetTheSafeAnswer(t *testing.T) {
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	for _, tt := range []struct {
		name   string
		update string
		values map[string]types.AttributeValue
		take   int64 // tokens of a plain take
		want   error
		after  error // the answer to a take of more than is held without a refill
	}{
		{"disabled", "SET disabled = :v", map[string]types.AttributeValue{":v": &types.AttributeValueMemberBOOL{Value: true}}, 1, limiter.ErrDisabled, limiter.ErrDisabled},
		{"schedule", "SET sched = :v", map[string]types.AttributeValue{":v": text("2h9-17s500")}, 1, nil, limiter.ErrUnsupported},
		{"schedule lapsed", "SET sched = :v, vu = :z", map[string]types.AttributeValue{":v": text("2h9-17s500"), ":z": number(1)}, 1, limiter.ErrUnsupported, limiter.ErrUnsupported},
		{"a session that refills", "SET b_rph_rsa = :v", map[string]types.AttributeValue{":v": number(3600)}, 1, nil, limiter.ErrUnsupported},
		{"bypass", "SET bypass = :v", map[string]types.AttributeValue{":v": &types.AttributeValueMemberN{Value: "99999999999999"}}, 1, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerHour("rph", 10))
				w.Take(w.Limiter, ask("user", "rph", 5))
				driverOf(w.Limiter).Settle()
				w.patch(tt.update, tt.values)
				before := w.item()
				check := func(tokens int64, want error) {
					_, err := w.Acquire(w.Context(), ask("user", "rph", tokens))
					if !errors.Is(err, want) {
						w.Errorf("take %d: %v, want %v", tokens, err, want)
					}
				}
				check(tt.take, tt.want)
				time.Sleep(time.Minute)
				check(9, tt.after)
				after := w.item()
				for attr, v := range before {
					moves := slices.Contains([]string{"b_rph_tk", "b_rph_tc", "b_wcu_tk", "b_wcu_tc", "rf", "ttl", "dn"}, attr) || strings.HasPrefix(attr, "q_")
					if !moves && !cmp.Equal(v, after[attr], cmp.AllowUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberBOOL{})) {
						w.Errorf("%s was %v and is %v", attr, v, after[attr])
					}
				}
			})
		})
	}
}

// A peer changed parameters in place and asked for a pass that trims. The limiter trims
// the item and serves the request.
func TestALapsedPlainItemIsTrimmedAndServed(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		w.Take(w.Limiter, ask("user", "rph", 1))
		driverOf(w.Limiter).Settle()
		w.patch("SET vu = :z, b_rph_cp = :c, b_rph_ra = :c", map[string]types.AttributeValue{":z": number(0), ":c": number(5000)})
		w.Serve(w.Limiter, ask("user", "rph", 1))
		item := w.item()
		if _, ok := item["vu"]; ok {
			w.Error("the request to trim is still there")
		}
		if got := item["b_rph_tk"].(*types.AttributeValueMemberN).Value; got != "4000" {
			w.Errorf("holds %s millitokens, want 4000: 9 trimmed to 5, less 1", got)
		}
	})
}

// item returns the user's bucket as it is stored.
func (w *world) item() map[string]types.AttributeValue {
	w.Helper()
	name := table
	consistent := true
	out, err := w.Engine.GetItem(w.Context(), &dynamodb.GetItemInput{TableName: &name, Key: w.bucketKey(), ConsistentRead: &consistent})
	w.Must(err)
	return out.Item
}
