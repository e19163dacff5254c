package acquire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// In an outage, an estimate is clamped by what the process saw last, however old its configuration is.
// The rest is settled as ever.
func TestAClampedShare(t *testing.T) {
	for name, end := range map[string]struct {
		how            func(*outageCase, *limiter.Lease) error
		consumed, left int64
	}{
		"rollback": {func(c *outageCase, l *limiter.Lease) error { return l.Rollback(c.Context()) }, 20, 80},
		"settled": {func(c *outageCase, l *limiter.Lease) error {
			return errors.Join(l.Settle("rph", 50), l.Commit(c.Context()))
		}, 70, 30},
		"commit": {func(c *outageCase, l *limiter.Lease) error { return l.Commit(c.Context()) }, 110, -10},
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, limiter.Options{}, func(c *outageCase) {
				c.System(limiter.PerDay("rph", 100))
				c.Take(c.own, ask("user", "rph", 20))
				time.Sleep(10 * time.Minute)
			}, func(c *outageCase) {
				req := ask("user", "rph", 90)
				req.ClampPercent = 30
				lease := c.take(req)
				if got := []map[string]int64{lease.Clamped(), lease.Consumed()}; !cmp.Equal(got, []map[string]int64{{"rph": 60}, {"rph": 90}}) {
					c.Errorf("it is clamped by, and takes %v", got)
				}
				c.refuseAny(ask("user", "rph", 11)) // of a share of 40
				c.Must(end.how(c, lease))
			}, func(c *outageCase) {
				if got, left := c.consumedOf("user", "rph"), c.Balance("user", "rph"); got != end.consumed || left != end.left {
					c.Errorf("%d are counted, and %d are left; want %d and %d", got, left, end.consumed, end.left)
				}
			})
		})
	}
}

// A clamp that finds the table silent costs one call its time at most. It is by the smaller capacity
// of the entity and its parent; one answer that is lost makes no outage of it.
func TestAClampFindsTheOutage(t *testing.T) {
	for name, how := range outages {
		t.Run(name, func(t *testing.T) {
			inOutage(t, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(c *outageCase) {
				c.family(limiter.PerDay("rph", 100))
				c.Must(c.Store.SetLimits(c.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerDay("rph", 50)}))
				c.Take(c.own, ask("key", "rph", 1))
				time.Sleep(10 * time.Minute)
			}, func(c *outageCase) {
				c.away.Set(how)
				req := ask("key", "rph", 90)
				req.ClampPercent = 20
				for i := range 2 {
					began := time.Now()
					lease := c.take(req)
					if took := time.Since(began); lease.Clamped()["rph"] != 80 || took > 5*time.Second || i > 0 && took > 0 {
						c.Errorf("clamped by %v after %v", lease.Clamped(), took)
					}
					c.Must(lease.Rollback(c.Context()))
				}
			}, nil)
		})
	}
}

// A token of a clamped share cannot be settled while the table is away, and is settled by any process
// when it is back.
func TestAClampedShareIsWrittenDown(t *testing.T) {
	var texts []string
	inOutage(t, withKeys(tokenKey), func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 20))
	}, func(c *outageCase) {
		req := ask("user", "rph", 60)
		req.ClampPercent = 10
		for range 2 {
			text := c.token(c.take(req))
			if err := c.resume(c.own, text).Commit(c.Context()); !errors.Is(err, limiter.ErrUnavailable) {
				c.Errorf("settled in the outage: %v", err)
			}
			texts = append(texts, text)
		}
	}, func(c *outageCase) {
		for i, used := range []int64{60, 25} {
			resumed := c.resume(c.another(), texts[i])
			if resumed.Consumed()["rph"] != 60 {
				c.Errorf("it takes %v", resumed.Consumed())
			}
			c.Must(errors.Join(resumed.Settle("rph", used), resumed.Commit(c.Context())))
		}
		if got, left := c.consumedOf("user", "rph"), c.Balance("user", "rph"); got != 105 || left != -5 {
			c.Errorf("%d are counted, and %d are left", got, left)
		}
	})
}

// A release takes what a clamp has left, so the lease owes nothing when it is written down after that.
func TestAReleaseTakesWhatAClampLeft(t *testing.T) {
	inEachWorld(t, withKeys(tokenKey), func(w *world) {
		w.System(limiter.PerHour("rph", 100), limiter.PerHour("tph", 1000))
		lease := w.lease(clamped("user", 700))
		w.Must(lease.Release(w.Context(), tokens{"tph": 100}))
		w.holds("user", "tph", 400)
		if n := lease.Clamped()["tph"]; n != 200 {
			t.Errorf("it was clamped by %d", n)
		}
		resumed := w.resume(w.another(), w.token(lease))
		w.Must(errors.Join(resumed.Settle("tph", 50), resumed.Commit(w.Context())))
		w.holds("user", "tph", 950)
	})
}

