package dynamo_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// The races of ADR 052, one test each.

// inBypassed has a bucket that holds 3 of 10 tokens and is bypassed, and a limiter that knows
// it and writes through a tap.
func inBypassed(t *testing.T, f func(w *township, slow *faults.Tap, l *limiter.Limiter)) {
	t.Helper()
	inTownship(t, func(w *township) {
		w.hourly(10)
		slow := faults.NewTap(w.api.Table)
		l := w.client(slow)
		w.must(errOf(w.takes(l, "user", 7)))
		w.bypasses(theEntity, 0)
		w.must(errOf(w.takes(l, "user", 100)))
		w.wantCounts("user", "3-107 bypassed")
		f(w, slow, l)
	})
}

// bypassedUntil is the stamp of the bucket.
func (w *township) bypassedUntil() time.Time {
	w.Helper()
	images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
	w.must(err)
	return time.UnixMilli(images[0].MarkedUntil)
}

// A stamp that passes between the last image and a write refuses the write, which is sent again
// and renews the stamp: also one that a peer wrote as no instant.
func TestAStampOfABypassPassesOnTheWay(t *testing.T) {
	for name, v := range map[string]func() schema.Item{
		"by time":    func() schema.Item { return schema.Item{schema.Bypass: schema.N(time.Now().UnixMilli())} },
		"no instant": func() schema.Item { return schema.Item{schema.Bypass: schema.Bool(true)} },
	} {
		t.Run(name, func(t *testing.T) {
			inBypassed(t, func(w *township, slow *faults.Tap, l *limiter.Limiter) {
				slow.Set(once(is("UpdateItem"), func() {
					behind(t, w.api.Table, schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4"}), v())
				}))
				w.must(errOf(w.takes(l, "user", 100)))
				w.wantCounts("user", "3-207 bypassed")
			})
		})
	}
}

// A renewal that was planned before the bypass was ended is refused, and the request with it.
func TestARenewalMeetsTheEndOfTheBypass(t *testing.T) {
	inBypassed(t, func(w *township, slow *faults.Tap, l *limiter.Limiter) {
		time.Sleep(time.Until(w.bypassedUntil())) // the next write is a renewal
		slow.Set(once(is("UpdateItem"), func() { w.sets(theEntity, store.Inherit) }))
		w.wantExceeded(errOf(w.takes(l, "user", 5)), "under way")
		w.wantCounts("user", "3-107")
	})
}

// A stamp that passes before a client has read that there is a bypass does not end it: the
// client reads the configuration first. So the stamps of one that ended while nobody wrote are
// removed, once.
func TestAStampThatPassedIsComparedWithTheConfiguration(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(10)
		l := w.client(w.api)
		w.must(errOf(w.takes(l, "user", 7)))
		w.bypasses(theEntity, 0)
		behind(t, w.api.Table, schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4"}), schema.Item{schema.Bypass: schema.N(time.Now().UnixMilli())})
		w.must(errOf(w.takes(l, "user", 100))) // it knows the configuration from before
		w.wantCounts("user", "3-107 bypassed")
		_, ns := w.Namespace()
		behind(t, w.api.Table, schema.ConfigKey(ns, theEntity), schema.Item{schema.Disabled: nil}) // as if marks failed
		time.Sleep(2 * time.Minute)
		w.must(errOf(w.takes(l, "user", 2)))
		w.wantCounts("user", "1-109")
		w.wantExceeded(errOf(w.takes(l, "user", 2)), "afterwards")
	})
}

// A count that was planned before the bypass was ended, or the bucket disabled, is refused.
func TestACountUnderWayMeetsAnotherSwitch(t *testing.T) {
	for name, to := range map[string]store.Policy{"cleared": store.Inherit, "enabled": store.No, "disabled": store.Yes} {
		t.Run(name, func(t *testing.T) {
			inBypassed(t, func(w *township, slow *faults.Tap, l *limiter.Limiter) {
				slow.Set(once(is("UpdateItem"), func() { w.sets(theEntity, to) }))
				if to == store.Yes {
					w.wantRefused(errOf(w.takes(l, "user", 2)), "under way")
				} else {
					w.wantExceeded(errOf(w.takes(l, "user", 5)), "under way")
				}
				w.wantCounts("user", "3-107")
			})
		})
	}
}

