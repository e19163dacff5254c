package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// A township is a table in a bubble with an operator's store. Helpers read and write
// its buckets directly. The buckets belong to one entity.
type township struct {
	*testing.T
	*dynamo.Store
	api *faults.Tap
	ns  string
}

func inTownship(t *testing.T, f func(*township)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &township{T: t, api: faults.NewTap(newLiteTable(t))}
		w.Store = w.open(w.api)
		_, w.ns = w.Namespace()
		f(w)
	})
}

func (w *township) open(api dynamo.API) *dynamo.Store {
	w.Helper()
	s, err := dynamo.Open(w.Context(), dynamo.Options{API: api, Table: table})
	w.must(err)
	return s
}

func (w *township) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// took takes tokens of rph with a new client.
func (w *township) took(resource string, tokens int64) {
	w.Helper()
	l, err := limiter.New(w.open(w.api.Table), limiter.Options{})
	w.must(err)
	w.must(errOf(l.Acquire(w.Context(), limiter.Request{Entity: "user", Resource: resource, Consume: map[string]int64{"rph": tokens}})))
	w.must(l.Close())
}

// patch changes attributes of a shard as a peer does.
func (w *township) patch(resource string, shard int, changes schema.Item) {
	w.Helper()
	behind(w.T, w.api.Table, schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: resource, Shard: shard}), changes)
}

// stands returns the stored state of a bucket's shards: name, tokens, capacity and rate
// of each limit, and whether the bucket expires.
func (w *township) stands(resource string) string {
	w.Helper()
	images, err := w.Buckets(w.Context(), "user", resource, 1)
	w.must(err)
	var shards []string
	for _, img := range images {
		var text []string
		for _, s := range img.Limits {
			text = append(text, fmt.Sprintf("%s %d/%d+%d", s.Name, s.Tokens/1000, s.Capacity/1000, s.Amount/1000))
		}
		if img.ExpiresAt != 0 {
			text = append(text, "expires")
		}
		if img.HasValidUntil {
			text = append(text, "lapses")
		}
		shards = append(shards, strings.Join(text, ", "))
	}
	return strings.Join(shards, " | ")
}

func (w *township) wantStands(resource, want string) {
	w.Helper()
	if got := w.stands(resource); got != want {
		w.Errorf("the bucket of %s is %q, want %q", resource, got, want)
	}
}

var theEntity = store.ConfigKey{Entity: "user", Resource: "gpt-4"}

func perHour(tokens int64) []store.Limit {
	return []store.Limit{limiter.PerHour("rph", tokens)}
}

// An entity's limits are on its buckets when SetLimits returns. The next level's limits
// are there when DeleteLimits returns. So a peer that never compares finds them there.
func TestAnEntitysLimitsReachItsBucketsAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*township)
		want string
	}{
		{"lowered", func(w *township) { fixture.SetLimits(w.T, w.Store, theEntity, perHour(10)) }, "rph 10/10+10"},
		{"raised, with what was earned by then at the old rate", func(w *township) {
			time.Sleep(36 * time.Second)
			fixture.SetLimits(w.T, w.Store, theEntity, perHour(36_000))
		}, "rph 70/36000+36000"},
		{"another one", func(w *township) {
			fixture.SetLimits(w.T, w.Store, theEntity, []store.Limit{limiter.PerHour("rph", 1000), limiter.PerHour("tph", 50)})
		}, "rph 60/1000+1000, tph 50/50+50"},
		{"none that there was", func(w *township) {
			fixture.SetLimits(w.T, w.Store, theEntity, []store.Limit{limiter.PerHour("tph", 50)})
		}, "tph 50/50+50"},
		{"set, and deleted", func(w *township) {
			fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
			w.must(w.DeleteLimits(w.Context(), theEntity))
		}, "rph 10/1000+1000, expires"},
		{"set by default", func(w *township) {
			fixture.SetLimits(w.T, w.Store, store.ConfigKey{Entity: "user", Resource: store.DefaultResource}, perHour(10))
		}, "rph 10/10+10"},
		{"set, and no limits left when it is deleted", func(w *township) {
			fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
			w.must(w.DeleteLimits(w.Context(), store.ConfigKey{}))
			w.must(w.DeleteLimits(w.Context(), theEntity))
		}, "rph 10/10+10"},
		{"a resource's, which follow when they are compared", func(w *township) {
			fixture.SetLimits(w.T, w.Store, store.ConfigKey{Resource: "gpt-4"}, perHour(10))
		}, "rph 60/1000+1000, expires"},
		{"another entity's", func(w *township) {
			fixture.SetLimits(w.T, w.Store, store.ConfigKey{Entity: "user-1", Resource: "gpt-4"}, perHour(10))
			fixture.SetLimits(w.T, w.Store, store.ConfigKey{Entity: "user", Resource: "gpt-4o"}, perHour(10))
		}, "rph 60/1000+1000, expires"},
		{"on a bucket that is disabled", func(w *township) {
			w.patch("gpt-4", 0, schema.Item{schema.Disabled: schema.Bool(true)})
			fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		}, "rph 10/10+10"},
		{"on a bucket that a peer asked to be trimmed", func(w *township) {
			w.patch("gpt-4", 0, schema.Item{schema.ValidUntil: schema.N(0)})
			fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		}, "rph 10/10+10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				w.took("gpt-4", 940)
				w.wantStands("gpt-4", "rph 60/1000+1000, expires")
				tt.do(w)
				w.wantStands("gpt-4", tt.want)
			})
		})
	}
}

