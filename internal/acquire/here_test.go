package acquire_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A carrying limiter counts the writes that its callers carry.
type carrying struct {
	*limiter.Limiter
	writes atomic.Int32
	slot   faults.Slot // of the requests to the table
	wire   *wire
}

func (w *world) newCarrying(o limiter.Options) *carrying {
	w.Helper()
	c := &carrying{}
	c.wire = newWire(faults.Wrap(w.Meter, c.slot.Apply), 0)
	c.Limiter = w.NewLimiter(&testbed.CarriedStore{Store: w.OpenOn(c.wire.api), Carrier: testbed.Carrier{Odd: func() testbed.CarriedWay {
		c.writes.Add(1)
		return testbed.CarriedHere
	}}}, o)
	return c
}

// Callers carry the write of a bucket that is known, if nobody else has a part in it and
// nothing else is likely to be needed.
func TestWhatACallerCarries(t *testing.T) {
	one, cascade, both := ask("user", "rpm", 1), ask("key", "rpm", 1), askAll("user", tokens{"rpm": 1, "rph": 9})
	for name, c := range map[string]struct {
		before func(*world, *carrying)
		req    limiter.Request
		want   int32
	}{
		"a known bucket":    {func(*world, *carrying) {}, one, 1},
		"an idle bucket":    {func(*world, *carrying) { time.Sleep(20 * time.Second) }, one, 1},
		"more than it has":  {func(*world, *carrying) {}, ask("user", "rpm", 599), 1},
		"an unknown bucket": {func(*world, *carrying) {}, ask("other", "rpm", 1), 0},
		"a known parent":    {func(w *world, c *carrying) { w.Take(c.Limiter, cascade) }, cascade, 2},
		"a parent that lacks a limit": {func(w *world, c *carrying) {
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerHour("rph", 60)}))
			w.Take(c.Limiter, askAll("key", tokens{"rpm": 1, "rph": 1}))
		}, askAll("key", tokens{"rpm": 1, "rph": 1}), 2},
		"a parent that lacks the limits": {func(w *world, c *carrying) {
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{limiter.PerHour("rph", 60)}))
			w.Take(c.Limiter, cascade)
		}, cascade, 0},
		"a parent of several shards": {func(w *world, c *carrying) {
			w.Take(c.Limiter, cascade)
			driverOf(c.Limiter).DoubleNow(w.Context(), "project", "gpt-4")
		}, cascade, 0},
		"a parent to which another process writes, too": {func(w *world, c *carrying) {
			w.Entities(child("other", "project"))
			for range 5 {
				w.Take(w.Limiter, ask("other", "rpm", 1))
				w.Take(c.Limiter, cascade)
			}
		}, cascade, 0},
		"several shards": {func(w *world, c *carrying) {
			driverOf(c.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		}, one, 0},
		"a process that writes, too": {func(w *world, c *carrying) {
			for range 5 {
				w.Take(w.Limiter, one)
				w.Take(c.Limiter, one)
			}
		}, one, 0},
		"limits that were read long ago":   {func(*world, *carrying) { time.Sleep(61 * time.Second) }, one, 0},
		"limits that were to be forgotten": {func(_ *world, c *carrying) { c.InvalidateConfig() }, one, 0},
		"a partition that throttles": {func(w *world, c *carrying) {
			c.slot.Set(fullShards(func(int) error { return faults.BusyTable() }))
			for range 4 {
				_, _ = c.Acquire(w.Context(), one)
			}
			c.slot.Set(nil)
		}, one, 0},
		"a refill that others of the process may make, too": {func(w *world, c *carrying) {
			w.Take(c.Limiter, ask("user", "rpm", 597))
			time.Sleep(10 * time.Second)
		}, ask("user", "rpm", 90), 0},
		"what it lacked while others wrote": {func(w *world, c *carrying) {
			w.Take(w.Limiter, ask("user", "rph", 45))
			w.Take(c.Limiter, ask("user", "rph", 1))
			w.Take(w.Limiter, ask("user", "rph", 8))
			w.Take(c.Limiter, ask("user", "rph", 1))
			time.Sleep(10 * time.Second)
			w.Take(c.Limiter, both)
			time.Sleep(4*time.Minute + 30*time.Second)
		}, both, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerMinute("rpm", 600), limiter.PerHour("rph", 60))
				l := w.newCarrying(limiter.Options{})
				w.Take(l.Limiter, one)
				c.before(w, l)
				driverOf(l.Limiter).Settle()
				l.writes.Store(0)
				lease, err := l.Acquire(w.Context(), c.req)
				if got := l.writes.Load(); got != c.want {
					w.Errorf("the caller carried %d writes, want %d: %v", got, c.want, err)
				}
				if err == nil {
					w.Must(lease.Commit(w.Context()))
				}
			})
		})
	}
}

