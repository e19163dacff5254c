package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// together returns a request for tokens of rph of several resources, given as resource, tokens.
func together(entity string, amounts ...any) (req limiter.Request) {
	for i := 0; i < len(amounts); i += 2 {
		resource, consume := amounts[i].(string), tokens{"rph": int64(amounts[i+1].(int))}
		if i == 0 {
			req = limiter.Request{Entity: entity, Resource: resource, Consume: consume}
		} else {
			req.Also = append(req.Also, limiter.Part{Resource: resource, Consume: consume})
		}
	}
	return req
}

// keeps checks the balances of rph by resource, of an entity and of its parent, given as
// resource, tokens.
func (w *world) keeps(entity string, want ...any) {
	w.Helper()
	for i := 0; i < len(want); i += 2 {
		statuses, err := w.Available(w.Context(), together(entity, want[i], 0))
		w.Must(err)
		for _, s := range statuses {
			if s.Available != int64(want[i+1].(int)) {
				w.Errorf("%s holds %d of %s, want %v", s.Entity, s.Available, s.Resource, want[i+1])
			}
		}
	}
}

// what lists statuses as entity/resource available, with a mark if one is exceeded.
func what(statuses []limiter.Status) string {
	var all []string
	for _, s := range statuses {
		text := fmt.Sprintf("%s/%s %d", s.Entity, s.Resource, s.Available)
		if s.Exceeded {
			text += "!"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// drainTo leaves a number of tokens of a resource, as another process does.
func (w *world) drainTo(entity, resource string, left int) {
	w.Helper()
	statuses, err := w.Available(w.Context(), together(entity, resource, 0))
	w.Must(err)
	w.Serve(w.NewLimiter(w.Store, limiter.Options{}), together(entity, resource, int(statuses[0].Available)-left))
}

func TestSeveralResourcesAreOneRequest(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(fixed("rph", 10))
		w.Serve(w.Limiter, together("key", "gpt-4", 1, "images", 2))
		lease := w.Lease(w.Limiter, together("key", "gpt-4", 3, "images", 4))
		if got := what(lease.Statuses()); got != "key/gpt-4 6, project/gpt-4 6, key/images 4, project/images 4" {
			w.Error(got)
		}
		images, err := lease.Resource("images")
		w.Must(err)
		if got := what(images.Statuses()); got != "key/images 4, project/images 4" || images.Consumed()["rph"] != 4 || lease.Consumed()["rph"] != 3 {
			w.Error(got, images.Consumed(), lease.Consumed())
		}
		if own, err := lease.Resource("gpt-4"); own != lease || err != nil {
			w.Error(own, err)
		}
		if _, err := lease.Resource("video"); !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), "video") {
			w.Error(err)
		}
		w.Must(lease.Adjust("rph", 1))
		w.Must(images.Settle("rph", 1))
		w.Must(images.Take(w.Context(), tokens{"rph": 2}))
		w.Must(images.Release(w.Context(), tokens{"rph": 1}))
		w.keeps("key", "gpt-4", 6, "images", 6)
		w.Must(lease.Commit(w.Context()))
		w.keeps("key", "gpt-4", 5, "images", 6)
		if err := images.Adjust("rph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
			w.Errorf("a part is open after the commit: %v", err)
		}
		w.Must(w.Lease(w.Limiter, together("key", "gpt-4", 3, "images", 4)).Rollback(w.Context()))
		w.keeps("key", "gpt-4", 5, "images", 6)

		one := w.Lease(w.Limiter, together("key", "gpt-4", 3, "images", 4))
		images, err = one.Resource("images")
		w.Must(err)
		w.Must(images.Commit(w.Context())) // before the others
		w.Must(one.Rollback(w.Context()))
		w.keeps("key", "gpt-4", 5, "images", 2)
	})
}