// All shards of all resources follow an entity's default limits, each by the limits in
// force for its resource. The store counts them.
func TestAnEntitysDefaultLimitsReachAllItsBuckets(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		shardsOf(w.T, w.Store, "user", 4) // of gpt-4
		w.took("gpt-3", 1)
		own := store.ConfigKey{Entity: "user", Resource: "own"}
		fixture.SetLimits(w.T, w.Store, own, perHour(77))
		w.took("own", 1)
		before := w.Stats()
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{Entity: "user", Resource: store.DefaultResource}, perHour(40))
		w.wantStands("gpt-3", "rph 40/40+40")
		w.wantStands("own", "rph 76/77+77")
		if got := w.stands("gpt-4"); strings.Count(got, "/40+40") != 4 {
			t.Errorf("the shards are %q", got)
		}
		if got := w.Stats(); got.Reached-before.Reached != 3 || got.Changed-before.Changed != 2 || got.Left != 0 {
			t.Errorf("counted %+v after %+v", got, before)
		}
		w.must(w.DeleteLimits(w.Context(), own))
		w.wantStands("own", "rph 40/40+40")
	})
}

// Setting limits that are already set repairs the buckets again. So repeating a change
// completes it if the buckets could not be reached the first time.
func TestAnIncompleteChangeIsCompletedByMakingItAgain(t *testing.T) {
	for _, change := range []struct {
		name string
		do   func(*township) error
		want string
	}{
		{"set", func(w *township) error {
			return w.SetLimits(w.Context(), store.ConfigKey{Entity: "user", Resource: store.DefaultResource}, perHour(40))
		}, "/40+40"},
		{"deleted", func(w *township) error {
			return w.DeleteLimits(w.Context(), store.ConfigKey{Entity: "user", Resource: store.DefaultResource})
		}, "/1000+1000"},
	} {
		for _, failing := range []struct {
			name, op string
			err      error
			is       error
		}{
			{"writes", "UpdateItem", errors.New("connection reset"), store.ErrUnavailable},
			{"writes without a right to", "UpdateItem", &types.ResourceNotFoundException{}, store.ErrNotFound},
			{"reads", "BatchGetItem", errors.New("connection reset"), store.ErrUnavailable},
			{"the list", "Query", errors.New("connection reset"), store.ErrUnavailable},
		} {
			t.Run(change.name+", failing "+failing.name, func(t *testing.T) {
				inTownship(t, func(w *township) {
					fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
					resources := []string{"a", "b", "c", "d", "e"}
					if change.name == "deleted" {
						fixture.SetLimits(w.T, w.Store, store.ConfigKey{Entity: "user", Resource: store.DefaultResource}, perHour(40))
					}
					for _, r := range resources {
						w.took(r, 1)
					}
					reached := 0
					w.api.Set(faults.Before(func(c *faults.Call) error {
						if c.Op == failing.op && (reached == 2 || c.Op == "Query") {
							return failing.err
						}
						if update, ok := c.Input.(*dynamodb.UpdateItemInput); ok && strings.HasSuffix(fmt.Sprint(schema.Plain(update.Key[schema.SK])), schema.StateSK) {
							reached++
						}
						return nil
					}))
					err := change.do(w)
					var incomplete *store.IncompleteError
					if !errors.As(err, &incomplete) || !errors.Is(err, store.ErrIncomplete) || !errors.Is(err, failing.is) {
						t.Fatalf("got %v, want an incomplete change and %v", err, failing.is)
					}
					of := len(resources)
					if failing.op == "Query" {
						of = 0
					}
					if incomplete.Entity != "user" || incomplete.Reached != reached || incomplete.Of != of {
						t.Errorf("got %+v, want %d of %d", incomplete, reached, of)
					}
					w.api.Set(nil)
					w.must(change.do(w))
					for _, r := range resources {
						if got := w.stands(r); !strings.Contains(got, change.want) {
							t.Errorf("the bucket of %s is %q", r, got)
						}
					}
				})
			})
		}
	}
}

