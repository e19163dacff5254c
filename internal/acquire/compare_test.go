package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// elsewhere is the store of another process. Nothing informs this process of its
// changes.
func (w *world) elsewhere() *dynamo.Store {
	w.Helper()
	return w.OpenOn(w.Engine)
}

// unconfigured checks that an acquire names limits that are not configured, which is not
// an invalid request, and returns the text of the error.
func (w *world) unconfigured(l *limiter.Limiter, req limiter.Request) (text string) {
	w.Helper()
	lease, err := l.Acquire(w.Context(), req)
	if !errors.Is(err, limiter.ErrNotConfigured) || errors.Is(err, limiter.ErrInvalid) {
		w.Errorf("%+v: got %v, %v, want limits that are not configured", req, lease, err)
		return ""
	}
	return err.Error()
}

// A client with configuration from before a limit was added does not remove the limit
// from buckets. So other clients do not add it again with a full balance. A day's limit
// admits only its own tokens, with any number of clients and however old their
// configuration is.
func TestOldConfigurationUndoesNothing(t *testing.T) {
	const clients = 20
	inWorld(t, limiter.Options{}, func(w *world) {
		rph, rpd := limiter.PerHour("rph", 1_000_000), limiter.PerDay("rpd", 100)
		w.System(rph)
		old := make([]*limiter.Limiter, clients)
		for i := range old {
			old[i] = w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})
			w.Take(old[i], ask(fmt.Sprint("other-", i), "rph", 1))
		}
		w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{rph, rpd}, ""))
		admitted := 0
		for round := range 100 {
			fresh := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})
			for range 5 {
				if w.Take(fresh, ask("user", "rpd", 1)) == nil {
					admitted++
				}
			}
			w.Serve(old[round%clients], ask("user", "rph", 1))
			time.Sleep(time.Second)
		}
		if admitted != 100 {
			w.Errorf("%d of 100 were admitted", admitted)
		}
	})
}

// A change reached an item before a client has read it. The client does not undo it
// from its remembered configuration, whatever difference it finds.
func TestANewerChangeOnAnItemStays(t *testing.T) {
	for name, change := range map[string]struct {
		limits []limiter.Limit
		update string
		values map[string]int64
		want   string
	}{
		"lowered": {[]limiter.Limit{limiter.PerDay("rpd", 10), limiter.PerDay("tpd", 1000)}, "SET b_rpd_cp = :c, b_rpd_ra = :c, vu = :z", map[string]int64{":c": 10_000}, "rpd 10, tpd 1000"},
		"raised":  {[]limiter.Limit{limiter.PerDay("rpd", 5000), limiter.PerDay("tpd", 1000)}, "SET b_rpd_cp = :c, b_rpd_ra = :c, vu = :z", map[string]int64{":c": 5_000_000}, "rpd 5000, tpd 1000"},
		"removed": {[]limiter.Limit{limiter.PerDay("rpd", 1000)}, "SET vu = :z REMOVE b_tpd_tk, b_tpd_cp, b_tpd_ra, b_tpd_rp, b_tpd_tc", nil, "rpd 1000"},
		"added": {
			[]limiter.Limit{limiter.PerDay("new", 7), limiter.PerDay("rpd", 1000), limiter.PerDay("tpd", 1000)},
			"SET b_new_tk = :n, b_new_cp = :n, b_new_ra = :n, b_new_rp = :d, b_new_tc = :z, vu = :z",
			map[string]int64{":n": 7000, ":d": 86_400_000},
			"new 7, rpd 1000, tpd 1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{ConfigTTL: time.Hour}, func(w *world) {
				w.System(limiter.PerDay("rpd", 1000), limiter.PerDay("tpd", 1000))
				w.Take(w.Limiter, ask("user", "rpd", 1))
				informed := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{ConfigTTL: time.Hour}) // but not of this bucket
				w.Take(informed, ask("other", "rpd", 1))
				// A peer that shares the table does the same: first the configuration,
				// then the item.
				w.Must(w.elsewhere().SetSystem(w.Context(), change.limits, ""))
				values := schema.Item{":z": schema.N(0)}
				for name, n := range change.values {
					values[name] = schema.N(n)
				}
				w.patch(change.update, values)
				for _, l := range []*limiter.Limiter{w.Limiter, informed, w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})} {
					w.Serve(l, ask("user", "rpd", 1))
					driverOf(l).Settle()
					if got := w.capacities("user"); got != change.want {
						w.Errorf("the item has %s, want %s", got, change.want)
					}
				}
			})
		})
	}
}