// One part that refuses takes nothing from any, and the refusal names all. Its wait is that of
// the whole, to the millisecond. Once the process knows, a refusal costs nothing.
func TestOnePartRefusesAll(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 60))
		for _, k := range []string{"images", "search"} {
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: k}, []limiter.Limit{limiter.PerMinute("rph", 60)}))
		}
		w.Serve(w.Limiter, together("key", "gpt-4", 0, "images", 0, "search", 0))
		w.drainTo("project", "images", 10)
		w.drainTo("key", "search", 55)
		req := together("key", "gpt-4", 3, "images", 40, "search", 60)
		for name, l := range map[string]*limiter.Limiter{"warm": w.Limiter, "cold": w.NewLimiter(w.Store, limiter.Options{})} {
			refused := w.Take(l, req)
			if refused == nil {
				w.Fatal("admitted")
			}
			if got := what(refused.Statuses); got != "key/gpt-4 60, project/gpt-4 60, key/images 60, project/images 10!, key/search 55!, project/search 55!" {
				w.Errorf("%s: %s", name, got)
			}
			_ = w.Take(l, together("key", "images", 40)) // a parent that was only looked at is not remembered
			_ = w.Take(l, together("key", "search", 60))
			driverOf(l).Settle()
			before := w.Meter.Totals().Sum().Requests
			again := w.Take(l, req)
			if n := w.Meter.Totals().Sum().Requests - before; n != 0 || again == nil || what(again.Statuses) != what(refused.Statuses) {
				w.Errorf("%s: known refused, for %d requests: %v", name, n, again)
			}
			w.keeps("key", "gpt-4", 60)
		}
		refused := w.Take(w.Limiter, req)
		if wait, err := w.TimeUntilAvailable(w.Context(), req); err != nil || wait != 30*time.Second || refused.RetryAfter() != wait {
			w.Errorf("the wait is %v, or %v, want 30 s", refused.RetryAfter(), wait)
		}
		time.Sleep(30*time.Second - time.Millisecond)
		if early := w.Take(w.Limiter, req); early == nil || early.RetryAfter() != time.Millisecond {
			w.Errorf("1 ms before: %+v", early)
		}
		time.Sleep(time.Millisecond)
		w.Serve(w.Limiter, req)
	})
}

// Of several resources that fail, the worst gives the error. Nothing is debited in any case.
func TestTheWorstOfSeveralResourcesIsTheError(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(fixed("rph", 10))
		api := faults.NewTap(w.Engine)
		w.Store = w.OpenOn(api)
		fresh := func() *limiter.Limiter { return w.NewLimiter(w.Store, limiter.Options{}) }
		w.Serve(w.Limiter, together("user", "fine", 0, "short", 9, "off", 0, "denied", 0, "away", 0))
		w.switchOff(limiter.ConfigKey{Resource: "off"}, true)
		unconfigured := limiter.Part{Resource: "none", Consume: tokens{"tph": 1}}
		api.Set(faults.When((*faults.Call).Writes, faults.Before(func(c *faults.Call) error {
			for _, b := range c.Buckets() {
				switch b.Resource {
				case "denied":
					return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}
				case "away":
					return errors.New("away")
				}
			}
			return nil
		})))
		for _, tt := range []struct {
			parts string
			want  error
		}{
			{"fine away", limiter.ErrUnavailable},
			{"fine away denied", limiter.ErrAccessDenied},
			{"denied away", limiter.ErrAccessDenied},
			{"fine denied away short", limiter.ErrExceeded},
			{"short denied none", limiter.ErrNotConfigured},
			{"none short off denied", limiter.ErrDisabled},
		} {
			var amounts []any
			for name := range strings.FieldsSeq(tt.parts) {
				if name != "none" {
					amounts = append(amounts, name, 5)
				}
			}
			req := together("user", amounts...)
			if strings.Contains(tt.parts, "none") {
				req.Also = append(req.Also, unconfigured)
			}
			req.OnUnavailable = limiter.Block
			l := fresh()
			_, err := l.Acquire(w.Context(), req)
			var others []error
			for _, other := range []error{limiter.ErrUnavailable, limiter.ErrAccessDenied, limiter.ErrExceeded, limiter.ErrNotConfigured, limiter.ErrDisabled} {
				if errors.Is(err, other) && !errors.Is(tt.want, other) {
					others = append(others, other)
				}
			}
			others = slices.DeleteFunc(others, func(e error) bool {
				return errors.Is(tt.want, limiter.ErrAccessDenied) && errors.Is(e, limiter.ErrUnavailable)
			})
			if !errors.Is(err, tt.want) || len(others) > 0 {
				w.Errorf("%s: got %v, want %v", tt.parts, err, tt.want)
			}
			driverOf(l).Settle()
		}
		api.Set(nil)
		w.keeps("user", "fine", 10, "short", 1, "denied", 10, "away", 10)
	})
}

