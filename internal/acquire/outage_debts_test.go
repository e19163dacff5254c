package acquire_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// writesTo reports whether a request writes to a bucket of an entity.
func writesTo(entity string) func(*faults.Call) bool {
	return func(c *faults.Call) bool {
		return c.Writes() && slices.ContainsFunc(c.Buckets(), func(b store.Bucket) bool { return b.Entity == entity })
	}
}

// A process that knows of three that hold slots of the bucket takes itself for one of three, whatever
// its options say. Those others have not written to the bucket itself.
func TestAShareCountsTheHoldersOfSlots(t *testing.T) {
	inSevered(t, 3, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(s *severed) {
		s.System(limiter.PerDay("rph", 100))
		s.slots(store.ConfigKey{}, 20)
		c := &outageCase{severed: s, own: s.all[2]}
		c.Take(c.own, ask("user", "rph", 0))
		alone := limiter.Request{Entity: "user", Resource: testbed.Resource, Slots: tokens{"inflight": 2}}
		for _, l := range s.all {
			s.Lease(l, alone)
		}
		s.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 33))
		c.refuseAny(ask("user", "rph", 1))
		s.find()
		time.Sleep(time.Second)
	})
}

// The bucket of a parent pays before a child of it takes again that has taken nothing in the outage.
func TestAParentPaysBeforeItsNextTake(t *testing.T) {
	inSevered(t, 1, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.family(limiter.PerDay("rph", 100))
		c.Entities(child("other", "project"))
		for _, entity := range []string{"key", "other"} {
			c.Take(c.own, ask(entity, "rph", 0))
		}
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("key", "rph", 90))
		c.away.Set(faults.On(faults.Latency(2*time.Second), faults.TransactWriteItems)) // the payment is under way for long
		for c.own.Stats().Away {
			time.Sleep(time.Millisecond)
		}
		_, err := c.own.Acquire(c.Context(), ask("other", "rph", 20))
		if refused, is := errors.AsType[*limiter.ExceededError](err); !is || refused.Degraded {
			c.Errorf("20 more of 100, after 90: %v", err)
		}
		c.find()
		driverOf(c.own).Settle()
		if got := c.consumedOf("project", "rph"); got != 90 {
			c.Errorf("%d are counted, want 90", got)
		}
	})
}

// A parent without limits has no bucket, and no share: the child's share decides.
func TestAParentWithoutLimitsHasNoShare(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
		c.Must(c.Store.SetLimits(c.Context(), store.ConfigKey{Entity: "key", Resource: testbed.Resource}, []limiter.Limit{limiter.PerDay("rph", 100)}))
		c.Take(c.own, ask("key", "rph", 10))
	}, func(c *outageCase) {
		c.take(ask("key", "rph", 45))
		c.refuseAny(ask("key", "rph", 1))
	}, func(c *outageCase) {
		if got := c.consumedOf("key", "rph"); got != 55 || len(c.Images("project")) > 0 {
			c.Errorf("%d are counted, want 55; the project has %d items", got, len(c.Images("project")))
		}
	})
}

// A bucket that uses a feature which this version does not evaluate has no share. Neither has a child of such a parent.
func TestAnUnreadableBucketHasNoShare(t *testing.T) {
	inOutage(t, limiter.Options{}, func(c *outageCase) {
		c.family(limiter.PerDay("rph", 100))
		for _, entity := range []string{"user", "key"} {
			c.Take(c.own, ask(entity, "rph", 1))
		}
		_, ns := c.Store.Namespace()
		for _, entity := range []string{"user", "project"} {
			c.Must(errOf(c.Engine.UpdateItem(c.Context(), &dynamodb.UpdateItemInput{
				TableName: new(table), Key: schema.BucketKey(ns, store.Bucket{Entity: entity, Resource: testbed.Resource}).Item(),
				UpdateExpression: new("SET b_rph_sched = :s"), ExpressionAttributeValues: map[string]types.AttributeValue{":s": schema.S("2s500")},
			})))
		}
		for _, entity := range []string{"user", "key"} {
			_, _ = c.own.Available(c.Context(), ask(entity, "rph", 0))
			_, _ = c.own.Acquire(c.Context(), ask(entity, "rph", 1))
		}
	}, func(c *outageCase) {
		for _, entity := range []string{"user", "key"} {
			_, err := c.own.Acquire(c.Context(), sharing(ask(entity, "rph", 1)))
			if is, ok := errors.AsType[*limiter.ShareError](err); !ok || is.Reason != acquire.Unreadable {
				c.Errorf("%s: %v", entity, err)
			}
		}
	}, nil)
}