// capacities returns the capacities of a bucket's limits on shard 0, in tokens.
func (w *world) capacities(entity string) (text string) {
	w.Helper()
	for _, s := range w.Images(entity)[0].Limits {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprint(s.Name, " ", s.Capacity/1000)
	}
	return text
}

// interposed calls a function once, after a consistent read of configuration and before
// the caller gets the answer.
func interposed(f func()) faults.Hook {
	var once sync.Once
	return faults.On(faults.After(func(c *faults.Call, err error) error {
		if c.Consistent() && !c.NamesBuckets() {
			once.Do(f)
		}
		return err
	}), faults.BatchGetItem)
}

// A repair is conditional on the parameters of the image that it was computed from. A
// peer's change after the read of the configuration is therefore not undone, even if it
// does not move the stamp.
func TestARepairDoesNotLandOnWhatAPeerJustChanged(t *testing.T) {
	for name, peer := range map[string]struct {
		limits []limiter.Limit
		update string
		want   string
	}{
		"what it sets": {
			[]limiter.Limit{limiter.PerDay("rpd", 20), limiter.PerDay("tpd", 1000)},
			"SET b_rpd_cp = :c, b_rpd_ra = :c", "rpd 20, tpd 1000",
		},
		"what it keeps": {
			[]limiter.Limit{limiter.PerDay("rpd", 500), limiter.PerDay("tpd", 20)},
			"SET b_tpd_cp = :c, b_tpd_ra = :c", "rpd 500, tpd 20",
		},
		"the rate alone": {
			[]limiter.Limit{limiter.Custom("rpd", 20, 24*time.Hour, limiter.Burst(1000)), limiter.PerDay("tpd", 1000)},
			"SET b_rpd_ra = :c", "rpd 1000, tpd 1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerDay("rpd", 1000), limiter.PerDay("tpd", 1000))
				api := faults.NewTap(w.Engine)
				l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
				w.Take(l, ask("user", "rpd", 1))
				w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerDay("rpd", 500), limiter.PerDay("tpd", 1000)}, ""))
				l.InvalidateConfig()
				var then *store.Image
				api.Set(interposed(func() {
					w.Must(w.elsewhere().SetSystem(w.Context(), peer.limits, ""))
					w.patch(peer.update, schema.Item{":c": schema.N(20_000)})
					then = w.Images("user")[0]
				}))
				w.Take(l, ask("user", "rpd", 1))
				if driverOf(l).Settle(); then == nil {
					w.Fatal("the configuration was not read for a repair")
				}
				img := w.Images("user")[0]
				was, _ := then.Limit("rpd")
				is, _ := img.Limit("rpd")
				if got := w.capacities("user"); got != peer.want || name != "what it keeps" && was.Amount != is.Amount {
					w.Errorf("the item has %s, and earns %d of rpd", got, is.Amount)
				}
			})
		})
	}
}

// unused makes a change elsewhere, on a bucket that is used at intervals. It returns
// the result of its request after the time to live.
func (w *world) unused(pause time.Duration, change func(*dynamo.Store), req limiter.Request) error {
	w.Helper()
	for range 3 {
		w.Must(errOf(w.Acquire(w.Context(), ask(req.Entity, "rpd", 1))))
		time.Sleep(pause)
	}
	w.Must(errOf(w.Acquire(w.Context(), ask(req.Entity, "rpd", 1))))
	time.Sleep(time.Second)
	change(w.elsewhere())
	time.Sleep(max(pause, limiter.DefaultConfigTTL) - time.Second)
	return errOf(w.Acquire(w.Context(), req))
}

