package acquire_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A quota whose bucket is doubled and merged answers as one whose bucket has one shard: it admits
// what the period has left, refuses more with the exact wait, takes returned tokens back in their
// period, and is full at each edge (P5, P11).
func TestAQuotaOfShardsIsOneQuota(t *testing.T) {
	const seeds = 30
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a seed is a history
				day, err := limiter.ParseRenewal("day at 06:30", "Europe/Berlin")
				w.Must(err)
				const whole = 97
				w.System(limiter.Quota("rpd", whole, day), limiter.PerMinute("rpm", 60_000))
				type lease struct {
					*limiter.Lease

					tokens, period int64
				}
				var leases []lease
				left, period := int64(whole), int64(0)
				w.Take(w.Limiter, ask("user", "rpd", 0))
				for range 60 {
					if next := day.Next(time.Now().UnixMilli()); next != period {
						period, left = next, whole
					}
					switch r.IntN(8) {
					case 0:
						if w.count() < 8 {
							driverOf(w.Limiter).DoubleNow(w.Context(), "user", testbed.Resource)
						}
					case 1:
						if n := w.count(); n > 1 {
							w.halve(w.Limiter, n/2)
						}
					case 2:
						time.Sleep(time.Duration(r.Int64N(int64(9 * time.Hour))))
					case 3:
						time.Sleep(time.Until(time.UnixMilli(period)) - time.Duration(r.IntN(2))*time.Minute)
					case 4:
						if len(leases) > 0 {
							back := leases[len(leases)-1]
							leases = leases[:len(leases)-1]
							w.Must(back.Rollback(w.Context()))
							if back.period == period {
								left += back.tokens
							}
						}
					default:
						want := 1 + r.Int64N(60)
						got, err := w.Acquire(w.Context(), ask("user", "rpd", want))
						e := (*limiter.ExceededError)(nil)
						switch {
						case err == nil && want <= left:
							left -= want
							leases = append(leases, lease{got, want, period})
						case errors.As(err, &e) && want > left:
							if due := time.Until(time.UnixMilli(period)); e.RetryAfter() < due.Truncate(time.Millisecond) || e.RetryAfter() > due+time.Millisecond {
								w.Errorf("it waits for %v, want %v", e.RetryAfter(), due)
							}
						default:
							w.Fatalf("%d of %d on %d shards: %v", want, left, w.count(), err)
						}
					}
				}
			})
		})
	}
}

// Limits that come with requests do not change the time zone of quotas that came with others.
func TestRequestsHaveQuotasOfOneZone(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		quota := func(name, zone string) limiter.Limit {
			renews, err := limiter.ParseRenewal("day", zone)
			w.Must(err)
			return limiter.Quota(name, 10, renews)
		}
		berlin, tokyo := quota("rpd", "Europe/Berlin"), quota("tpd", "Asia/Tokyo")
		w.Take(w.Limiter, with(ask("user", "rpd", 3), berlin))
		_, err := w.Acquire(w.Context(), with(ask("user", "tpd", 1), tokyo))
		e := (*limiter.ValidationError)(nil)
		if !errors.As(err, &e) || !strings.Contains(e.Value, "Europe/Berlin") || !strings.Contains(e.Value, "Asia/Tokyo") {
			t.Errorf("a quota of another zone: %v", err)
		}
		if img := w.Images("user")[0]; len(img.Limits) != 1 || img.Limits[0].Renewal != berlin.Renews || img.Limits[0].Tokens != 7*store.Milli {
			t.Errorf("the item became %+v", img.Limits)
		}
		w.Take(w.Limiter, with(ask("user", "tpd", 1), quota("tpd", "Europe/Berlin")))
		w.Take(w.Limiter, with(ask("user", "rpm", 1), limiter.PerMinute("rpm", 5)))
		w.System(tokyo)
		w.InvalidateConfig()
		w.Take(w.Limiter, ask("user", "tpd", 1))
	})
}

// Callers that return tokens of different periods at the same time share no write: each credit
// returns to its own period or to none.
func TestCreditsOfTwoPeriodsShareNoWrite(t *testing.T) {
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		day, err := limiter.ParseRenewal("day", "")
		w.Must(err)
		w.System(limiter.Quota("rpd", 100, day))
		take := func(tokens int64) *limiter.Lease {
			lease, err := w.l.Acquire(w.Context(), ask("user", "rpd", tokens))
			w.Must(err)
			return lease
		}
		yesterday := []*limiter.Lease{take(5), take(7)}
		time.Sleep(time.Until(time.UnixMilli(day.Next(time.Now().UnixMilli()))) + time.Hour)
		today := []*limiter.Lease{take(11), take(13), take(17)}
		var all sync.WaitGroup
		for _, lease := range []*limiter.Lease{today[0], yesterday[0], today[1], yesterday[1], today[2]} {
			all.Go(func() { w.Must(lease.Rollback(w.Context())) })
			synctest.Wait() // they arrive in this order
		}
		all.Wait()
		if got := w.Balance("user", "rpd"); got != 100 {
			w.Errorf("%d of 100 tokens are there after everything of today was returned", got)
		}
	})
}