// Slots of a further resource have no share either, wait for nothing, and take no tokens.
func TestSlotsOfAFurtherResourceHaveNoShare(t *testing.T) {
	req := ask("user", "rph", 1)
	req.Also = []limiter.Part{{Resource: "images", Slots: tokens{"n": 1}, SlotFallback: []limiter.SlotLimit{limiter.Slots("n", 5)}}}
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Must(c.Lease(c.own, req).Commit(c.Context()))
	}, func(c *outageCase) {
		c.take(ask("user", "rph", 1))
		began := time.Now()
		if _, err := c.own.Acquire(c.Context(), sharing(req)); !errors.Is(err, limiter.ErrUnavailable) || time.Since(began) > 0 {
			c.Errorf("got %v after %v", err, time.Since(began))
		}
	}, func(c *outageCase) {
		if got := c.consumedOf("user", "rph"); got != 2 {
			c.Errorf("%d are counted, want 2", got)
		}
	})
}

// Do tells its function that slots of a further resource are lost.
func TestDoKnowsOfSlotsOfAFurtherResource(t *testing.T) {
	req := ask("user", "rph", 1)
	req.Also = []limiter.Part{{Resource: "images", Slots: tokens{"n": 1}, SlotFallback: []limiter.SlotLimit{limiter.Slots("n", 5)}}}
	inSevered(t, 1, limiter.Options{}, func(s *severed) {
		s.System(limiter.PerDay("rph", 100))
		err := s.all[0].Do(s.Context(), req, func(ctx context.Context, _ *limiter.Lease) error {
			s.away.Set(faults.Fail(errNoRoute))
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Hour):
				return nil
			}
		})
		s.find()
		if !errors.Is(err, limiter.ErrSlotsLost) {
			s.Errorf("got %v", err)
		}
	})
}

// The table is back, and turns the change of one of two buckets away. The commit is repeated, and the
// other one is not changed again. Neither is one whose answer was lost.
func TestALateCommitOfASharesLeaseIsRepeated(t *testing.T) {
	for name, how := range map[string]faults.Hook{
		"turned away": faults.Fail(faults.BusyTable()), "lost": faults.LoseAnswer(errCut),
	} {
		t.Run(name, func(t *testing.T) {
			var lease *limiter.Lease
			inOutage(t, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(c *outageCase) {
				c.family(limiter.PerDay("rph", 100))
				c.Take(c.own, ask("key", "rph", 10))
			}, func(c *outageCase) {
				lease = c.take(ask("key", "rph", 60))
			}, func(c *outageCase) {
				c.away.Set(faults.When(writesTo("project"), how))
				first := lease.Release(c.Context(), tokens{"rph": 20})
				if first == nil {
					c.Error("the project's part was released")
				}
				c.find()
				c.Must(lease.Commit(c.Context()))
				if got := []int64{c.Balance("key", "rph"), c.Balance("project", "rph")}; !slices.Equal(got, []int64{50, 50}) {
					c.Errorf("%v are left after %v, want 50 of both", got, first)
				}
			})
		})
	}
}

// A process that saw others write to a bucket takes itself for one of two, whatever its options say.
func TestAShareKnowsOfOthers(t *testing.T) {
	inOutage(t, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		for range 3 {
			c.Take(c.own, ask("user", "rph", 5))
			c.Take(c.Limiter, ask("user", "rph", 5))
		}
		c.Take(c.own, ask("user", "rph", 0))
	}, func(c *outageCase) {
		c.take(ask("user", "rph", 35)) // of 70
		c.refuseAny(ask("user", "rph", 1))
	}, nil)
}

// A payment that the table turns away is tried again; one that it turns away for good is given up, and
// counted.
func TestADebtThatIsTurnedAway(t *testing.T) {
	for name, lost := range map[string]int64{"for a while": 0, "for good": 20} {
		t.Run(name, func(t *testing.T) {
			inSevered(t, 1, limiter.Options{}, func(s *severed) {
				c := &outageCase{severed: s, own: s.all[0]}
				c.System(limiter.PerDay("rph", 100))
				c.Take(c.own, ask("user", "rph", 10))
				c.away.Set(faults.Fail(errNoRoute))
				c.take(ask("user", "rph", 20))
				c.away.Set(faults.On(faults.Fail(faults.BusyTable()), "TransactWriteItems"))
				if lost == 0 {
					time.Sleep(2 * time.Second)
					c.find()
				}
				time.Sleep(5 * time.Minute)
				c.find()
				time.Sleep(time.Second)
				if st := c.own.Stats(); st.DegradedLost != lost || st.DegradedSpent != 20-lost || c.consumedOf("user", "rph") != 30-lost {
					c.Errorf("%d are counted: %+v", c.consumedOf("user", "rph"), st)
				}
			})
		})
	}
}

// A limiter that is closed when the table is back, before a probe has found it, pays what it owes.
func TestCloseFindsTheTable(t *testing.T) {
	inSevered(t, 1, limiter.Options{}, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 10))
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 20))
		time.Sleep(time.Second)
		c.find()
		c.Must(c.own.Close())
		if st := c.own.Stats(); st.DegradedLost != 0 || st.DegradedSpent != 20 || c.consumedOf("user", "rph") != 30 {
			c.Errorf("%d are counted: %+v", c.consumedOf("user", "rph"), st)
		}
	})
}