// A bucket whose last comparison is older than the time to live is compared with this
// request. The changed configuration decides the request.
func TestABucketNotUsedForLongIsCompared(t *testing.T) {
	set := func(limits ...limiter.Limit) func(*dynamo.Store) {
		return func(s *dynamo.Store) {
			if err := s.SetSystem(context.Background(), limits, ""); err != nil {
				panic(err)
			}
		}
	}
	for _, pause := range []time.Duration{70 * time.Second, 2 * time.Minute, 290 * time.Second, 6 * time.Minute} {
		for name, change := range map[string]struct {
			do   func(*dynamo.Store)
			ask  limiter.Request
			want error
			left map[string]int
		}{
			"lowered, for what it still has": {set(limiter.PerDay("rpd", 10)), ask("user", "rpd", 500), limiter.ErrExceeded, map[string]int{"rpd": 10}},
			"lowered, for what it has now":   {set(limiter.PerDay("rpd", 10)), ask("user", "rpd", 10), nil, map[string]int{"rpd": 0}},
			"raised":                         {set(limiter.PerSecond("rpd", 1000, limiter.Burst(5000))), ask("user", "rpd", 1001), limiter.ErrExceeded, nil},
			"a limit added":                  {set(limiter.PerDay("rpd", 1000), limiter.PerDay("tpd", 10)), askAll("user", tokens{"rpd": 1, "tpd": 10}), nil, map[string]int{"tpd": 0}},
			"the limit removed":              {set(limiter.PerDay("tpd", 10)), ask("user", "rpd", 1), limiter.ErrNotConfigured, map[string]int{"tpd": 10}},
		} {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					w.System(limiter.PerDay("rpd", 1000))
					if err := w.unused(pause, change.do, change.ask); !errors.Is(err, change.want) {
						w.Errorf("got %v, want %v", err, change.want)
					}
					for limit, want := range change.left {
						w.holds("user", limit, want)
					}
				})
			})
		}
	}
}

// Both buckets of a cascade are compared, each with its own configuration.
func TestBothBucketsOfACascadeAreCompared(t *testing.T) {
	for _, whose := range []limiter.ConfigKey{{Entity: "key", Resource: "gpt-4"}, {Entity: "project", Resource: "gpt-4"}} {
		t.Run(whose.Entity, func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerDay("rpd", 1000))
				err := w.unused(70*time.Second, func(s *dynamo.Store) {
					_, ns := s.Namespace() // past every store, because a store writes an entity's limits to its buckets
					w.plantConfig(ns, whose, limiter.PerDay("rpd", 10))
				}, ask("key", "rpd", 100))
				var refused *limiter.ExceededError
				if !errors.As(err, &refused) || refused.RetryAfter() != limiter.Never {
					w.Fatalf("got %v, want a refusal for ever", err)
				}
				for _, s := range refused.Statuses {
					if s.Exceeded != (s.Entity == whose.Entity) {
						w.Errorf("%+v", s)
					}
				}
			})
		})
	}
}

// Tokens debited under outdated parameters are returned exactly once, to the entity's
// bucket and to its parent's. They are then debited once by the parameters in force.
func TestWhatAComparisonUndoesIsReturnedOnce(t *testing.T) {
	slow := limiter.Custom("rpd", 1, 100_000*time.Hour, limiter.Burst(1000))
	for name, tt := range map[string]struct {
		change  func(*world)
		want    error
		balance int64 // of either bucket, after the answer to the request
	}{
		"a limit added": {func(w *world) {
			w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{slow, limiter.PerDay("tpd", 10)}, ""))
		}, nil, 988},
		"raised": {func(w *world) {
			w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.Custom("rpd", 1, 100_000*time.Hour, limiter.Burst(2000))}, ""))
		}, nil, 988},
		"disabled":                {func(w *world) { w.switchOff(limiter.ConfigKey{Resource: "gpt-4"}, true) }, limiter.ErrDisabled, 995},
		"disabled for the parent": {func(w *world) { w.switchOff(limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, true) }, limiter.ErrDisabled, 995},
		"disabled for the child":  {func(w *world) { w.switchOff(limiter.ConfigKey{Entity: "key", Resource: "gpt-4"}, true) }, limiter.ErrDisabled, 995},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.family(slow)
				w.Take(w.Limiter, ask("key", "rpd", 5))
				time.Sleep(70 * time.Second)
				tt.change(w)
				if err := errOf(w.Acquire(w.Context(), ask("key", "rpd", 7))); !errors.Is(err, tt.want) {
					w.Errorf("got %v, want %v", err, tt.want)
				}
				driverOf(w.Limiter).Settle()
				for _, entity := range []string{"key", "project"} {
					s, _ := w.Images(entity)[0].Limit("rpd")
					if s.Tokens != tt.balance*1000 || s.Consumed != (1000-tt.balance)*1000 {
						w.Errorf("%s holds %d and counts %d, want %d tokens", entity, s.Tokens, s.Consumed, tt.balance)
					}
				}
			})
		})
	}
}