func TestBadRequestsForSeveralResources(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		many := together("user", "gpt-4", 1)
		for i := range limiter.MaxResources {
			many.Also = append(many.Also, limiter.Part{Resource: fmt.Sprint("r", i), Consume: tokens{"rph": 1}})
		}
		withFallback := together("user", "gpt-4", 1, "images", 1)
		withFallback.Also[0].Fallback = []limiter.Limit{{Name: "rph"}}
		for name, tt := range map[string]struct {
			req   limiter.Request
			field string
		}{
			"too many":           {many, "also"},
			"twice":              {together("user", "gpt-4", 1, "images", 1, "gpt-4", 1), "also"},
			"twice further down": {together("user", "gpt-4", 1, "images", 1, "images", 1), "also"},
			"a bad name":         {together("user", "gpt-4", 1, "a/b#c", 1), "also: resource"},
			"no name":            {together("user", "gpt-4", 1, "", 1), "also: resource"},
			"no limits":          {limiter.Request{Entity: "user", Resource: "gpt-4", Consume: tokens{"rph": 1}, Also: []limiter.Part{{Resource: "images"}}}, "also: consume"},
			"a bad amount":       {together("user", "gpt-4", 1, "images", -1), "also: consume rph"},
			"a bad fallback":     {withFallback, "also: limit rph: capacity"},
		} {
			for _, call := range []func() error{
				func() error { _, err := w.Acquire(w.Context(), tt.req); return err },
				func() error { _, err := w.Wait(w.Context(), tt.req); return err },
				func() error { _, err := w.Available(w.Context(), tt.req); return err },
			} {
				err := call()
				if e, ok := errors.AsType[*limiter.ValidationError](err); !ok || !strings.HasPrefix(e.Field, tt.field) {
					w.Errorf("%s: %v, want it to name %q", name, err, tt.field)
				}
			}
		}
		many.Also = many.Also[1:]
		w.System(fixed("rph", 10))
		w.Serve(w.Limiter, many)
	})
}

// Each part has limits of its own to fall back on, also for what is taken later.
func TestEachPartHasItsFallback(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		req := together("user", "gpt-4", 1, "images", 2)
		req.Fallback, req.Also[0].Fallback = []limiter.Limit{fixed("rph", 10)}, []limiter.Limit{fixed("rph", 5)}
		lease := w.Lease(w.Limiter, req)
		if got := what(lease.Statuses()); got != "user/gpt-4 9, user/images 3" {
			w.Error(got)
		}
		images, err := lease.Resource("images")
		w.Must(err)
		if err := images.Take(w.Context(), tokens{"rph": 4}); !errors.Is(err, limiter.ErrExceeded) {
			w.Error(err)
		}
		w.Must(lease.Commit(w.Context()))
	})
}

// Without the store, the lease of all resources is degraded. Parts that were debited meanwhile
// are settled with it.
func TestWithoutTheStoreAllPartsAreDegraded(t *testing.T) {
	for _, ends := range []string{"commit", "rollback"} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(ends, ", the answers come late ", late), func(t *testing.T) {
				t.Parallel()
				inBubble(t, testbed.Options{Remote: true}, func(w *world) {
					w.System(fixed("rph", 10))
					api := faults.NewTap(w.Engine)
					l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
					w.Serve(l, together("user", "gpt-4", 1, "images", 1))
					want := []any{"gpt-4", 9, "images", 9}
					if late {
						api.Set(faults.Delay(time.Millisecond, 2*time.Second))
						if ends == "commit" {
							want = []any{"gpt-4", 6, "images", 8}
						}
					} else {
						api.Set(faults.Fail(errors.New("away")))
					}
					ctx, cancel := context.WithTimeout(w.Context(), time.Second)
					defer cancel()
					req := together("user", "gpt-4", 3, "images", 4)
					req.OnUnavailable = limiter.Allow
					lease, err := l.Acquire(ctx, req)
					w.Must(err)
					images, err := lease.Resource("images")
					w.Must(err)
					if !lease.Degraded() || !images.Degraded() || len(lease.Statuses())+len(images.Consumed()) != 0 {
						w.Error("the lease is not degraded as a whole")
					}
					w.Must(images.Settle("rph", 1))
					if ends == "commit" {
						w.Must(lease.Commit(w.Context()))
					} else {
						_ = lease.Rollback(w.Context())
					}
					time.Sleep(5 * time.Second) // the acquire gives up
					api.Set(nil)
					driverOf(l).Settle()
					w.keeps("user", want...)
				})
			})
		}
	}
}

// An observer is told of one call, with what it asked for and changed of each resource.
func TestAnObserverIsToldOfSeveralResources(t *testing.T) {
	inDiary(t, func(w *world, d *diary) {
		w.System(fixed("rph", 10))
		req := together("key", "gpt-4", 3, "images", 4, "search", 1)
		lease := w.Lease(w.Limiter, req)
		check := func(result limiter.Result, want string) {
			w.Helper()
			r := d.one(w)
			var parts []string
			for p := range r.Parts() {
				parts = append(parts, fmt.Sprint(p.Resource, " ", p.Consume["rph"], " ", p.Settled))
			}
			if got := strings.Join(parts, ", "); r.Result != result || r.Resource != "gpt-4" || got != want {
				w.Errorf("told of %+v: %s, want %s", r.Call, got, want)
			}
		}
		check(limiter.Admitted, "gpt-4 3 [], images 4 [], search 1 []")
		images, err := lease.Resource("images")
		w.Must(err)
		w.Must(images.Adjust("rph", -1))
		w.Must(lease.Adjust("rph", 2))
		w.Must(lease.Commit(w.Context()))
		check(limiter.Completed, "gpt-4 0 [{rph 2000 0}], images 0 [{rph -1000 0}], search 0 []")
		w.Must(lease.Commit(w.Context()))
		if calls, _ := d.take(); len(calls) != 0 {
			w.Errorf("told of a commit of a closed lease: %+v", calls)
		}
		if refused := w.Take(w.Limiter, together("key", "gpt-4", 1, "images", 9)); refused == nil {
			w.Fatal("admitted")
		}
		check(limiter.Refused, "gpt-4 1 [], images 9 []")
	})
}

