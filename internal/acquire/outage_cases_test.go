package acquire_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// In an outage, one process of two has lost the table: the first one of a fleet, which is told so.
type outageCase struct {
	*severed

	own *limiter.Limiter
}

// inOutage runs f with a process that has seen the buckets of the entities, and that shares with
// another one. before prepares them; the table is away when f begins.
func inOutage(t *testing.T, o limiter.Options, before, during, after func(*outageCase)) {
	t.Helper()
	if o.Share.Processes == 0 {
		o.Share.Processes = 2
	}
	inSevered(t, 1, o, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		before(c)
		c.away.Set(faults.Fail(errNoRoute))
		during(c)
		c.find()
		time.Sleep(time.Second)
		synctest.Wait()
		if after != nil {
			after(c)
		}
		if st := c.own.Stats(); st.Away || st.DegradedLost != 0 {
			c.Errorf("in the end: %+v", st)
		}
	})
}

// take takes tokens of a request in the outage, and returns the lease.
func (c *outageCase) take(req limiter.Request) *limiter.Lease {
	c.Helper()
	lease, err := c.own.Acquire(c.Context(), sharing(req))
	c.Must(err)
	if !lease.Degraded() {
		c.Fatal("the lease is not degraded")
	}
	return lease
}

// refuse expects that a share refuses, with a wait.
func (c *outageCase) refuse(req limiter.Request, wait time.Duration) {
	c.Helper()
	_, err := c.own.Acquire(c.Context(), sharing(req))
	refused, is := errors.AsType[*limiter.ExceededError](err)
	if !is || !refused.Degraded || refused.RetryAfter() != wait {
		c.Errorf("got %v, want a wait of %v", err, wait)
	}
}

// A share begins with a part of the last balance, earns a part of the rate, and refuses with an exact
// wait. Then the table has what was taken, also in its counts.
func TestAShareBeginsWithAPartOfWhatWasLeft(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerSecond("rps", 10, limiter.Burst(100)))
		c.Take(c.own, ask("user", "rps", 60))
	}, func(c *outageCase) {
		c.take(ask("user", "rps", 20))
		c.refuse(ask("user", "rps", 5), time.Second)
		time.Sleep(time.Second - time.Millisecond)
		c.refuse(ask("user", "rps", 5), time.Millisecond)
		time.Sleep(time.Millisecond)
		c.take(ask("user", "rps", 5))
		c.refuse(ask("user", "rps", 101), limiter.Never)
	}, func(c *outageCase) {
		if got := c.consumedOf("user", "rps"); got != 85 {
			c.Errorf("%d are counted, want 85", got)
		}
		if st := c.own.Stats(); st.DegradedSpent != 25 || st.Outages != 1 || st.SharesAdmitted != 2 || st.SharesRefused != 3 {
			c.Errorf("%+v", st)
		}
	})
}

// A debt counts what a limit has earned back during an outage, and does not debit it again: the table's bucket
// was full meanwhile.
func TestWhatWasEarnedBackIsNotDebited(t *testing.T) {
	inOutage(t, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(c *outageCase) {
		c.System(limiter.PerSecond("rps", 10, limiter.Burst(100)))
		c.warmAll("user")
	}, func(c *outageCase) {
		for range 60 {
			c.take(ask("user", "rps", 10))
			time.Sleep(time.Second)
		}
		c.take(ask("user", "rps", 70))
	}, func(c *outageCase) {
		if got, want := c.consumedOf("user", "rps"), int64(670); got != want {
			c.Errorf("%d are counted, want %d", got, want)
		}
		if got := c.Balance("user", "rps"); got < 30 || got > 50 {
			c.Errorf("the balance is %d, want that of a bucket whose takes were written in time", got)
		}
	})
}

// A bucket pays what it owes before this process takes of it again, at once and also to a caller who
// does not share, and another process sees it.
func TestABucketPaysBeforeItsNextTake(t *testing.T) {
	inSevered(t, 1, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.System(limiter.PerHour("rph", 100))
		c.Take(c.own, ask("user", "rph", 0))
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 90))
		c.find()
		for { // until the probe has found the table, the payment may not have begun
			_, err := c.own.Acquire(c.Context(), ask("user", "rph", 20))
			if refused, is := errors.AsType[*limiter.ExceededError](err); is && !refused.Degraded {
				break
			}
			if err == nil {
				c.Fatal("20 more were admitted of 100, after 90")
			}
			time.Sleep(time.Millisecond)
		}
		if got := c.Balance("user", "rph"); got != 10 {
			c.Errorf("%d are left, want 10", got)
		}
	})
}