// Tokens debited under outdated parameters go back before the request is decided again. If the
// answer to that return is lost, nobody can tell whether they did, and the request fails:
// another debit could be its second one.
func TestARequestIsNotDecidedAgainAfterAReturnOfUnknownOutcome(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		slow := limiter.Custom("rpd", 1, 100_000*time.Hour, limiter.Burst(1000))
		w.System(slow)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.Take(l, ask("user", "rpd", 5))
		time.Sleep(70 * time.Second)
		w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{slow, limiter.PerDay("tpd", 10)}, ""))

		var writes atomic.Int32
		isReturn := func(*faults.Call) bool { return writes.Add(1) >= 2 } // after the debit
		api.Set(faults.On(faults.When(isReturn, loseEveryAnswer), faults.UpdateItem))
		err := errOf(l.Acquire(w.Context(), ask("user", "rpd", 7)))

		if !errors.Is(err, limiter.ErrUnavailable) {
			w.Errorf("got %v after %d writes", err, writes.Load())
		}
		if got := w.Balance("user", "rpd"); got != 995 {
			w.Errorf("the bucket holds %d, want 995", got)
		}
	})
}

// plantConfig writes the limits of a level as a peer does. Its buckets do not follow.
func (w *world) plantConfig(ns string, k limiter.ConfigKey, limits ...limiter.Limit) {
	w.Helper()
	name := table
	w.Must(errOf(w.Engine.PutItem(w.Context(), &dynamodb.PutItemInput{
		TableName: &name, Item: schema.EncodeConfig(ns, k, &limiter.Config{Limits: limits}),
	})))
}

// All shards that a decision uses are compared. Tokens debited from them together,
// under a limit that was lowered since, are returned.
func TestAShardedBucketNotUsedForLongIsCompared(t *testing.T) {
	for _, tokens := range []int64{10, 600, 3000} {
		t.Run(strconv.FormatInt(tokens, 10), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(hourly)
				w.plant("user", hourly, 4, each(4, 900_000)...)
				w.survey(w.Limiter, "user", hourly)
				time.Sleep(2 * time.Minute)
				w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerHour("rph", 8)}, ""))
				if refused := w.Take(w.Limiter, ask("user", "rph", tokens)); refused == nil || refused.RetryAfter() != limiter.Never {
					w.Errorf("%d of 8: %v", tokens, refused)
				}
				w.Serve(w.Limiter, ask("user", "rph", 8))
				if refused := w.Take(w.Limiter, ask("user", "rph", 1)); refused == nil {
					w.Error("the ninth was admitted")
				}
			})
		})
	}
}

// A comparison runs together with the take and costs no round trip. Callers that arrive
// meanwhile wait for the same comparison.
func TestAComparisonCostsNoRoundTrip(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.System(limiter.PerDay("rpd", 1000))
		w.warm(ask("user", "rpd", 1))
		for _, callers := range []int{1, 32} {
			time.Sleep(70 * time.Second)
			reads := w.wire.reads
			for i, c := range w.queue(nil, of(callers, ask("user", "rpd", 1))...) {
				if w.Must(c.err); c.took > 2*w.wire.wait || callers == 1 && c.took > w.wire.wait {
					t.Errorf("caller %d of %d waited %v for requests that take %v", i, callers, c.took, w.wire.wait)
				}
			}
			if driverOf(w.l).Settle(); w.wire.reads != reads+1 {
				t.Errorf("%d reads for %d callers", w.wire.reads-reads, callers)
			}
		}
		// Tokens debited under a limit that was lowered since are returned, and the
		// requests are decided again.
		time.Sleep(70 * time.Second)
		w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerDay("rpd", 10)}, ""))
		if got := w.served(w.queue(nil, of(32, ask("user", "rpd", 1))...)); got != 10 {
			t.Errorf("%d of 10 were served", got)
		}
	})
}