// A debit that was planned before the bypass began lands if the balance suffices, and is
// returned to it. If it does not suffice, the request is only counted. One for a disabled
// bucket is refused before.
func TestADebitUnderWayMeetsABypass(t *testing.T) {
	for tokens, want := range map[int64]string{2: "1-9 bypassed", 5: "3-12 bypassed"} {
		t.Run(want, func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.hourly(10)
				slow := faults.NewTap(w.api.Table)
				l := w.client(slow)
				w.must(errOf(w.takes(l, "user", 7)))
				time.Sleep(limiter.DefaultTrust + time.Millisecond)
				slow.Set(once(is("UpdateItem"), func() { w.bypasses(theEntity, 0) }))
				lease, err := w.takes(l, "user", tokens)
				w.must(err)
				w.wantCounts("user", want)
				w.must(lease.Rollback(w.Context()))
				w.wantCounts("user", "3-7 bypassed")
			})
		})
	}
}

// A bypass ends by itself, to the millisecond: for a client that counted until then, for one
// that knows it by configuration only, and for the stamp on the item.
func TestABypassEnds(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.hourly(10)
				warm, other := w.client(w.api.Table), w.client(w.api.Table)
				w.must(errOf(w.takes(warm, "user", 7)))
				until := time.Now().Add(100 * time.Second).Truncate(time.Millisecond)
				w.must(errOf(w.SetSwitch(w.Context(), k, dynamo.Switch{Policy: store.Bypass, Until: until}, nil)))
				time.Sleep(70 * time.Second)
				w.must(errOf(w.takes(warm, "user", 50)))
				if end := w.bypassedUntil(); !end.Equal(until) {
					t.Errorf("the stamp passes at %v, want %v", end, until)
				}
				time.Sleep(time.Until(until) - time.Millisecond)
				w.must(errOf(w.takes(warm, "user", 50)))
				w.must(errOf(w.takes(other, "user", 50)))
				time.Sleep(time.Millisecond)
				w.wantExceeded(errOf(w.takes(warm, "user", 50)), "at the end")
				w.wantExceeded(errOf(w.takes(other, "user", 50)), "at the end")
				w.wantCounts("user", "3-157")
				w.must(errOf(w.takes(warm, "user", 3)))
			})
		})
	}
}

// An earlier end reaches stamps that live longer.
func TestAnEarlierEndMovesTheStamp(t *testing.T) {
	inBypassed(t, func(w *township, _ *faults.Tap, l *limiter.Limiter) {
		w.bypasses(theEntity, 5*time.Second)
		w.must(errOf(w.takes(l, "user", 5)))
		time.Sleep(4 * time.Second)
		w.wantExceeded(errOf(w.takes(l, "user", 5)), "at the end")
	})
}

// Whoever changes the level last decides about the items, even if the other one writes to them
// last.
func TestTheItemsFollowTheLastOfABypassAndAnother(t *testing.T) {
	for _, tt := range []struct {
		first, then store.Policy
		want        string
	}{
		{store.Bypass, store.Yes, "off"},
		{store.Bypass, store.Inherit, "on"},
		{store.Yes, store.Bypass, "bypassed"},
		{store.Inherit, store.Bypass, "bypassed"},
	} {
		t.Run(fmt.Sprint(tt.first, tt.want), func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.hourly(10)
				w.must(w.asks(w.client(w.api.Table), "user"))
				if tt.first == store.Inherit {
					w.sets(theEntity, store.Yes)
				}
				raced := false
				first := w.open(faults.Wrap(w.api.Table, once(isMark, func() {
					raced = true
					w.sets(theEntity, tt.then)
				})))
				w.must(errOf(first.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: tt.first}, nil)))
				images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
				w.must(err)
				is := map[bool]string{true: "bypassed"}[images[0].Bypassed] + map[bool]string{true: "off"}[images[0].Disabled]
				if cmp.Or(is, "on") != tt.want || !raced {
					t.Errorf("it is %q; they raced: %t", is, raced)
				}
			})
		})
	}
}