// A bucket that the process has never seen has no share. The options say what becomes of a request
// for it, and of one for more buckets than there may be shares.
func TestABucketWithoutAShare(t *testing.T) {
	for _, unseen := range []limiter.OnUnavailable{"", limiter.Allow} {
		t.Run(string(unseen), func(t *testing.T) {
			inOutage(t, limiter.Options{Share: limiter.ShareOptions{Buckets: 3, Unseen: unseen}}, func(c *outageCase) {
				c.System(limiter.PerHour("rph", 100))
				for i := range 5 {
					c.Take(c.own, ask(fmt.Sprint("user-", i), "rph", 1))
				}
			}, func(c *outageCase) {
				for i := range 3 {
					c.take(ask(fmt.Sprint("user-", i), "rph", 1))
				}
				for _, req := range []limiter.Request{ask("stranger", "rph", 1), ask("user-4", "rph", 1), ask("user-0", "tph", 1)} {
					lease, err := c.own.Acquire(c.Context(), sharing(req))
					is, ok := errors.AsType[*limiter.ShareError](err)
					switch {
					case unseen == "" && (!ok || !errors.Is(err, limiter.ErrUnavailable) || is.Entity != req.Entity):
						c.Errorf("%s: %v", req.Entity, err)
					case unseen == limiter.Allow && (err != nil || !lease.Degraded() || len(lease.Consumed()) != 0):
						c.Errorf("%s: %v", req.Entity, err)
					case err == nil:
						c.Must(lease.Adjust(maxLimit(req), 5))
						c.Must(lease.Commit(c.Context()))
					}
				}
			}, nil)
		})
	}
}

func maxLimit(req limiter.Request) (name string) {
	for limit := range req.Consume {
		name = max(name, limit)
	}
	return name
}

// A share that owes nothing makes room for another one.
func TestAShareThatOwesNothingIsDropped(t *testing.T) {
	inOutage(t, limiter.Options{Share: limiter.ShareOptions{Buckets: 1}}, func(c *outageCase) {
		c.System(limiter.PerHour("rph", 100))
		for i := range 5 {
			c.Take(c.own, ask(fmt.Sprint("user-", i), "rph", 1))
		}
	}, func(c *outageCase) {
		for i := range 5 {
			lease := c.take(ask(fmt.Sprint("user-", i), "rph", 1))
			c.Must(lease.Rollback(c.Context()))
		}
	}, func(c *outageCase) {
		for i := range 5 {
			if got := c.consumedOf(fmt.Sprint("user-", i), "rph"); got != 1 {
				c.Errorf("user-%d: %d are counted, want 1", i, got)
			}
		}
	})
}

// A request that asks for more than the whole share of a limit could only wait for the table.
func TestARequestAboveTheShareIsNotTold(t *testing.T) {
	inOutage(t, limiter.Options{Share: limiter.ShareOptions{Processes: 8}}, func(c *outageCase) {
		c.System(limiter.PerMinute("rpm", 5))
		c.Take(c.own, ask("user", "rpm", 0))
	}, func(c *outageCase) {
		_, err := c.own.Acquire(c.Context(), sharing(ask("user", "rpm", 1)))
		if _, is := errors.AsType[*limiter.ShareError](err); !is {
			c.Errorf("one of five, of which a share is less than one: %v", err)
		}
	}, nil)
}

