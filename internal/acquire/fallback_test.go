package acquire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// with returns the request with fallback limits.
func with(req limiter.Request, limits ...limiter.Limit) limiter.Request {
	req.Fallback = limits
	return req
}

// Fallback limits hold like configured limits if no level configures any.
func TestFallbackLimitsHoldWhereNothingIsConfigured(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		req := with(ask("user", "rpm", 10), limiter.PerMinute("rpm", 10), limiter.PerHour("rph", 100))
		w.Serve(w.Limiter, req)
		refused := w.Take(w.Limiter, with(ask("user", "rpm", 1), req.Fallback...))
		if refused == nil || refused.RetryAfter() != 6*time.Second {
			w.Errorf("the eleventh: %v, want a wait of 6 s", refused)
		}
		if !w.refusedLocally(w.Limiter, with(ask("user", "rpm", 1), req.Fallback...)) {
			w.Error("the store was asked again")
		}
		statuses, err := w.Available(w.Context(), with(askAll("user", tokens{"rpm": 1, "rph": 0}), req.Fallback...))
		if w.Must(err); len(statuses) != 2 || statuses[0].Available != 100 || statuses[1].RetryAfter != 6*time.Second {
			w.Errorf("available: %+v", statuses)
		}
	})
}

// A day's limit that only some requests bring is never added again with a full balance.
// However such requests alternate, only the limit's own tokens are admitted.
func TestAFallbackLimitIsNotGivenBackFull(t *testing.T) {
	rpd, rph := limiter.PerDay("rpd", 10), limiter.PerHour("rph", 1_000_000)
	for name, others := range map[string]struct {
		req  limiter.Request
		want error
	}{
		"without any":         {ask("user", "rph", 1), limiter.ErrNotConfigured},
		"with another":        {with(ask("user", "rph", 1), rph), nil},
		"with more":           {with(ask("user", "rph", 1), rph, rpd), nil},
		"with another amount": {with(ask("user", "rpd", 0), limiter.PerDay("rpd", 5)), nil},
	} {
		for _, clients := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", ", clients, " clients"), func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					other := w.Limiter
					if clients == 2 {
						other = w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
					}
					admitted := 0
					for range 200 {
						if w.Take(w.Limiter, with(ask("user", "rpd", 1), rpd)) == nil {
							admitted++
						}
						if err := errOf(other.Acquire(w.Context(), others.req)); !errors.Is(err, others.want) {
							w.Fatalf("the other request: %v", err)
						}
						time.Sleep(time.Second)
					}
					if admitted > 10 || others.req.Fallback == nil && admitted != 10 {
						w.Errorf("%d of 10 were admitted", admitted)
					}
				})
			})
		}
	}
}

// A limit that a request brings beside configured ones is invalid. It is never on the
// bucket, so a request without it cannot make it full again.
func TestALimitBroughtBesideConfiguredOnesIsInvalid(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 1_000_000))
		for range 200 {
			w.unconfigured(w.Limiter, with(ask("user", "rpd", 10), limiter.PerDay("rpd", 10)))
			w.Take(w.Limiter, ask("user", "rph", 1))
			time.Sleep(time.Second)
		}
	})
}

// Fallback limits neither change nor remove configured limits, whatever the request
// asks for. This holds for the entity's bucket, the parent's, and the buckets of
// others.
func TestFallbackLimitsChangeNothingThatIsConfigured(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerMinute("rpm", 100))
		other := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
		for _, brought := range []limiter.Limit{limiter.PerMinute("rpm", 5), limiter.PerMinute("rpm", 6000), limiter.PerDay("rpd", 1)} {
			if refused := w.Take(w.Limiter, with(ask("key", "rpm", 1), brought)); refused != nil {
				w.Errorf("with %v: %v", brought, refused)
			}
			w.unconfigured(w.Limiter, with(ask("key", brought.Name+"x", 0), brought))
		}
		w.holds("key", "rpm", 97, "project", "rpm", 97)
		if got := w.capacities("key") + ", " + w.capacities("project"); got != "rpm 100, rpm 100" {
			w.Errorf("the items have %s", got)
		}
		// The configuration decides another process's requests.
		admitted := 0
		for range 600 {
			w.Take(w.Limiter, with(ask("key", "rpm", 0), limiter.PerMinute("rpm", 6000)))
			if w.Take(other, ask("key", "rpm", 2)) == nil {
				admitted += 2
			}
			time.Sleep(time.Second)
		}
		if admitted > 100+1000 || admitted < 990 {
			w.Errorf("%d were admitted in 10 minutes, of 100 a minute", admitted)
		}
	})
}

