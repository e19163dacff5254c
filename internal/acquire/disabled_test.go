package acquire_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// switchOff sets the operator's switch on a level, or removes it, as a peer does.
func (w *world) switchOff(k limiter.ConfigKey, off bool) {
	w.Helper()
	_, ns := w.Store.Namespace()
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: schema.ConfigKey(ns, k).Item(),
		UpdateExpression: aws.String("SET disabled = :v"), ExpressionAttributeValues: schema.Item{":v": schema.Bool(true)},
	}
	if !off {
		in.UpdateExpression, in.ExpressionAttributeValues = aws.String("REMOVE disabled"), nil
	}
	w.Must(errOf(w.Engine.UpdateItem(w.Context(), in)))
}

// disabled checks the answer to an acquire.
func (w *world) disabled(l *limiter.Limiter, req limiter.Request, want bool, when string) {
	w.Helper()
	lease, err := l.Acquire(w.Context(), req)
	if errors.Is(err, limiter.ErrDisabled) != want || !want && err != nil {
		w.Errorf("%s: got %v, want it disabled: %t", when, err, want)
	}
	if lease != nil {
		w.Must(lease.Commit(w.Context()))
	}
	if _, err := l.Available(w.Context(), req); errors.Is(err, limiter.ErrDisabled) != want {
		w.Errorf("available, %s: got %v, want it disabled: %t", when, err, want)
	}
}

var switches = map[string]limiter.ConfigKey{
	"a resource":                    {Resource: "gpt-4"},
	"an entity for a resource":      {Entity: "user", Resource: "gpt-4"},
	"an entity for every resource":  {Entity: "user", Resource: limiter.DefaultResource},
	"a resource, by a parent's use": {Entity: "project", Resource: "gpt-4"},
}

// Buckets in use follow an operator's switch within the time to live, off and on,
// although the items carry no stamp. While a bucket is off, a request costs nothing.
func TestDisablingReachesBucketsInUse(t *testing.T) {
	for name, k := range switches {
		for _, pause := range []time.Duration{time.Second, 70 * time.Second} {
			t.Run(fmt.Sprint(name, ", used every ", pause), func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					w.family(limiter.PerDay("rpd", 1000))
					req := ask("user", "rpd", 1)
					if k.Entity == "project" {
						req.Entity = "key"
					}
					use := func() {
						for end := time.Now().Add(limiter.DefaultConfigTTL); time.Now().Before(end); time.Sleep(pause) {
							_, _ = w.Acquire(w.Context(), req)
						}
					}
					w.Take(w.Limiter, req)
					w.switchOff(k, true)
					use()
					w.disabled(w.Limiter, req, true, "a time to live after it was disabled")
					held := w.tokens(req.Entity)
					before := w.requests()
					for range 10 {
						w.disabledAtNoCost(req, before)
					}
					if got := w.tokens(req.Entity); got != held {
						w.Errorf("refusals took %d tokens", held-got)
					}
					w.switchOff(k, false)
					use()
					w.disabled(w.Limiter, req, false, "a time to live after it was enabled")
				})
			})
		}
	}
}

// tokens returns the balance of shard 0 of an entity's bucket, in millitokens.
func (w *world) tokens(entity string) int64 {
	w.Helper()
	s, _ := w.Images(entity)[0].Limit("rpd")
	return s.Tokens
}

// disabledAtNoCost checks that an acquire is refused without a request.
func (w *world) disabledAtNoCost(req limiter.Request, before int64) {
	w.Helper()
	if _, err := w.Acquire(w.Context(), req); !errors.Is(err, limiter.ErrDisabled) {
		w.Errorf("got %v", err)
	}
	if got := w.requests() - before; got != 0 {
		w.Fatalf("it cost %d requests", got)
	}
}

// A bucket is created from the configuration at that Moment. A resource that was just
// switched off is refused at once, however recently its configuration was read.
func TestDisablingReachesNewBucketsAtOnce(t *testing.T) {
	for name, k := range switches {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.family(limiter.PerDay("rpd", 1000))
				req := ask("user", "rpd", 1)
				if k.Entity == "project" {
					req.Entity = "project"
				}
				_, err := w.Available(w.Context(), req) // every level is known
				w.Must(err)
				w.switchOff(k, true)
				w.disabled(w.Limiter, req, true, "at once")
				if n := len(w.Images(req.Entity)); n != 0 {
					w.Errorf("%d buckets were made", n)
				}
			})
		})
	}
}