// unread delays reads of configuration, and then fails them if there is an error.
func unread(fail error, hangs time.Duration) faults.Hook {
	return faults.On(faults.Chain(faults.Delay(hangs, 0), faults.Before(func(*faults.Call) error { return fail })), faults.BatchGetItem)
}

// After a comparison has failed, none is tried for a second. So an outage does not cost each
// caller a read, even if nobody else is at the bucket between two of them.
func TestAFailedComparisonIsNotRepeatedAtOnce(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.Take(l, ask("user", "rpd", 1))
		time.Sleep(70 * time.Second)
		var reads atomic.Int32
		api.Set(faults.On(faults.Before(func(*faults.Call) error {
			reads.Add(1)
			return errors.New("connection refused")
		}), faults.BatchGetItem))
		for second := range int32(3) {
			for range 9 {
				w.Take(l, ask("user", "rpd", 1))
				driverOf(l).Settle()
				time.Sleep(100 * time.Millisecond)
			}
			if got := reads.Load(); got != second+1 {
				w.Errorf("%d reads in %d seconds", got, second+1)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// A bucket stays in use while its configuration cannot be read. Its requests are
// metered, so they are neither failed nor degraded. A request that cannot be decided
// without the configuration fails. The configuration holds again once it can be read.
func TestABucketOutlivesAnOutageOfItsConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fail  error
		hangs time.Duration
	}{
		{"failing", errors.New("connection refused"), 0},
		{"throttled", faults.BusyTable(), 0},
		{"hanging", nil, time.Hour},
	} {
		for _, mode := range []limiter.OnUnavailable{limiter.Block, limiter.Allow} {
			t.Run(tt.name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := &world{testbed.New(t, testbed.Options{})}
					api := faults.NewTap(w.Engine)
					l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
					w.System(limiter.PerDay("rpd", 1000))
					request := func(entity string, tokens int64) limiter.Request {
						req := ask(entity, "rpd", tokens)
						req.OnUnavailable = mode
						return req
					}
					w.Take(l, request("user", 1))
					time.Sleep(2 * time.Minute)
					w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerDay("rpd", 100)}, ""))
					api.Set(unread(tt.fail, tt.hangs))
					start := time.Now()
					for range 3 {
						lease, err := l.Acquire(w.Context(), request("user", 1))
						if err != nil || lease.Degraded() {
							t.Errorf("got %v, degraded %t", err, lease != nil && lease.Degraded())
						}
					}
					if took := time.Since(start); took > 2*time.Second {
						t.Errorf("they took %v", took)
					}
					if refused := w.Take(l, request("user", 1001)); refused == nil {
						t.Error("admitted more than the bucket has")
					}
					lease, err := l.Acquire(w.Context(), request("stranger", 1))
					if mode == limiter.Block && !errors.Is(err, limiter.ErrUnavailable) || mode == limiter.Allow && (err != nil || !lease.Degraded()) {
						t.Errorf("a bucket that is to be made: %v", err)
					}
					api.Set(nil)
					time.Sleep(limiter.DefaultConfigTTL)
					if refused := w.Take(l, request("user", 101)); refused == nil || refused.RetryAfter() != limiter.Never {
						t.Errorf("after the outage: %v", refused)
					}
					driverOf(l).Settle()
				})
			})
		}
	}
}