// A parent is limited by its own configuration alone.
func TestFallbackLimitsAreNotTheParents(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
		rpm := limiter.PerMinute("rpm", 10)
		for range 2 {
			w.Serve(w.Limiter, with(ask("key", "rpm", 1), rpm))
		}
		if n := len(w.Images("project")); n != 0 {
			w.Errorf("the project got %d buckets", n)
		}
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", 3)}))
		for _, admitted := range []bool{true, true, true, false} {
			refused := w.Take(w.Limiter, with(ask("key", "rpm", 1), rpm))
			if (refused == nil) != admitted || refused != nil && refused.Statuses[0].Exceeded {
				w.Errorf("got %v, want it admitted: %t", refused, admitted)
			}
		}
	})
}

// A request for a limit that the deciding level lacks fails, whether the bucket
// exists or not. The error names the level that decided.
func TestTheErrorSaysWhichLevelDecides(t *testing.T) {
	rpm, tpm := limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 10)
	for name, tt := range map[string]struct {
		set  func(*world)
		ok   limiter.Request
		bad  limiter.Request
		want string
	}{
		"the system": {
			func(w *world) { w.System(rpm) }, ask("user", "rpm", 0), with(askAll("user", tokens{"rpm": 1, "tpm": 1}), tpm),
			`limit tpm of gpt-4 for user is not configured: the limits configured for the system are rpm:`,
		},
		"a resource": {
			func(w *world) {
				w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{rpm, limiter.PerDay("rpd", 1)}))
			}, ask("user", "rpm", 0), ask("user", "tpm", 1), `limit tpm of gpt-4 for user is not configured: the limits configured for resource gpt-4 are rpd, rpm:`,
		},
		"an entity": {
			func(w *world) {
				w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, []limiter.Limit{rpm}))
			}, ask("user", "rpm", 0), with(ask("user", "tpm", 1), tpm), `limit tpm of gpt-4 for user is not configured: the limits configured for entity user for gpt-4 are rpm:`,
		},
		"an entity's default": {
			func(w *world) {
				w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource}, []limiter.Limit{rpm}))
			}, ask("user", "rpm", 0), with(ask("user", "tpm", 1), tpm), `limit tpm of gpt-4 for user is not configured: the limits configured for entity user for every resource are rpm:`,
		},
		"the fallback": {
			func(*world) {}, with(askAll("user", tokens{"rpm": 0, "tpm": 0}), rpm, tpm), with(askAll("user", tokens{"rpm": 1, "tpm": 1}), rpm),
			`limit tpm of gpt-4 for user is not configured: no level configures limits, and the request's fallback limits are rpm:`,
		},
		"none": {
			func(*world) {}, with(ask("user", "rpm", 0), rpm), ask("user", "rpm", 1),
			`limit rpm of gpt-4 for user is not configured: no level configures limits: configure some, or pass Fallback with the request`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				tt.set(w)
				check := func(when string, l *limiter.Limiter) {
					w.Helper()
					if text := w.unconfigured(l, tt.bad); !strings.Contains(text, tt.want) {
						w.Errorf("%s: %q, want %q", when, text, tt.want)
					}
					if _, err := l.Available(w.Context(), tt.bad); !errors.Is(err, limiter.ErrNotConfigured) || !strings.Contains(err.Error(), tt.want) {
						w.Errorf("available, %s: %v, want %q", when, err, tt.want)
					}
				}
				check("no bucket", w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{}))
				if n := len(w.Images("user")); n != 0 {
					w.Errorf("a bucket was made for a request that is invalid")
				}
				w.Take(w.Limiter, tt.ok)
				check("a bucket in use", w.Limiter)
				check("a bucket of others", w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{}))
				time.Sleep(2 * time.Minute)
				check("a bucket not used for long", w.Limiter)
				// The limiter neither writes the bucket nor sends a useless request.
				before := w.requests()
				w.unconfigured(w.Limiter, tt.bad)
				if w.requests() != before {
					w.Error("the store was asked about a request that is known to be invalid")
				}
			})
		})
	}
}