// Other failures are answered as ever: nothing is taken of a share.
func TestWhatIsNoOutage(t *testing.T) {
	denied := &types.ProvisionedThroughputExceededException{}
	for name, of := range map[string]struct {
		hook faults.Hook
		want error
	}{
		"throttled":     {faults.Fail(denied), limiter.ErrThrottled},
		"access denied": {faults.Fail(&smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}), limiter.ErrAccessDenied},
	} {
		t.Run(name, func(t *testing.T) {
			inSevered(t, 1, limiter.Options{}, func(s *severed) {
				s.System(limiter.PerHour("rph", 100))
				s.Take(s.all[0], ask("user", "rph", 1))
				s.away.Set(of.hook)
				for range 3 {
					if _, err := s.all[0].Acquire(s.Context(), sharing(ask("user", "rph", 1))); !errors.Is(err, of.want) {
						s.Errorf("got %v", err)
					}
					time.Sleep(time.Second)
				}
				if st := s.all[0].Stats(); st.Outages != 0 {
					s.Error("an outage")
				}
				s.find()
			})
		})
	}
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerHour("rph", 100))
		for _, entity := range []string{"user", "off"} {
			c.Take(c.own, ask(entity, "rph", 1))
		}
		c.Must(errOf(c.Store.SetSwitch(c.Context(), limiter.ConfigKey{Entity: "off", Resource: "gpt-4"}, dynamo.Switch{Policy: store.Yes}, nil)))
		if _, err := c.own.Acquire(c.Context(), ask("off", "rph", 1)); !errors.Is(err, limiter.ErrDisabled) {
			c.Error(err)
		}
	}, func(c *outageCase) {
		c.take(ask("user", "rph", 1))
		time.Sleep(time.Hour)
		if _, err := c.own.Acquire(c.Context(), sharing(ask("off", "rph", 1))); !errors.Is(err, limiter.ErrDisabled) {
			c.Errorf("disabled: %v", err)
		}
		if _, err := c.own.Acquire(c.Context(), sharing(ask("user", "rph", -1))); !errors.Is(err, limiter.ErrInvalid) {
			c.Errorf("invalid: %v", err)
		}
	}, nil)
}

// Lost answers to one write are no outage: its caller gets the error, and the next one goes to the table.
func TestAWriteWithoutAnAnswerIsNoOutage(t *testing.T) {
	inSevered(t, 1, limiter.Options{}, func(s *severed) {
		s.System(limiter.PerHour("rph", 100))
		s.Take(s.all[0], ask("user", "rph", 1))
		s.away.Set(faults.On(faults.After(func(*faults.Call, error) error { return errCut }), "UpdateItem"))
		if _, err := s.all[0].Acquire(s.Context(), sharing(ask("user", "rph", 1))); !errors.Is(err, limiter.ErrUnavailable) {
			s.Errorf("got %v", err)
		}
		s.find()
		if lease := s.Lease(s.all[0], sharing(ask("user", "rph", 1))); lease.Degraded() || s.all[0].Stats().Outages != 0 {
			s.Error("degraded")
		}
	})
}

// The log has a line for the beginning and one for the end.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	inOutage(t, limiter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(c *outageCase) {
		c.System(limiter.PerHour("rph", 1000))
		c.Take(c.own, ask("user", "rph", 1))
	}, func(c *outageCase) {
		for range 50 {
			c.take(ask("user", "rph", 1))
			time.Sleep(100 * time.Millisecond)
		}
	}, func(c *outageCase) {
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "the store is away") || !strings.Contains(lines[1], "degraded_spent=50") {
			c.Errorf("the log has\n%s", log.String())
		}
	})
}

// The lease of a share works as any other one: while the table is away, and after that.
func TestALeaseOfAShare(t *testing.T) {
	req := ask("user", "rph", 10)
	ends := map[string]struct {
		end      func(c *outageCase, l *limiter.Lease) error
		consumed int64
	}{
		"dropped":     {func(*outageCase, *limiter.Lease) error { return nil }, 10},
		"committed":   {func(c *outageCase, l *limiter.Lease) error { return l.Commit(c.Context()) }, 10},
		"rolled back": {func(c *outageCase, l *limiter.Lease) error { return l.Rollback(c.Context()) }, 0},
		"more": {func(c *outageCase, l *limiter.Lease) error {
			return errors.Join(l.Adjust("rph", 7), l.Commit(c.Context()), l.Rollback(c.Context()))
		}, 17},
		"less": {func(c *outageCase, l *limiter.Lease) error {
			return errors.Join(l.Settle("rph", 4), l.Commit(c.Context()))
		}, 4},
		"released": {func(c *outageCase, l *limiter.Lease) error {
			err := l.Release(c.Context(), tokens{"rph": 3})
			if got := l.Consumed()["rph"]; got != 7 {
				c.Errorf("after the release it has %d", got)
			}
			return errors.Join(err, l.Commit(c.Context()))
		}, 7},
		"released and rolled back": {func(c *outageCase, l *limiter.Lease) error {
			return errors.Join(l.Release(c.Context(), tokens{"rph": 3}), l.Rollback(c.Context()))
		}, 0},
	}
	for name, of := range ends {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", later ", later), func(t *testing.T) {
				var lease *limiter.Lease
				check := func(c *outageCase) {
					driverOf(c.own).Settle()
					if got := c.consumedOf("user", "rph"); got != of.consumed {
						c.Errorf("%d are counted, want %d", got, of.consumed)
					}
					if got := c.Balance("user", "rph"); got != 100-of.consumed {
						c.Errorf("the balance is %d, want %d", got, 100-of.consumed)
					}
				}
				inOutage(t, limiter.Options{}, func(c *outageCase) {
					c.System(limiter.PerDay("rph", 100))
					c.Take(c.own, ask("user", "rph", 0))
				}, func(c *outageCase) {
					if lease = c.take(req); lease.Consumed()["rph"] != 10 {
						c.Errorf("the lease has %v", lease.Consumed())
					}
					if !later {
						c.Must(of.end(c, lease))
					}
				}, func(c *outageCase) {
					if later {
						c.Must(of.end(c, lease))
					}
					check(c)
				})
			})
		}
	}
}