// The table answers reads, and no payments. So it is away again: callers are decided at once, and none
// waits for a payment of its bucket that fails.
func TestATableThatTakesNoPaymentsIsAway(t *testing.T) {
	inSevered(t, 1, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(s *severed) {
		c := &outageCase{severed: s, own: s.all[0]}
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 0))
		c.away.Set(faults.Fail(errNoRoute))
		c.take(ask("user", "rph", 20))
		c.away.Set(faults.On(faults.Fail(errNoRoute), faults.TransactWriteItems))
		for began := time.Now(); c.own.Stats().Outages < 2; {
			if time.Sleep(10 * time.Millisecond); time.Since(began) > time.Minute {
				c.Fatal("the table is not away")
			}
		}
		began := time.Now()
		c.take(ask("user", "rph", 30))
		if took := time.Since(began); took > 0 {
			c.Errorf("decided after %v", took)
		}
		c.find()
		time.Sleep(time.Second)
		if got := c.consumedOf("user", "rph"); got != 50 || c.own.Stats().DegradedSpent != 50 {
			c.Errorf("%d are counted, want 50; %+v", got, c.own.Stats())
		}
	})
}

// The table is back. One bucket of a lease answers nothing to its change, and the other one is turned away.
// The change of the first counts as made: the commit does not make it again.
func TestAChangeWhoseAnswerIsLostCountsAsMade(t *testing.T) {
	var lease *limiter.Lease
	inOutage(t, limiter.Options{Share: limiter.ShareOptions{Processes: 1}}, func(c *outageCase) {
		c.family(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("key", "rph", 10))
	}, func(c *outageCase) {
		lease = c.take(ask("key", "rph", 60))
	}, func(c *outageCase) {
		c.away.Set(faults.Chain(faults.When(writesTo("key"), faults.LoseAnswer(errCut)), faults.When(writesTo("project"), faults.Fail(faults.BusyTable()))))
		if err := lease.Release(c.Context(), tokens{"rph": 20}); err == nil {
			c.Error("the release succeeds")
		}
		c.find()
		c.Must(lease.Commit(c.Context()))
		if got := []int64{c.Balance("key", "rph"), c.Balance("project", "rph")}; !slices.Equal(got, []int64{50, 50}) {
			c.Errorf("%v are left, want 50 of both", got)
		}
	})
}

// A lease whose last change was not answered is written down with that change, and settled by it.
func TestALeaseIsWrittenDownAfterALostAnswer(t *testing.T) {
	var lease *limiter.Lease
	o := withKeys(tokenKey)
	o.Share.Processes = 1
	inOutage(t, o, func(c *outageCase) {
		c.System(limiter.PerDay("rph", 100))
		c.Take(c.own, ask("user", "rph", 10))
	}, func(c *outageCase) {
		lease = c.take(ask("user", "rph", 60))
	}, func(c *outageCase) {
		c.away.Set(faults.When(writesTo("user"), faults.LoseAnswer(errCut)))
		if err := lease.Release(c.Context(), tokens{"rph": 20}); err == nil {
			c.Error("the release succeeds")
		}
		c.find()
		resumed := c.resume(c.another(), c.token(lease))
		c.Must(errors.Join(resumed.Settle("rph", 30), resumed.Commit(c.Context())))
		if got, left := c.consumedOf("user", "rph"), c.Balance("user", "rph"); got != 40 || left != 60 {
			c.Errorf("%d are counted, and %d are left; want 40 and 60", got, left)
		}
	})
}
