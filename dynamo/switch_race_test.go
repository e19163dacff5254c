package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// The races of ADR 045, one test each.

// once calls f before the first request that is, and then no more.
func once(is func(*faults.Call) bool, f func()) faults.Hook {
	var done atomic.Bool
	return faults.Before(func(c *faults.Call) error {
		if is(c) && done.CompareAndSwap(false, true) {
			f()
		}
		return nil
	})
}

// isMark reports whether a request marks an item, or removes its mark.
func isMark(c *faults.Call) bool {
	update, ok := c.Input.(*dynamodb.UpdateItemInput)
	return ok && strings.Contains(*update.UpdateExpression, schema.DisabledUntil)
}

func is(ops ...string) func(*faults.Call) bool {
	return func(c *faults.Call) bool { return slices.Contains(ops, c.Op) }
}

// A take that was planned before a bucket was disabled is refused, and debits nothing.
func TestATakeUnderWayIsRefused(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		slow := faults.NewTap(w.api.Table)
		l := w.client(slow)
		w.must(w.asks(l, "user"))
		slow.Set(once(is("UpdateItem"), func() { w.sets(theEntity, store.Yes) }))
		w.wantRefused(w.asks(l, "user"), "disabled under way")
		w.wantStands("gpt-4", "rph 999/1000+1000, expires")
		slow.Set(faults.Fail(errors.New("nothing is sent")))
		w.wantRefused(w.asks(l, "user"), "then")
	})
}

// A bucket that is created from the configuration before the change is found by the second
// search, also one of another entity of a resource.
func TestABucketCreatedMeanwhileIsDisabled(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, everything, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				slow := faults.NewTap(w.api.Table)
				l, done := w.client(slow), make(chan struct{})
				slow.Set(once(is("PutItem"), func() {
					go func() {
						defer close(done)
						w.sets(k, store.Yes)
					}()
					time.Sleep(900 * time.Millisecond) // the first search is over
				}))
				w.must(w.asks(l, "user")) // was decided before the change
				<-done
				w.wantMarks("user", "off")
				w.wantRefused(w.asks(l, "user"), "then")
			})
		})
	}
}

// A client that knows configuration from before the change makes no bucket.
func TestAColdBucketIsRefused(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		l := w.client(w.api.Table)
		_, err := l.Limits(w.Context(), "user", "gpt-4")
		w.must(err)
		w.sets(theResource, store.Yes)
		w.wantRefused(w.asks(l, "user"), "cold")
		w.wantMarks("user", "")
	})
}

// The operator who changes the level last decides about the items, even if the other one
// writes to them last.
func TestTheItemsFollowTheLastOfTwoOperators(t *testing.T) {
	for _, tt := range []struct {
		name      string
		first, by store.ConfigKey
		then      store.Policy
		isLate    bool // the bucket is there when the first operator searches for the second time
		want      string
	}{
		{"one level", theEntity, theEntity, store.Inherit, false, "on"},
		{"one level, and a late bucket", theEntity, theEntity, store.Inherit, true, "on"},
		{"the resource, then the entity is enabled", theResource, theEntity, store.No, false, "on"},
		{"the resource, then the entity is enabled, and a late bucket", theResource, theEntity, store.No, true, "on"},
		{"the entity, then its resource too", theEntity, theResource, store.Yes, false, "off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				raced := false
				first := w.open(faults.Wrap(w.api.Table, once(isMark, func() {
					raced = true
					w.sets(tt.by, tt.then)
				})))
				var late sync.WaitGroup
				if tt.isLate {
					late.Go(func() {
						time.Sleep(500 * time.Millisecond)
						fixture.PutBucket(w.T, w.Store, w.api.Table, "user", "gpt-4", 0, 1)
					})
				} else {
					w.must(w.asks(w.client(w.api.Table), "user"))
				}
				_, err := first.SetSwitch(w.Context(), tt.first, dynamo.Switch{Policy: store.Yes}, nil)
				w.must(err)
				late.Wait()
				w.wantMarks("user", tt.want)
				if !raced {
					t.Error("they did not race")
				}
			})
		})
	}
}

// doubles splits the bucket with a keeper on a store.
func (w *township) doubles(s *dynamo.Store) {
	w.Helper()
	images, err := s.Buckets(w.Context(), "user", "gpt-4", 1)
	w.must(err)
	img := *images[0]
	img.Writes.Tokens = -1000 // as if its writes were used up
	keeper, err := upkeep.NewKeeper(s, process.Options{})
	w.must(err)
	_, _ = keeper.Double(w.Context(), &img, time.UnixMilli(img.RefilledAt))
	w.must(keeper.Close())
}

// Shards that are made between the read of the shards and their marks are marked, too.
func TestShardsBornMeanwhileAreDisabled(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		w.must(w.asks(w.client(w.api.Table), "user"))
		s := w.open(faults.Wrap(w.api.Table, once(isMark, func() { w.doubles(w.Store) })))
		_, err := s.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Yes}, nil)
		w.must(err)
		w.wantMarks("user", "off+off")
	})
}

// A shard that a doubling makes of one that was disabled meanwhile is disabled, too, and until
// the same instant.
func TestAShardBornOfADisabledOneIsDisabled(t *testing.T) {
	for _, until := range []time.Duration{0, time.Hour} {
		t.Run(until.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				w.must(w.asks(w.client(w.api.Table), "user"))
				to, want := dynamo.Switch{Policy: store.Yes}, "off+off"
				if until != 0 {
					to.Until, want = time.Now().Add(until), "off until 1h0m0s+off until 1h0m0s"
				}
				w.doubles(w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() {
					w.must(errOf(w.SetSwitch(w.Context(), theEntity, to, nil)))
				}))))
				w.wantMarks("user", want)
				w.sets(theEntity, store.Inherit)
				w.wantMarks("user", "on+on")
			})
		})
	}
}