// A doubling under a bypass gives the shard born the stamp of its sibling, and the tokens that
// one has. If the bypass begins or ends on the way, both shards are as it says.
func TestADoublingUnderABypass(t *testing.T) {
	for name, tt := range map[string]struct {
		before, then store.Policy
		want         string
	}{
		"live":   {store.Bypass, store.Bypass, "2-107 bypassed+1-0 bypassed"},
		"begins": {store.Inherit, store.Bypass, "2-7 bypassed+1-0 bypassed"},
		"ends":   {store.Bypass, store.Inherit, "2-107+1-0"},
	} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.hourly(10)
				l := w.client(w.api.Table)
				w.must(errOf(w.takes(l, "user", 7)))
				w.sets(theEntity, tt.before)
				time.Sleep(limiter.DefaultTrust)
				if tt.before == store.Bypass {
					w.must(errOf(w.takes(l, "user", 100)))
				}
				w.doubles(w.open(faults.Wrap(w.api.Table, once(is("TransactWriteItems"), func() { w.sets(theEntity, tt.then) }))))
				w.wantHalves(tt.want)
				time.Sleep(limiter.DefaultTrust)
				if tt.then == store.Bypass {
					for range 20 {
						w.must(errOf(w.takes(l, "user", 100)))
					}
				}
			})
		})
	}
}

// wantHalves is wantCounts for two shards that share three tokens.
func (w *township) wantHalves(want string) {
	w.Helper()
	images, err := w.Buckets(w.Context(), "user", "gpt-4", 2)
	w.must(err)
	var held int64
	for _, img := range images {
		s, _ := img.Limit("rph")
		held += s.Tokens
	}
	if got := w.counts("user"); held/1000 != 3 || len(images) != 2 || strings.Count(got, "bypassed") != strings.Count(want, "bypassed") {
		w.Errorf("the shards have %q, want %q", got, want)
	}
}

// A shard that is lost, and made again beside bypassed ones, is bypassed, too.
func TestALostShardIsMadeBypassed(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(1000)
		shardsOf(w.T, w.Store, "user", 2)
		w.bypasses(theEntity, 0)
		w.must(errOf(w.api.Table.BatchWriteItem(w.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			table: {{DeleteRequest: &types.DeleteRequest{Key: schema.BucketKey(w.ns, store.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1}).Item()}}},
		}})))
		l := w.client(w.api.Table)
		for range 20 {
			w.must(w.asks(l, "user"))
		}
		if got := w.counts("user"); strings.Count(got, "bypassed") != 2 {
			t.Errorf("the shards have %q", got)
		}
	})
}

// A lease that was counted of a shard which is merged away returns to no balance of the other one.
func TestACountedLeaseOutlivesItsShard(t *testing.T) {
	inBypassed(t, func(w *township, _ *faults.Tap, l *limiter.Limiter) {
		w.doubles(w.Store)
		var leases []*limiter.Lease
		for range 20 {
			lease, err := w.takes(l, "user", 4)
			w.must(err)
			leases = append(leases, lease)
		}
		w.merges(w.Store)
		w.sets(theEntity, store.Inherit)
		for _, lease := range leases {
			w.must(lease.Rollback(w.Context()))
		}
		if got := w.counts("user"); !strings.HasPrefix(got, "3-") || strings.Contains(got, "+") {
			t.Errorf("the bucket has %q, want 3 tokens", got)
		}
	})
}

// Callers of one process that share writes while the bypass begins and ends get back what they
// took, and no more: the balance ends as it was.
func TestManyLeasesAcrossABypass(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(100)
		l := w.client(w.api.Table)
		w.must(errOf(w.takes(l, "user", 40)))
		var callers sync.WaitGroup
		for i := range 40 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				lease, err := w.takes(l, "user", 1)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(i%7) * time.Second)
				if err := lease.Rollback(w.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		w.sets(theEntity, store.Bypass)
		time.Sleep(time.Second)
		w.sets(theEntity, store.Inherit)
		callers.Wait()
		w.wantCounts("user", "60-40")
	})
}

var errDown = errors.New("nothing is sent")

// A fan-out that fails half-way is completed by the same call.
func TestABypassIsCompleted(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(10)
		w.must(w.asks(w.client(w.api.Table), "user"))
		s := w.open(faults.Wrap(w.api.Table, faults.Before(func(c *faults.Call) error {
			if isMark(c) {
				return errDown
			}
			return nil
		})))
		var half *store.IncompleteError
		if err := errOf(s.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Bypass}, nil)); !errors.As(err, &half) {
			t.Errorf("got %v", err)
		}
		w.sets(theEntity, store.Bypass)
		w.wantCounts("user", "9-1 bypassed")
	})
}