func TestDoTakesSeveralResources(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(fixed("rph", 10))
		req := together("user", "gpt-4", 3, "images", 4)
		err := w.Do(w.Context(), req, func(_ context.Context, lease *limiter.Lease) error {
			images, err := lease.Resource("images")
			return errors.Join(err, images.Settle("rph", 1))
		})
		w.Must(err)
		w.keeps("user", "gpt-4", 7, "images", 9)
		failed := errors.New("failed")
		if err := w.Do(w.Context(), req, func(context.Context, *limiter.Lease) error { return failed }); !errors.Is(err, failed) {
			w.Error(err)
		}
		w.keeps("user", "gpt-4", 7, "images", 9)
	})
}

// Callers that ask for the same of different resources do not get each other's.
func TestALeaseIsOfTheResourceThatWasWaitedFor(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rph", 60))
		w.Serve(w.Limiter, together("user", "gpt-4", 60, "images", 60))
		other := w.NewLimiter(w.Store, limiter.Options{})
		// The first tries, and finds that another process was first. The second is admitted.
		time.AfterFunc(4900*time.Millisecond, func() { w.Serve(other, together("user", "gpt-4", 4)) })
		for i, c := range w.waits(w.Limiter, w.Context(), together("user", "gpt-4", 5), together("user", "images", 5)) {
			w.Must(c.err)
			if got, want := what(c.lease.Statuses()), []string{"user/gpt-4 0", "user/images 0"}[i]; got != want {
				w.Errorf("caller %d got %s, want %s", i, got, want)
			}
		}
	})
}

// Callers that wait for several resources wait for all of them, in the order of arrival: others
// do not overtake them at the one while they wait for the other.
func TestWaitForSeveralResources(t *testing.T) {
	for _, entity := range []string{"user", "key"} {
		t.Run(entity, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerMinute("rph", 60))
				w.Serve(w.Limiter, together(entity, "gpt-4", 60, "images", 30))
				both := together(entity, "gpt-4", 20, "images", 50)
				got := w.waits(w.Limiter, w.Context(), both, together(entity, "images", 5), together(entity, "gpt-4", 6), together(entity, "video", 5), both)
				var order []int
				var took []time.Duration
				for _, c := range got {
					w.Must(c.err)
					order, took = append(order, c.order), append(took, c.took.Round(time.Second))
				}
				// The first waits 20 s for both, and takes all that gpt-4 has by then. The last
				// one waits for 55 of images.
				if diff := cmp.Diff([]int{1, 2, 3, 0, 4}, order); diff != "" {
					w.Errorf("order (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]time.Duration{20 * time.Second, 25 * time.Second, 26 * time.Second, 0, 75 * time.Second}, took); diff != "" {
					w.Errorf("waits (-want +got):\n%s", diff)
				}
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				if _, err := w.Wait(ctx, both); !errors.Is(err, limiter.ErrExceeded) || ctx.Err() != nil {
					w.Errorf("a wait beyond the deadline: %v", err)
				}
			})
		})
	}
}

// Tokens that a request returns because another resource refused it go to callers that wait for
// them, at once.
func TestReturnedPartsRouseWaiters(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 10))
		slow := faults.Throttle(func(b store.Bucket) error {
			if b.Resource == "embed" {
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		})
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Meter, slow)), limiter.Options{})
		w.Serve(l, together("user", "gpt-4", 0, "embed", 0)) // remembers both
		w.Serve(w.Limiter, together("user", "embed", 10))
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := l.Acquire(w.Context(), together("user", "gpt-4", 10, "embed", 1)); !errors.Is(err, limiter.ErrExceeded) {
				w.Errorf("got %v, want a refusal", err)
			}
		})
		time.Sleep(10 * time.Millisecond) // gpt-4 is empty now
		from := time.Now()
		lease, err := l.Wait(w.Context(), together("user", "gpt-4", 10))
		w.Must(err)
		if took := time.Since(from); took < 10*time.Millisecond || took > time.Second {
			w.Errorf("waited %v for tokens that came back after 40 ms", took)
		}
		w.Must(lease.Commit(w.Context()))
		both.Wait()
	})
}