// A shard that is made again beside disabled ones is disabled. One that was planned before
// shard 0 was disabled is not made.
func TestALostShardIsMadeDisabled(t *testing.T) {
	for name, c := range map[string]struct{ like, made bool }{"planned before": {false, false}, "planned after": {true, true}} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				images := shardsOf(w.T, w.Store, "user", 4)
				w.sets(theEntity, store.Yes)
				like := *images[0]
				like.Disabled = c.like
				birth := plan.Orphan(&like, 3, 1, 4, time.Now().UnixMilli(), 2)
				for _, shard := range []int{1, 3} {
					w.must(errOf(w.api.Table.BatchWriteItem(w.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
						table: {{DeleteRequest: &types.DeleteRequest{Key: schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4", Shard: shard}).Item()}}},
					}})))
				}
				joint, err := w.Bear(w.Context(), birth)
				w.must(err)
				if joint.Applied != c.made {
					t.Errorf("made: %t, want %t", joint.Applied, c.made)
				}
				w.wantMarks("user", map[bool]string{true: "off+off+off", false: "off+off"}[c.made])
			})
		})
	}
}

// A merge between the read of the shards and their marks leaves the survivor marked. A merge
// that has read the shards before they were marked does nothing.
func TestAMergeAndASwitch(t *testing.T) {
	for _, mergeFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("the merge is first: ", mergeFirst), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				w.must(w.asks(w.client(w.api.Table), "user"))
				w.doubles(w.Store)
				merge := func(s *dynamo.Store) (merged bool) {
					keeper, err := upkeep.NewKeeper(s, process.Options{})
					w.must(err)
					images, err := keeper.Shards(w.Context(), store.Bucket{Entity: "user", Resource: "gpt-4"})
					w.must(err)
					merged, err = keeper.Merge(w.Context(), images)
					w.must(errors.Join(err, keeper.Close()))
					return merged
				}
				if mergeFirst {
					merged := false
					s := w.open(faults.Wrap(w.api.Table, once(isMark, func() { merged = merge(w.Store) })))
					_, err := s.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Yes}, nil)
					w.must(err)
					if w.wantMarks("user", "off"); !merged {
						t.Error("nothing was merged")
					}
					return
				}
				s := w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.sets(theEntity, store.Yes) })))
				if merge(s) {
					t.Error("disabled shards were merged")
				}
				w.wantMarks("user", "off+off")
			})
		})
	}
}

// A switch ends by itself, to the millisecond, also for a client that refuses from memory. The
// first client that writes to an item removes its mark.
func TestASwitchEnds(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				byMark, byConfig := w.client(w.api.Table), w.client(w.api.Table)
				w.must(w.asks(byMark, "user"))
				until := time.Now().Add(30 * time.Second).Truncate(time.Millisecond)
				_, err := w.SetSwitch(w.Context(), k, dynamo.Switch{Policy: store.Yes, Until: until}, nil)
				w.must(err)
				for name, l := range map[string]*limiter.Limiter{"by its mark": byMark, "by configuration": byConfig} {
					err := w.asks(l, "user")
					var disabled *store.DisabledError
					if !errors.As(err, &disabled) || !disabled.Until.Equal(until) {
						t.Errorf("%s: got %v, want it disabled until %v", name, err, until)
					}
				}
				sent := len(w.api.Ops())
				time.Sleep(time.Until(until) - time.Millisecond)
				w.wantRefused(w.asks(byMark, "user"), "just before")
				w.wantRefused(w.asks(byConfig, "user"), "just before")
				if n := len(w.api.Ops()) - sent; n != 0 {
					t.Errorf("refusals took %d requests", n)
				}
				time.Sleep(time.Millisecond)
				w.wantMarks("user", "off until 0s")
				w.must(w.asks(byMark, "user"))
				w.wantMarks("user", "on")
				w.must(w.asks(byConfig, "user"))
				w.wantStands("gpt-4", "rph 998/1000+1000, expires")
			})
		})
	}
}

// A client that is about to remove the mark of a switch that has ended removes no other one.
func TestTheEndOfASwitchRemovesNoOther(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		slow := faults.NewTap(w.api.Table)
		l := w.client(slow)
		w.must(w.asks(l, "user"))
		_, err := w.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Yes, Until: time.Now().Add(30 * time.Second)}, nil)
		w.must(err)
		w.wantRefused(w.asks(l, "user"), "disabled")
		time.Sleep(30 * time.Second)
		slow.Set(once(func(c *faults.Call) bool {
			update, ok := c.Input.(*dynamodb.UpdateItemInput)
			return ok && strings.Contains(*update.UpdateExpression, "REMOVE")
		}, func() { w.sets(theEntity, store.Yes) }))
		w.wantRefused(w.asks(l, "user"), "disabled again")
		w.wantMarks("user", "off")
	})
}

// The bucket of somebody who calls too often is throttled just when it is to be disabled: the mark
// is sent again.
func TestAThrottledMarkIsSentAgain(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		w.must(w.asks(w.client(w.api.Table), "user"))
		left := 5
		s := w.open(faults.Wrap(w.api.Table, faults.Before(func(c *faults.Call) error {
			if isMark(c) {
				if left--; left >= 0 {
					return &types.ProvisionedThroughputExceededException{}
				}
			}
			return nil
		})))
		w.must(errOf(s.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Yes}, nil)))
		if w.wantMarks("user", "off"); left >= 0 {
			t.Errorf("%d throttles are left", left)
		}
	})
}