// The item differs from the known configuration, which cannot be read at the moment. A
// request then uses the item as it is, on one shard and on several. It writes no
// parameters, and the item's own parameters decide.
func TestAnItemIsTakenAsItIsWhileConfigurationCannotBeRead(t *testing.T) {
	for _, shards := range []int{1, 2} {
		for _, tokens := range []int64{1, 6, 11} {
			if shards > 1 && tokens > 10 {
				continue // that refusal needs a read of all shards, which fails too
			}
			t.Run(fmt.Sprint(shards, " shards, ", tokens), func(t *testing.T) {
				inEachWorld(t, limiter.Options{}, func(w *world) {
					w.System(hourly)
					w.plant("user", hourly, shards, each(shards, 20_000)...)
					api := faults.NewTap(w.Engine)
					l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
					w.survey(l, "user", hourly)
					for i := range shards { // as a peer does
						w.patchShard(i, "SET b_rph_cp = :c, b_rph_ra = :c, b_rph_tk = :t, vu = :z", schema.Item{
							":c": schema.N(10_000), ":t": schema.N(int64(10_000 / shards)), ":z": schema.N(0),
						})
					}
					api.Set(unread(errors.New("connection refused"), 0))
					refused := w.Take(l, ask("user", "rph", tokens))
					if (refused == nil) != (tokens <= 10) {
						w.Errorf("%d of 10: %v", tokens, refused)
					}
					if got := w.capacities("user"); got != "rph 10" {
						w.Errorf("the item has %s", got)
					}
					if _, err := l.Acquire(w.Context(), ask("user", "tph", 1)); !errors.Is(err, limiter.ErrNotConfigured) {
						w.Errorf("a limit that neither has: %v", err)
					}
				})
			})
		}
	}
}

// A change has reached some shards only, and the configuration cannot be read. A limit that one shard has lost is
// not taken as the others have it: what falls to that shard would be debited nowhere.
func TestShardsThatDifferAreNotTakenAsTheyAre(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly, limiter.PerDay("tpd", 1000))
		w.plant("user", hourly, 2, each(2, 900_000)...)
		w.Take(w.Limiter, ask("user", "tpd", 1)) // all shards get it
		driverOf(w.Limiter).Settle()
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		w.survey(l, "user", hourly)
		w.patchShard(1, "REMOVE b_tpd_tk, b_tpd_cp, b_tpd_ra, b_tpd_rp SET rf = rf + :m", schema.Item{":m": schema.N(1)})
		api.Set(faults.On(faults.Before(func(q *faults.Call) error {
			for _, asked := range q.Input.(*dynamodb.BatchGetItemInput).RequestItems {
				if len(asked.Keys) != 2 { // it is not for the two shards alone
					return errors.New("connection refused")
				}
			}
			return nil
		}), faults.BatchGetItem))
		request := limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rph": 1000, "tpd": 700}}
		if _, err := l.Acquire(w.Context(), request); !errors.Is(err, limiter.ErrUnavailable) {
			w.Errorf("admitted, or refused by %v", err)
		}
		if used := w.used(); used != 0 {
			w.Errorf("%d are counted", used)
		}
	})
}

// A status quotes the configuration to which another process repaired the item, even
// though this process compared the bucket only in the meantime.
func TestStatusesQuoteWhatTheBucketWasComparedWith(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: time.Second}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100), limiter.PerMinute("rpm", 60))
		w.Take(w.Limiter, ask("user", "rpd", 1))
		operator := w.OpenOn(w.Engine)
		w.Must(operator.SetLimits(w.Context(), limiter.ConfigKey{}, []limiter.Limit{limiter.PerDay("rpd", 100), limiter.PerMinute("rpm", 30)}))
		w.Take(w.NewLimiter(operator, limiter.Options{}), ask("user", "rpd", 1))
		time.Sleep(2 * time.Second)
		lease := w.Lease(w.Limiter, limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1, "rpm": 0}})
		for _, st := range lease.Statuses() {
			if st.Limit.Name == "rpm" && st.Limit.Capacity != 30 {
				w.Errorf("quoted is %+v, configured are 30 a minute", st)
			}
		}
	})
}

// A refusal under outdated parameters is forgotten: the request is decided by those in force.
func TestARefusalThatAComparisonUndoes(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerDay("rpd", 1000))
		_, ns := w.Store.Namespace()
		w.plantConfig(ns, limiter.ConfigKey{Entity: "key", Resource: "gpt-4"}, limiter.PerDay("rpd", 5000))
		w.Take(w.Limiter, ask("key", "rpd", 1000)) // all that the project has
		time.Sleep(70 * time.Second)
		w.plantConfig(ns, limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, limiter.PerDay("tpd", 10))
		w.Must(errOf(w.Acquire(w.Context(), ask("key", "rpd", 500))))
		w.holds("key", "rpd", 5000-1000-500+4) // four are earned meanwhile
	})
}
