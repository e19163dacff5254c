package dynamo_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A planted is a bucket in a state that only a peer or an operator can cause, with the
// outcome of writes there. It completes package storetest, which uses only the
// interface of stores.
type planted struct {
	name   string
	update string // of the item, without the store's knowledge
	values schema.Item
	// late plants after the read of the image on which refills and credits work.
	late bool
	// The writes that are admitted.
	take, refill, debit, credit bool
}

const plantedAt = 1_700_000_000_000

var plantedBucket = store.Bucket{Entity: "user", Resource: "gpt-4"}

var planteds = []planted{
	{name: "nothing", update: "SET rf = rf", take: true, refill: true, debit: true, credit: true},
	{name: "disabled", update: "SET disabled = :v", values: schema.Item{":v": schema.Bool(true)}, refill: true, debit: true, credit: true},
	{name: "disabled, be it not with true", update: "SET disabled = :v", values: schema.Item{":v": schema.Bool(false)}, refill: true, debit: true, credit: true},
	{name: "disabled meanwhile", update: "SET disabled = :v", values: schema.Item{":v": schema.Bool(true)}, late: true, debit: true, credit: true},
	{name: "valid for a millisecond more", update: "SET vu = :v", values: schema.Item{":v": schema.N(plantedAt + 1)}, take: true, refill: true, debit: true, credit: true},
	{name: "lapsed", update: "SET vu = :v", values: schema.Item{":v": schema.N(plantedAt)}, refill: true, debit: true, credit: true},
	{name: "asked to be trimmed", update: "SET vu = :v", values: schema.Item{":v": schema.N(0)}, refill: true, debit: true, credit: true},
	{name: "asked to be trimmed meanwhile", update: "SET vu = :v", values: schema.Item{":v": schema.N(0)}, late: true},
	{name: "resharded", update: "SET shard_count = :v", values: schema.Item{":v": schema.N(2)}, take: true, refill: true, debit: true, credit: true},
	{name: "resharded meanwhile", update: "SET shard_count = :v", values: schema.Item{":v": schema.N(2)}, late: true, take: true},
	{name: "without a number of shards", update: "REMOVE shard_count", take: true, refill: true, debit: true, credit: true},
	{
		name: "a schedule, its window over", update: "SET sched = :s, vu = :v",
		values: schema.Item{":s": schema.S("1h9s500"), ":v": schema.N(plantedAt)}, refill: true, debit: true, credit: true,
	},
	{
		name: "a newer schedule, its window over", update: "SET sched = :s, vu = :v",
		values: schema.Item{":s": schema.S("2h9s500"), ":v": schema.N(plantedAt)}, refill: true, debit: true, credit: true,
	},
	{
		name: "a schedule that begins meanwhile", update: "SET vu = :v", late: true,
		values: schema.Item{":v": schema.N(plantedAt + 1000)}, take: true,
	},
	{name: "without the limit, meanwhile", update: "REMOVE b_rpm_tk, b_rpm_cp, b_rpm_ra, b_rpm_rp, b_rpm_tc", late: true},
}

