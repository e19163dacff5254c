// Package storetest is the suite that every [store.Store] passes. In [Run], each
// subtest is one sentence of the interface's contract. [RunLimiter] runs the limiter
// itself on that store.
//
// The suite writes only through the interface. It does not cover states that a bucket
// cannot reach through the interface (disabled, lapsed). A store's own tests, which can
// plant such items, cover those.
package storetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Store is a store under test: a [store.Store], with the administration that writes
// what [store.Store.Load] reads.
type Store interface {
	store.Store
	SetLimits(ctx context.Context, k store.ConfigKey, limits []store.Limit) error
	SetSystem(ctx context.Context, limits []store.Limit, on store.OnUnavailable) error
	CreateEntity(ctx context.Context, e store.Entity) (*store.Entity, error)
}

// Run runs the suite. Every subtest opens its own store, in parallel with others. open
// returns a store in which nothing is stored, for example a fresh namespace.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for name, tests := range map[string][]test{
		"Take": takeTests, "Refill": refillTests, "Refill of a full bucket": fillTests, "Repair": repairTests,
		"Create": createTests, "Adjust": adjustTests,
		"Gather": gatherTests, "Bear": bearTests, "Merge": mergeTests, "Buckets": bucketsTests, "Load": loadTests, "Concurrent": concurrentTests, "Concurrent shards": shardTests, "Turn": turnTests, "Invalid": invalidTests, "Slots": slotTests, "Settlements": settlementTests, "Sequences": sequenceTests, "Reservations": reservationTests,
		"Renewal": renewalTests, "As many limits as there may be": mostLimitsTests, "As many soft limits as there may be": mostSoftTests,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range tests {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					s := open(t)
					c.run(&kit{T: t, Store: s, now: s.Now().UnixMilli()})
				})
			}
		})
	}
}

// A test is one sentence of the contract.
type test struct {
	name string
	run  func(*kit)
}

// A kit is a store under test, and an instant for stamps.
type kit struct {
	*testing.T
	Store
	now int64
}

const milli = 1000

// The bucket of most tests, and its limits, each of which fills in a minute.
var theBucket = store.Bucket{Entity: "user-1", Resource: "gpt-4"}

var (
	rpm = store.Params{Capacity: 100 * milli, Amount: 100 * milli, Period: 60_000}
	tpm = store.Params{Capacity: 1000 * milli, Amount: 1000 * milli, Period: 60_000}
	// The hidden write limit of every item in the suite.
	writes = store.Params{Capacity: 1000 * milli, Amount: 1000 * milli, Period: 1000}
)

const hidden = "wcu"

func named(name string, p store.Params) store.NamedParams {
	return store.NamedParams{Limit: name, Params: p}
}

// holds is a limit of a new bucket that holds the given millitokens.
func holds(name string, p store.Params, tokens int64) store.NewLimit {
	return store.NewLimit{NamedParams: named(name, p), Tokens: tokens}
}

// newBucket is theBucket with 50 of 100 rpm and 500 of 1000 tpm, stamped now.
func (k *kit) newBucket() *store.Create {
	return &store.Create{
		Bucket: theBucket, Now: k.now, ShardCount: 1,
		Limits: []store.NewLimit{holds("rpm", rpm, 50*milli), holds("tpm", tpm, 500*milli)},
		Writes: holds(hidden, writes, writes.Capacity-milli),
	}
}