// A lease of a share takes more of it while the table is away. Then it cannot: what it took is
// debited already.
func TestALeaseOfAShareTakesMore(t *testing.T) {
	var lease *limiter.Lease
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 0))
	}, func(c *outageCase) {
		lease = c.take(ask("user", "rph", 10))
		c.Must(lease.Take(c.Context(), tokens{"rph": 15}))
		if err := lease.Take(c.Context(), tokens{"rph": 26}); !errors.Is(err, limiter.ErrExceeded) {
			c.Errorf("26 more of 25: %v", err)
		}
		if got := lease.Consumed()["rph"]; got != 25 {
			c.Errorf("it has %d, want 25", got)
		}
	}, func(c *outageCase) {
		if err := lease.Take(c.Context(), tokens{"rph": 1}); !errors.Is(err, limiter.ErrUnavailable) {
			c.Errorf("one more, later: %v", err)
		}
		driverOf(c.own).Settle()
		c.Must(lease.Settle("rph", 20))
		c.Must(lease.Commit(c.Context()))
		if got := c.consumedOf("user", "rph"); got != 20 {
			c.Errorf("%d are counted, want 20", got)
		}
	})
}

// The share of an entity that cascades and that of its parent are taken together, or neither.
func TestSharesCascade(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.family(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("key", "rph", 0))
		c.Take(c.Limiter, ask("project", "rph", 40))
		c.Take(c.own, ask("key", "rph", 0))
	}, func(c *outageCase) {
		c.take(ask("key", "rph", 30)) // the project has a share of 30 left, and the key one of 50
		if _, err := c.own.Acquire(c.Context(), sharing(ask("key", "rph", 1))); !errors.Is(err, limiter.ErrExceeded) {
			c.Errorf("the project's share is used up: %v", err)
		}
		lease := c.take(ask("project", "rph", 0))
		c.Must(lease.Commit(c.Context()))
	}, func(c *outageCase) {
		if got := []int64{c.consumedOf("key", "rph"), c.consumedOf("project", "rph")}; got[0] != 30 || got[1] != 70 {
			c.Errorf("%v are counted, want 30 and 70", got)
		}
	})
}

// A request of several resources takes of the shares of all, or of none.
func TestSharesOfSeveralResources(t *testing.T) {
	req := ask("user", "rph", 20)
	req.Also = []limiter.Part{{Resource: "images", Consume: tokens{"rph": 30}}}
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, req)
	}, func(c *outageCase) {
		lease := c.take(req)
		images, err := lease.Resource("images")
		c.Must(err)
		c.Must(images.Settle("rph", 35))
		c.Must(lease.Commit(c.Context()))
		c.refuseAny(req)
	}, func(c *outageCase) {
		if got := c.consumedOf("user", "rph"); got != 40 {
			c.Errorf("%d are counted, want 40", got)
		}
	})
}