// checkPlanted sends each kind of write to each planted bucket.
func checkPlanted(t *testing.T, api dynamo.API) {
	t.Helper()
	for i, p := range planteds {
		for name, admitted := range map[string]bool{"take": p.take, "refill": p.refill, "gather": p.refill, "debit": p.debit, "credit": p.credit} {
			w := plant(t, api, fmt.Sprintf("planted-%02d-%s", i, name), p)
			before := fixture.Get(t, api, w.key)
			out, err := w.write(t.Context(), name)
			if err != nil {
				t.Errorf("%s of a bucket %s: %v", name, p.name, err)
				continue
			}
			if out.Applied != admitted {
				t.Errorf("%s of a bucket %s: applied %t, want %t", name, p.name, out.Applied, admitted)
			}
			after := fixture.Get(t, api, w.key)
			if diff := cmp.Diff(before, after, cmpopts.IgnoreTypes(document.NoSerde{})); !out.Applied && diff != "" {
				t.Errorf("%s of a bucket %s was refused and changed it (-before +after):\n%s", name, p.name, diff)
			}
			met, err := schema.DecodeBucket(after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(met, out.Image); diff != "" {
				t.Errorf("%s of a bucket %s (-stored +image):\n%s", name, p.name, diff)
			}
		}
	}
}

// A plot is a planted bucket and its store.
type plot struct {
	*dynamo.Store
	key  schema.Key
	seen *store.Image
}

func plant(t *testing.T, api dynamo.API, namespace string, p planted) *plot {
	t.Helper()
	s := openNamespace(t, api, namespace)
	_, ns := s.Namespace()
	limit := func(name string) store.NewLimit {
		return store.NewLimit{
			NamedParams: store.NamedParams{Limit: name, Params: store.Params{Capacity: 100_000, Amount: 1000, Period: 1000}}, Tokens: 50_000,
		}
	}
	out, err := s.Create(t.Context(), &store.Create{
		Bucket: plantedBucket, Now: plantedAt, ShardCount: 1, Limits: []store.NewLimit{limit("rpm")}, Writes: limit(schema.WCU),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &plot{Store: s, key: schema.BucketKey(ns, plantedBucket), seen: out.Image}
	if _, err := api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: w.key.Item(), UpdateExpression: &p.update, ExpressionAttributeValues: p.values,
	}); err != nil {
		t.Fatal(err)
	}
	if !p.late {
		if w.seen, err = schema.DecodeBucket(fixture.Get(t, api, w.key)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// write sends a write of the named kind, at the instant of the bucket's stamp.
func (w *plot) write(ctx context.Context, kind string) (store.Outcome, error) {
	const token = 1000
	switch kind {
	case "take":
		return w.Take(ctx, &store.Take{Bucket: plantedBucket, Now: plantedAt, Debits: []store.Debit{
			{Amount: store.Amount{Limit: "rpm", Milli: token}, AtMost: 100_000},
		}})
	case "refill":
		return w.Refill(ctx, w.refill())
	case "gather":
		return w.gather(ctx)
	case "debit":
		return w.Adjust(ctx, &store.Adjust{Bucket: plantedBucket, Seen: w.seen, Deltas: []store.Delta{
			{Limit: "rpm", Tokens: -token, Consumed: token, AtMost: 100_000},
		}})
	default:
		return w.Adjust(ctx, &store.Adjust{Bucket: plantedBucket, Seen: w.seen, Deltas: []store.Delta{
			{Limit: "rpm", Tokens: token, Consumed: -token, AtMost: 99_000},
		}})
	}
}

// refill returns a refill that earns a token and makes the due trim.
func (w *plot) refill() *store.Refill {
	const token = 1000
	return &store.Refill{
		Bucket: plantedBucket, Seen: w.seen, RefilledAt: plantedAt + 1, Validity: store.Validity{Change: w.seen.HasValidUntil && w.seen.ValidUntil <= plantedAt},
		Writes:  store.Change{Limit: schema.WCU, Debit: token, AtLeast: token, AtMost: 100_000},
		Changes: []store.Change{{Limit: "rpm", Earned: token, AtLeast: 0, AtMost: 99_000}},
	}
}

// gather sends the refill in a transaction of its own, which does not answer with the
// image after it.
func (w *plot) gather(ctx context.Context) (store.Outcome, error) {
	j, err := w.Gather(ctx, []*store.Refill{w.refill()})
	if err != nil {
		return store.Outcome{}, err
	}
	if !j.Applied {
		return store.Outcome{Image: j.Refusals[0].Image}, nil
	}
	loaded, err := w.Load(ctx, &store.Load{Bucket: &plantedBucket})
	if err != nil {
		return store.Outcome{}, err
	}
	return store.Outcome{Applied: true, Image: loaded.Image}, nil
}

func TestPlantedBuckets(t *testing.T) {
	t.Parallel()
	checkPlanted(t, newLiteTable(t))
}

// A refill that makes a requested trim removes the request in the same write. It keeps
// a request whose time has not come.
func TestRefillTakesOffALapsedValidity(t *testing.T) {
	t.Parallel()
	api := newLiteTable(t)
	for i, p := range planteds {
		if !p.refill {
			continue
		}
		w := plant(t, api, fmt.Sprintf("lapse-%02d", i), p)
		out, err := w.write(t.Context(), "refill")
		if err != nil {
			t.Fatal(err)
		}
		if lapsed := w.seen.HasValidUntil && w.seen.ValidUntil <= plantedAt; out.Image.HasValidUntil != (w.seen.HasValidUntil && !lapsed) {
			t.Errorf("%s: valid until %d before, then %t %d", p.name, w.seen.ValidUntil, out.Image.HasValidUntil, out.Image.ValidUntil)
		}
	}
}

// Removing a limit also removes everything that any client stored about it.
func TestRemovingALimitLeavesNothingOfIt(t *testing.T) {
	t.Parallel()
	api := newLiteTable(t)
	var update []string
	for _, field := range schema.LimitFields {
		if field != schema.FieldSched && field != schema.FieldRSched {
			update = append(update, schema.LimitAttr("rpm", field)+" = if_not_exists("+schema.LimitAttr("rpm", field)+", :one)")
		}
	}
	w := plant(t, api, "remove", planted{update: "SET " + strings.Join(update, ", "), values: schema.Item{":one": schema.N(1)}})
	out, err := w.Refill(t.Context(), &store.Refill{
		Bucket: plantedBucket, Seen: w.seen, RefilledAt: plantedAt + 1,
		Writes:  store.Change{Limit: schema.WCU, AtLeast: 0, AtMost: 100_000},
		Changes: []store.Change{{Limit: "rpm", Kind: store.RemoveLimit}},
	})
	if err != nil || !out.Applied {
		t.Fatalf("refill: %+v, %v", out, err)
	}
	for attr := range fixture.Get(t, api, w.key) {
		if strings.HasPrefix(attr, "b_rpm_") && attr != schema.LimitAttr("rpm", schema.FieldConsumed) { // the diary needs the count
			t.Errorf("%s is left", attr)
		}
	}
}

// The first refill adds the hidden write limit to a bucket that a client created
// without it. A take cannot count without that limit.
func TestABucketWithoutTheHiddenLimit(t *testing.T) {
	t.Parallel()
	w := plant(t, newLiteTable(t), "bare", planted{update: "REMOVE b_wcu_tk, b_wcu_cp, b_wcu_ra, b_wcu_rp, b_wcu_tc"})
	out, err := w.write(t.Context(), "take")
	if err != nil || out.Applied || out.Image.Writes.Name != "" {
		t.Fatalf("take: %+v, %v", out, err)
	}
	params := store.Params{Capacity: 1_000_000, Amount: 1_000_000, Period: 1000}
	out, err = w.Refill(t.Context(), &store.Refill{
		Bucket: plantedBucket, Seen: out.Image, RefilledAt: plantedAt + 1,
		Writes: store.Change{Limit: schema.WCU, Kind: store.AddLimit, Params: params, Earned: 1_000_000, Debit: 1000},
	})
	want := store.LimitState{Name: schema.WCU, Tokens: 999_000, Consumed: 1000, Params: out.Image.Writes.Params}
	if err != nil || !out.Applied || out.Image.Writes != want || *want.Params != params {
		t.Errorf("refill: %+v, %v", out, err)
	}
}

// A soft limit in shadow whose schedule changes may be debited of more than the bounds of its balance leave. Such a
// take is refused like others, and is no request that DynamoDB does not understand.
func TestASoftTakeWithoutRoom(t *testing.T) {
	t.Parallel()
	w := plant(t, newLiteTable(t), "room", planted{update: "SET b_rpm_soft = :until", values: schema.Item{":until": schema.N(plantedAt + 60_000)}})
	for _, c := range []struct {
		d       store.Debit
		stamp   int64
		applied bool
	}{
		{store.Debit{AtLeast: 4000, AtMost: 0}, 0, false},
		{store.Debit{AtLeast: 4000, AtMost: 0, AtMostAtStamp: 0}, plantedAt, false},
		{store.Debit{AtLeast: 4000, AtMost: 0, AtMostAtStamp: math.MaxInt64, Earned: 4000}, plantedAt, true},
		{store.Debit{AtLeast: -1000, AtMost: math.MaxInt64}, 0, true},
		{store.Debit{AtLeast: 9_000_000, AtMost: math.MaxInt64, AtMostAtStamp: math.MaxInt64}, plantedAt, false},
		{store.Debit{AtLeast: math.MinInt64, AtMost: math.MaxInt64, AtMostAtStamp: math.MaxInt64, Earned: 4000}, plantedAt, true},
	} {
		c.d.Amount, c.d.Soft = store.Amount{Limit: "rpm", Milli: 1000}, true
		out, err := w.Take(t.Context(), &store.Take{Bucket: plantedBucket, Now: plantedAt, Seen: w.seen, Stamp: c.stamp, Debits: []store.Debit{c.d}})
		if err != nil || out.Applied != c.applied || out.Image == nil {
			t.Errorf("%+v: %+v, %v", c, out, err)
		}
	}
}