// imageOf is the item that a create makes.
func imageOf(c *store.Create) *store.Image {
	state := func(l store.NewLimit) store.LimitState {
		return store.LimitState{Name: l.Limit, Tokens: l.Tokens, Consumed: l.Consumed, Params: new(l.Params)}
	}
	img := &store.Image{
		Bucket: c.Bucket, ShardCount: c.ShardCount, RefilledAt: c.Stamp(), CreatedAt: c.Now, ExpiresAt: c.ExpiresAt, Hour: int32(c.Now / 3_600_000), //nolint:gosec // hours fit
		Cascade: c.Owner.Cascade, Parent: c.Owner.Parent,
		ParentGeneration: c.Owner.Generation, Incarnation: c.Owner.Incarnation,
		ValidUntil: c.ValidUntil, HasValidUntil: c.ValidUntil != 0,
		Writes: state(c.Writes),
	}
	for _, l := range c.Limits {
		img.Limits = append(img.Limits, state(l))
	}
	if len(c.Reserved) > 0 {
		img.Reserved = &c.Reserved
	}
	if c.Position.Name != "" {
		img.Positions = []store.Position{c.Position}
	}
	return img
}

// create makes a bucket and returns its image.
func (k *kit) create(c *store.Create) *store.Image {
	k.Helper()
	out, err := k.Create(k.Context(), c)
	k.applied(out, err, imageOf(c))
	return out.Image
}

// anySize ignores how large an item is. The contract leaves that to the store.
var anySize = cmpopts.IgnoreFields(store.Image{}, "PositionCap")

// applied checks that a write took place, and that the outcome and the store have the
// wanted item.
func (k *kit) applied(out store.Outcome, err error, want *store.Image) {
	k.Helper()
	k.outcome(out, err, true, want)
}

// refused checks that a write did not take place, that its outcome has the wanted item,
// and that the store still has that item.
func (k *kit) refused(out store.Outcome, err error, want *store.Image) {
	k.Helper()
	k.outcome(out, err, false, want)
}

func (k *kit) outcome(out store.Outcome, err error, applied bool, want *store.Image) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
	if out.Applied != applied {
		k.Errorf("applied is %t, want %t", out.Applied, applied)
	}
	if diff := cmp.Diff(want, out.Image, anySize); diff != "" {
		k.Errorf("the outcome's image (-want +got):\n%s", diff)
	}
	if want == nil {
		k.stored(theBucket)
		return
	}
	k.stored(want.Bucket, want)
}

// stored checks which shards of a bucket exist.
func (k *kit) stored(b store.Bucket, want ...*store.Image) {
	k.Helper()
	got, err := k.Buckets(k.Context(), b.Entity, b.Resource, 1)
	if err != nil {
		k.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), anySize); diff != "" {
		k.Errorf("stored (-want +got):\n%s", diff)
	}
}

// with returns a changed copy of an image.
func with(img *store.Image, change func(*store.Image)) *store.Image {
	c := *img
	c.Limits = append([]store.LimitState(nil), img.Limits...)
	change(&c)
	return &c
}

// debit changes a limit of the image as a take does.
func debit(img *store.Image, limit string, tokens int64) {
	for i := range img.Limits {
		if l := &img.Limits[i]; l.Name == limit {
			l.Tokens -= tokens
			l.Consumed += tokens
		}
	}
}

// written changes the hidden write limit as every write does.
func written(img *store.Image) {
	img.Writes.Tokens -= milli
	img.Writes.Consumed += milli
}

func (k *kit) take(amounts ...store.Amount) (store.Outcome, error) {
	return k.Take(k.Context(), &store.Take{Bucket: theBucket, Now: k.now, Debits: debitsOf(amounts...)})
}

// mustTake is a take that must be admitted.
func (k *kit) mustTake(amounts ...store.Amount) *store.Image {
	k.Helper()
	return k.mustApply(k.take(amounts...))
}

// mustAdjust moves balances of theBucket as last seen.
func (k *kit) mustAdjust(seen *store.Image, deltas ...store.Delta) *store.Image {
	k.Helper()
	return k.mustApply(k.Adjust(k.Context(), &store.Adjust{Bucket: seen.Bucket, Seen: seen, Deltas: deltas}))
}

func (k *kit) mustApply(out store.Outcome, err error) *store.Image {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
	if !out.Applied {
		k.Fatalf("refused by %+v", out.Image)
	}
	return out.Image
}