// A bucket of several shards has one share: of what they hold together.
func TestAShareOfAShardedBucket(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 20))
		driverOf(c.own).DoubleNow(c.Context(), "user", "gpt-4")
		driverOf(c.own).DoubleNow(c.Context(), "user", "gpt-4")
		if n := len(c.Images("user")); n != 4 {
			c.Fatalf("%d shards", n)
		}
	}, func(c *outageCase) {
		c.take(ask("user", "rph", 40))
		if _, err := c.own.Acquire(c.Context(), sharing(ask("user", "rph", 1))); !errors.Is(err, limiter.ErrExceeded) {
			c.Errorf("41 of a share of 40: %v", err)
		}
	}, func(c *outageCase) {
		if got, left := c.consumedOf("user", "rph"), c.Balance("user", "rph"); got != 60 || left != 40 {
			c.Errorf("%d are counted, and %d are left", got, left)
		}
	})
}

// A soft limit refuses nobody in an outage either, and owes what was taken. A bypassed bucket admits
// everything, and counts it.
func TestSharesThatRefuseNobody(t *testing.T) {
	for name, of := range map[string]struct {
		limit          limiter.Limit
		policy         store.Policy
		consumed, left int64
	}{
		"soft":     {limiter.PerDay("rph", 100, limiter.Soft()), store.Inherit, 580, -480},
		"bypassed": {limiter.PerDay("rph", 100), store.Bypass, 580, 100},
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, limiter.Options{}, func(c *outageCase) {
				c.System(of.limit)
				c.Must(errOf(c.Store.SetSwitch(c.Context(), limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, dynamo.Switch{Policy: of.policy}, nil)))
				c.Take(c.own, ask("user", "rph", 80))
			}, func(c *outageCase) { c.take(ask("user", "rph", 500)) }, func(c *outageCase) {
				if got, left := c.consumedOf("user", "rph"), c.Balance("user", "rph"); got != of.consumed || left != of.left {
					c.Errorf("%d are counted, and %d are left", got, left)
				}
			})
		})
	}
}

// A request for slots has no share: they are held by nobody twice.
func TestSlotsHaveNoShare(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 1))
	}, func(c *outageCase) {
		c.take(ask("user", "rph", 1))
		req := ask("user", "rph", 1)
		req.Slots, req.SlotFallback = map[string]int64{"n": 1}, []limiter.SlotLimit{limiter.Slots("n", 5)}
		begin := time.Now()
		if _, err := c.own.Acquire(c.Context(), sharing(req)); !errors.Is(err, limiter.ErrUnavailable) || time.Since(begin) > 0 {
			c.Errorf("got %v after %v", err, time.Since(begin))
		}
	}, func(c *outageCase) {
		if got := c.consumedOf("user", "rph"); got != 2 {
			c.Errorf("%d are counted, want 2", got)
		}
	})
}

// A caller of Wait waits for its share.
func TestWaitingForAShare(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.System(limiter.PerSecond("rps", 2, limiter.Burst(20)))
		c.Take(c.own, ask("user", "rps", 20))
	}, func(c *outageCase) {
		c.refuseAny(ask("user", "rps", 1))
		began := time.Now()
		for range 5 {
			lease, err := c.own.Wait(c.Context(), sharing(ask("user", "rps", 1)))
			c.Must(err)
			if !lease.Degraded() {
				c.Error("not degraded")
			}
		}
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			c.Errorf("5 tokens of one a second took %v", took)
		}
	}, nil)
}

// The answers of payments are lost, and what an outage took is debited once all the same.
func TestADebtIsPaidOnce(t *testing.T) {
	inSevered(t, 1, limiter.Options{}, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 10))
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 20))
		c.away.Set(faults.On(faults.LoseAnswer(errCut), "TransactWriteItems"))
		time.Sleep(time.Minute)
		if got := c.consumedOf("user", "rph"); got != 30 {
			c.Errorf("%d are counted, want 30", got)
		}
		c.find()
		time.Sleep(time.Second)
		if got := c.consumedOf("user", "rph"); got != 30 || c.own.Stats().DegradedSpent != 20 {
			c.Errorf("%d are counted, want 30; %+v", got, c.own.Stats())
		}
		c.Take(c.own, ask("user", "rph", 5))
		if got := c.Balance("user", "rph"); got != 65 {
			c.Errorf("the balance is %d, want 65", got)
		}
	})
}

// A limiter that is closed while the table is away says what it could not debit.
func TestCloseInAnOutage(t *testing.T) {
	inSevered(t, 1, limiter.Options{}, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 10))
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 20))
		c.Must(c.own.Close())
		if st := c.own.Stats(); st.DegradedLost != 20 {
			c.Errorf("%+v", st)
		}
	})
}