// Configuration that appears later holds within the time to live. When it is deleted,
// the fallback limits hold again.
func TestConfigurationComesBeforeFallbackLimits(t *testing.T) {
	rpm := limiter.PerMinute("rpm", 1000)
	for _, pause := range []time.Duration{time.Second, 70 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				req := with(ask("user", "rpm", 100), rpm)
				w.Take(w.Limiter, req)
				w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerMinute("rpm", 10)}, ""))
				w.admitted(w.Limiter, with(ask("user", "rpm", 0), rpm), pause, limiter.DefaultConfigTTL)
				if refused := w.Take(w.Limiter, req); refused == nil || refused.RetryAfter() != limiter.Never {
					w.Errorf("a minute after 10 were configured: %v", refused)
				}
				w.Must(w.elsewhere().DeleteLimits(w.Context(), limiter.ConfigKey{}))
				time.Sleep(limiter.DefaultConfigTTL)
				refused := w.Take(w.Limiter, req)
				if refused == nil || refused.RetryAfter() > 6*time.Second {
					w.Fatalf("a minute after that was deleted, with at most 10 left: %v", refused)
				}
				time.Sleep(refused.RetryAfter())
				w.Serve(w.Limiter, req)
			})
		})
	}
}

// If two clients bring different fallback limits, those of the last one are in force.
// The balance is trimmed to the lower capacity, and the change never fills it.
func TestTwoClientsWithDifferentFallbackLimits(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		other := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
		large, small := limiter.PerDay("rpd", 100), limiter.PerDay("rpd", 10)
		w.Take(w.Limiter, with(ask("user", "rpd", 5), large))
		refused := w.Take(other, with(ask("user", "rpd", 11), small))
		if refused == nil || refused.RetryAfter() != limiter.Never {
			w.Errorf("11 of 10: %v", refused)
		}
		if refused := w.Take(w.Limiter, with(ask("user", "rpd", 11), large)); refused == nil || refused.Statuses[0].Available != 10 {
			w.Errorf("what is left is %v, want 10", refused)
		}
		admitted := 0
		for range 100 {
			for l, limit := range map[*limiter.Limiter]limiter.Limit{w.Limiter: large, other: small} {
				if w.Take(l, with(ask("user", "rpd", 1), limit)) == nil {
					admitted++
				}
			}
			time.Sleep(time.Second)
		}
		if admitted != 10 {
			w.Errorf("%d were admitted of the 10 that were left", admitted)
		}
	})
}

// A bucket's expiry covers all the limits that it has, including those that a request
// brought later.
func TestABroughtLimitOutlivesItsOwnTime(t *testing.T) {
	rpm, rpd := limiter.PerMinute("rpm", 1000), limiter.PerDay("rpd", 100)
	inWorld(t, limiter.Options{}, func(w *world) {
		w.Take(w.Limiter, with(ask("user", "rpm", 1), rpm))
		w.Take(w.Limiter, with(ask("user", "rpd", 100), rpm, rpd))
		w.Take(w.Limiter, with(ask("user", "rpm", 1), rpm)) // as a client that does not know rpd
		time.Sleep(10 * time.Minute)
		if refused := w.Take(w.Limiter, with(ask("user", "rpd", 100), rpm, rpd)); refused == nil {
			w.Error("200 of 100 a day were admitted in ten minutes")
		}
	})
}

// When the last configuration of a resource is deleted, a bucket in use answers as a
// bucket that does not exist. This holds within the time to live, for every client. The
// bucket has its balance again when configuration comes back.
func TestABucketWithoutConfigurationAnswersAsANewOne(t *testing.T) {
	for _, cascades := range []bool{false, true} {
		for _, pause := range []time.Duration{time.Second, 70 * time.Second} {
			t.Run(fmt.Sprint("cascades ", cascades, ", used every ", pause), func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					entity := "user"
					w.family(limiter.PerDay("rpd", 100))
					if cascades {
						entity = "key"
					}
					w.Serve(w.Limiter, ask(entity, "rpd", 40))
					w.Must(w.elsewhere().DeleteLimits(w.Context(), limiter.ConfigKey{}))
					for end := time.Now().Add(limiter.DefaultConfigTTL); time.Now().Before(end); time.Sleep(pause) {
						_, _ = w.Acquire(w.Context(), ask(entity, "rpd", 0))
					}
					want := w.unconfigured(w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{}), ask("stranger", "rpd", 1))
					for _, l := range []*limiter.Limiter{w.Limiter, w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{})} {
						if got := w.unconfigured(l, ask(entity, "rpd", 1)); strings.ReplaceAll(got, entity, "stranger") != want {
							w.Errorf("a bucket in use answers %q, a new one %q", got, want)
						}
					}
					before := w.requests()
					w.unconfigured(w.Limiter, ask(entity, "rpd", 1))
					if w.requests() != before {
						w.Error("the store was asked again within the time to live")
					}
					w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerDay("rpd", 100)}, ""))
					time.Sleep(limiter.DefaultConfigTTL)
					w.Take(w.Limiter, ask(entity, "rpd", 0))
					w.holds(entity, "rpd", 60)
				})
			})
		}
	}
}