// A bucket that uses a peer's feature stays as it is, and is counted.
func TestWhatCannotBeEvaluatedIsLeftAsItIs(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		w.took("gpt-4", 1)
		w.took("gpt-3", 1)
		w.patch("gpt-4", 0, schema.Item{"sched": schema.S("2h9-17s500")})
		before := fixture.Get(w.T, w.api.Table, schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4"}))
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{Entity: "user", Resource: store.DefaultResource}, perHour(40))
		w.wantStands("gpt-3", "rph 40/40+40")
		after := fixture.Get(w.T, w.api.Table, schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4"}))
		if diff := cmp.Diff(before, after, cmpopts.IgnoreTypes(document.NoSerde{})); diff != "" {
			t.Errorf("it was changed (-before +after):\n%s", diff)
		}
		if got := w.Stats(); got.Reached != 1 || got.Left != 1 {
			t.Errorf("counted %+v", got)
		}
	})
}

// A bucket that is created while the store lists buckets is found by a second listing.
func TestABucketMadeMeanwhileIsReached(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		var made atomic.Bool
		w.api.Set(faults.Before(func(c *faults.Call) error {
			if c.Op == "Query" && made.CompareAndSwap(false, true) { // from the configuration before the change
				return nil
			}
			if c.Op == "Query" {
				fixture.PutBucket(w.T, w.Store, w.api.Table, "user", "gpt-4", 0, 1)
			}
			return nil
		}))
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		if got := w.stands("gpt-4"); !strings.Contains(got, "rph 10/10+10") || !made.Load() {
			t.Errorf("the bucket is %q", got)
		}
	})
}

// Writes of others between read and repair do not keep a bucket from being repaired.
// The repair loses none of their debits.
func TestABucketInUseIsReached(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		w.took("gpt-4", 900)
		writes := 0
		w.api.Set(faults.Before(func(c *faults.Call) error {
			if c.Op != "UpdateItem" || writes == 3 {
				return nil
			}
			writes++
			time.Sleep(time.Second)
			w.took("gpt-4", 1) // moves the stamp
			return nil
		}))
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(2000))
		w.wantStands("gpt-4", fmt.Sprintf("rph %d/2000+2000", 100-writes))
		if writes < 2 {
			t.Errorf("%d writes in between", writes)
		}
	})
}

// A repair that uses configuration from before a change is not applied after the change
// has reached the bucket. This holds even if the change had nothing to repair there.
func TestNoRepairFromBeforeLandsAfterAChange(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(1000))
		w.took("gpt-4", 1)
		slow := faults.NewTap(w.api.Table)
		l, err := limiter.New(w.open(slow), limiter.Options{})
		w.must(err)
		// The limits change without a repair of the buckets. A client is about to
		// repair the bucket, and then the limits change back.
		fixture.Put(w.T, w.api.Table, schema.EncodeConfig(w.ns, theEntity, &store.Config{Limits: perHour(10)}))
		slow.Set(faults.Before(func(c *faults.Call) error {
			if c.Op == "UpdateItem" {
				slow.Set(nil)
				fixture.SetLimits(w.T, w.Store, theEntity, perHour(1000))
			}
			return nil
		}))
		w.must(errOf(l.Acquire(w.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rph": 1}})))
		w.must(l.Close())
		w.wantStands("gpt-4", "rph 998/1000+1000")
		if !slices.Contains(slow.Ops(), "UpdateItem") {
			t.Error("no repair was tried")
		}
	})
}