// The bucket of another entity of a resource is created from fresh configuration. So is
// a bucket that was deleted while it was in use.
func TestABucketIsMadeFromFreshConfiguration(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		w.Take(w.Limiter, ask("user", "rpd", 1))
		w.Must(w.elsewhere().SetSystem(w.Context(), []limiter.Limit{limiter.PerDay("rpd", 10)}, ""))
		w.sweep()
		for _, entity := range []string{"user", "other"} {
			w.Take(w.Limiter, ask(entity, "rpd", 1))
			if got := w.capacities(entity); got != "rpd 10" {
				w.Errorf("the bucket of %s is made with %s", entity, got)
			}
		}
	})
}

// eventual answers eventually consistent reads with the previous state.
func eventual() faults.Hook {
	old := map[int]any{} // answers, by the number of keys that were read
	return faults.On(faults.After(func(c *faults.Call, err error) error {
		if err != nil || c.Consistent() {
			return err
		}
		n := len(c.Keys())
		if was, ok := old[n]; ok {
			c.Output = was
		} else {
			old[n] = c.Output
		}
		return nil
	}), faults.BatchGetItem)
}

// A client with a lagging read neither undoes a change nor creates a bucket from the
// earlier state.
func TestReadsThatLagUndoNothing(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, eventual())), limiter.Options{})
		w.Take(l, ask("user", "rpd", 1))
		w.Must(w.elsewhere().SetLimits(w.Context(), limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, []limiter.Limit{limiter.PerDay("rpd", 10)}))
		w.Must(w.elsewhere().SetLimits(w.Context(), limiter.ConfigKey{Entity: "other", Resource: "gpt-4"}, []limiter.Limit{limiter.PerDay("rpd", 20)}))
		for range 3 {
			l.InvalidateConfig()
			w.Take(l, ask("user", "rpd", 1))
			w.Take(l, ask("other", "rpd", 1))
			driverOf(l).Settle()
		}
		if got := w.capacities("user") + ", " + w.capacities("other"); got != "rpd 10, rpd 20" {
			w.Errorf("the items have %s", got)
		}
	})
}

// An item that a peer stamped as disabled is refused too, even before the configuration
// says so. It is not read again within the time to live. It is served when the stamp is
// gone.
func TestAStampedItemIsDisabled(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		w.Take(w.Limiter, ask("user", "rpd", 1))
		w.patch("SET disabled = :v", schema.Item{":v": schema.Bool(true)})
		w.disabled(w.Limiter, ask("user", "rpd", 1), true, "stamped")
		before := w.requests()
		for range 10 {
			w.disabledAtNoCost(ask("user", "rpd", 1), before)
			time.Sleep(5 * time.Second)
		}
		w.patch("REMOVE disabled", nil)
		time.Sleep(10 * time.Second)
		w.disabled(w.Limiter, ask("user", "rpd", 1), false, "a time to live later")
		w.patch("SET disabled = :v", schema.Item{":v": schema.Bool(true)})
		w.disabled(w.Limiter, ask("user", "rpd", 1), true, "stamped again")
		w.patch("REMOVE disabled", nil)
		w.InvalidateConfig()
		w.disabled(w.Limiter, ask("user", "rpd", 1), false, "after an invalidation")
	})
}

// A disabled parent disables the children that cascade to it, as in the peer, whatever
// their own balance is.
func TestADisabledParentComesBeforeARefusal(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerDay("rpd", 10))
		w.Take(w.Limiter, ask("key", "rpd", 10))
		w.switchOff(limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, true)
		for _, l := range []*limiter.Limiter{w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{}), w.Limiter} {
			l.InvalidateConfig()
			_, err := l.Acquire(w.Context(), ask("key", "rpd", 1))
			var disabled *limiter.DisabledError
			if !errors.As(err, &disabled) || disabled.Entity != "project" {
				w.Errorf("got %v, want the project disabled", err)
			}
		}
	})
}
