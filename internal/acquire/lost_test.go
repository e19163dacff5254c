package acquire_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A shard that replaces a lost one earns only from its birth on. The tokens that the
// lost shard earned before may have been admitted already. The sibling's stamp is as
// old as its last refill.
func TestAReplacedShardEarnsFromItsBirthOn(t *testing.T) {
	for _, lost := range []int{0, 1} {
		t.Run(fmt.Sprint("shard ", lost), func(t *testing.T) {
			inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
				w.System(hourly)
				w.plant("user", hourly, 2, each(2, 2_000_000)...)
				time.Sleep(time.Hour)
				w.lose(lost) // this shard has just been drained
				if refused := w.Take(w.Limiter, ask("user", "rph", 2500)); refused == nil {
					w.Errorf("2500 were admitted, 2000 are held: %v", w.balances())
				}
				if got := w.Balance("user", "rph"); got != 2000 || len(w.Images("user")) != 2 {
					w.Errorf("%d shards hold %d, want 2 and 2000", len(w.Images("user")), got)
				}
			})
		})
	}
}

// A commit debits its additional tokens in full, even if a shard that was to pay a part
// of them is lost meanwhile.
func TestWhatALostShardWasToPayIsPaidByOthers(t *testing.T) {
	onFourShards(t, []int64{0, 1_000_000, 100_000, 100_000}, func(w *world) {
		w.survey(w.Limiter, "user", hourly)
		lease := w.Lease(w.Limiter, ask("user", "rph", 900))
		w.Must(lease.Adjust("rph", 400)) // more than shard 1 has
		w.lose(2)
		w.Must(lease.Commit(w.Context()))
		if got := w.used(); got != 1300 {
			w.Errorf("%d are counted, want 1300: %v", got, w.balances())
		}
	})
}

// A return that no shard has room for still goes to a shard that has the limit. The
// first shard may have lost the limit to a configuration change.
func TestWhatOverflowsIsReturnedToAShardThatHasTheLimit(t *testing.T) {
	onFourShards(t, []int64{0, 1_000_000, 0, 0}, func(w *world) {
		w.survey(w.Limiter, "user", hourly)
		lease := w.Lease(w.Limiter, ask("user", "rph", 900))
		time.Sleep(2 * time.Hour)
		w.patchShard(0, "REMOVE b_rph_tk, b_rph_tc, b_rph_cp, b_rph_ra, b_rph_rp", nil)
		w.Must(lease.Rollback(w.Context()))
		if got := w.used(); got != 0 {
			w.Errorf("%d stay counted after a rollback", got)
		}
	})
}

// All shards are repaired to their configuration, not only the shard that served the
// acquire. This holds if the first look finds the difference, and if the configuration
// is read every time.
func TestAllShardsAreBroughtToTheConfiguration(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1} {
		t.Run(fmt.Sprint("TTL ", ttl), func(t *testing.T) {
			inWorld(t, limiter.Options{Trust: -1, ConfigTTL: ttl}, func(w *world) {
				w.plant("user", hourly, 4, each(4, 900_000)...)
				check := func(want limiter.Limit) {
					w.Helper()
					w.System(want)
					w.InvalidateConfig()
					w.Serve(w.Limiter, ask("user", "rph", 1))
					driverOf(w.Limiter).Settle()
					for _, img := range w.Images("user") {
						if s, _ := img.Limit("rph"); s.Capacity != want.Capacity*1000 {
							w.Errorf("shard %d has a capacity of %d, want %d", img.Shard, s.Capacity/1000, want.Capacity)
						}
					}
				}
				check(limiter.PerHour("rph", 8000))
				time.Sleep(2 * time.Second)
				check(limiter.PerHour("rph", 6000))
			})
		})
	}
}

// A claim served by many shards is returned to all of them at once.
func TestAClaimIsReturnedToAllShardsAtOnce(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		small := fixed("rph", 32_000)
		w.family(small)
		w.plant("key", small, 32, each(32, 1_000_000)...)
		w.plant("project", small, 1, 10_000)
		w.warm(ask("key", "rph", 0))
		start := time.Now()
		refused := w.Take(w.l, ask("key", "rph", 20_000))
		if refused == nil {
			w.Fatal("more was admitted than the project has")
		}
		// One read of the shards, one transaction, and as much for the return.
		if took := time.Since(start); took > 6*w.wire.wait {
			w.Errorf("refused after %v, a request takes %v", took, w.wire.wait)
		}
		if got := w.Balance("key", "rph"); got != 32_000 {
			w.Errorf("%d are left of 32000", got)
		}
	})
}

// A caller that is refused because of callers before it in the lane is quoted a wait
// for its own tokens.
func TestWhoIsBehindOthersIsQuotedAWait(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1, Trust: -1}, func(w *far) {
		w.System(limiter.PerSecond("rps", 100, limiter.Burst(10)))
		w.warm(ask("user", "rps", 10))
		// A token is earned in each round trip.
		callers := w.queue(nil, of(5, ask("user", "rps", 1))...)
		for i, c := range callers {
			exceeded, ok := errors.AsType[*limiter.ExceededError](c.err)
			if c.err != nil && (!ok || exceeded.RetryAfter() <= 0) {
				w.Errorf("caller %d: %v", i, c.err)
			}
		}
		if callers[4].err == nil {
			w.Error("all were admitted")
		}
	})
}

// An image is as old as the start of its read. An image whose read took longer than the
// time of trust refuses no later request.
func TestAReadThatTookLongRefusesNobodyAfterwards(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		whole := fixed("rph", 4000)
		w.System(whole)
		w.plant("user", whole, 2, each(2, 0)...)
		w.warm(ask("user", "rph", 0))
		time.Sleep(2 * limiter.DefaultTrust)
		w.wire.slow = limiter.DefaultTrust + time.Millisecond
		for range 2 {
			if w.Take(w.l, ask("user", "rph", 3000)) == nil {
				w.Fatal("admitted")
			}
		}
		if got := w.l.Stats().LocallyRefused; got != 0 {
			w.Errorf("%d were refused on images older than %v", got, limiter.DefaultTrust)
		}
	})
}

// A peer gives shard 0 a larger shard count and creates no shard. The new shard gets
// all that shard 0 holds above its new share, however old the stamp of shard 0 is.
func TestWhatAPeerDoubledIsDividedWhole(t *testing.T) {
	inWorld(t, limiter.Options{Trust: -1}, func(w *world) {
		w.System(hourly)
		w.plant("user", hourly, 2, 3_000_000)
		time.Sleep(9 * time.Minute) // both earn 600
		w.Take(w.Limiter, ask("user", "rph", 100))
		driverOf(w.Limiter).Settle()
		if got := w.Balance("user", "rph"); got != 3500 || len(w.Images("user")) != 2 {
			w.Errorf("%d shards hold %d, want 2 and 3500", len(w.Images("user")), got)
		}
	})
}