// Callers that come while one carries its write share the next one.
func TestACarriedWriteIsAWriteOfItsLane(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		l := w.newCarrying(limiter.Options{InFlight: 1})
		w.Take(l.Limiter, ask("user", "rpd", 1))
		l.wire.wait = 10 * time.Millisecond
		l.writes.Store(0)
		before := w.requests()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				w.Take(l.Limiter, ask("user", "rpd", 1))
			})
		}
		all.Wait()
		if writes, carried := w.requests()-before, l.writes.Load(); writes != 2 || carried != 1 {
			w.Errorf("%d writes, of which callers carried %d", writes, carried)
		}
		w.holds("user", "rpd", 979)
	})
}

// The answer to a carried write may say what the caller did not know. The parent that an entity
// has got by now is debited, too.
func TestACarriedWriteBringsAParent(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100))
		w.Entities(limiter.Entity{ID: "project"})
		l := w.newCarrying(limiter.Options{})
		w.Take(l.Limiter, ask("user", "rpd", 1))
		l.writes.Store(0)
		w.setParent("user", "project")
		w.Take(l.Limiter, ask("user", "rpd", 2))
		if l.writes.Load() != 1 {
			w.Error("the caller carried no write")
		}
		w.holds("user", "rpd", 97, "project", "rpd", 98)
	})
}

// setParent changes the parent in the item of an entity's bucket.
func (w *world) setParent(entity, parent string) {
	w.Helper()
	w.Must(errOf(w.Engine.UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: w.shardKeyOf(entity, 0),
		UpdateExpression:         aws.String("SET #c = :c, parent_id = :p"),
		ExpressionAttributeNames: map[string]string{"#c": "cascade"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":c": &types.AttributeValueMemberBOOL{Value: true}, ":p": &types.AttributeValueMemberS{Value: parent},
		},
	})))
}

// A comparison that comes due while a caller carries its write is made before the answer.
func TestACarriedWriteIsComparedIfThatComesDue(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 100))
		l := w.newCarrying(limiter.Options{})
		w.Take(l.Limiter, ask("user", "rpd", 1))
		l.writes.Store(0)
		time.Sleep(30 * time.Second)
		w.System(limiter.PerDay("rpd", 10))
		l.wire.wait = 20 * time.Millisecond
		time.Sleep(29_990 * time.Millisecond)
		if refused := w.Take(l.Limiter, ask("user", "rpd", 50)); refused == nil || l.writes.Load() != 1 {
			w.Errorf("%v by limits of a minute ago, %d writes carried", refused, l.writes.Load())
		}
	})
}

// A bucket in use is compared early, so that no caller waits for that.
func TestCarriedWritesStartUpkeep(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		l := w.newCarrying(limiter.Options{})
		w.Take(l.Limiter, ask("user", "rpd", 1))
		l.writes.Store(0)
		for range 30 {
			time.Sleep(10 * time.Second)
			w.Take(l.Limiter, ask("user", "rpd", 1))
			driverOf(l.Limiter).Settle()
		}
		if got := l.writes.Load(); got != 30 {
			w.Errorf("callers carried %d of 30 writes", got)
		}
	})
}

// A write that meets an item with a stamp far ahead leaves the healing to another goroutine,
// because its caller could not leave that.
func TestACallerHealsNothing(t *testing.T) {
	inDatedWorld(t, func(w *world) {
		w.System(limiter.PerMinute("rpm", 600))
		l := w.newCarrying(limiter.Options{})
		w.Take(l.Limiter, ask("user", "rpm", 1))
		w.Take(w.fast(time.Hour), ask("user", "rpm", 1))
		l.writes.Store(0)
		w.Take(l.Limiter, ask("user", "rpm", 1))
		if carried, healed := l.writes.Load(), l.Stats().Healed; carried != 1 || healed != 1 {
			w.Errorf("the caller carried %d writes, %d items were healed", carried, healed)
		}
		w.stampedNear(0)
	})
}
