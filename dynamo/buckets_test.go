package dynamo_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

func shards(images []*store.Image) []store.Bucket {
	var all []store.Bucket
	for _, img := range images {
		all = append(all, img.Bucket)
	}
	return all
}

func of(entity, resource string, shards ...int) []store.Bucket {
	var all []store.Bucket
	for _, i := range shards {
		all = append(all, store.Bucket{Entity: entity, Resource: resource, Shard: i})
	}
	return all
}

// indexed cuts every page of an index after some entries, as if it named no others yet.
func indexed(names int) faults.Hook {
	return faults.On(faults.After(func(c *faults.Call, err error) error {
		if out, ok := c.Output.(*dynamodb.QueryOutput); ok && len(out.Items) > names {
			out.Items = out.Items[:names]
		}
		return err
	}), faults.Query)
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	type shard struct{ index, count int }
	const all = 100
	for name, c := range map[string]struct {
		items    []shard
		believed int
		indexed  int
		want     []int
		requests []string
	}{
		"none":      {nil, 1, all, nil, []string{"BatchGetItem", "Query"}},
		"unsharded": {[]shard{{0, 1}}, 1, all, []int{0}, []string{"BatchGetItem"}},
		"four, as is believed, one of them not made yet": {
			[]shard{{0, 4}, {1, 4}, {3, 4}},
			4, all,
			[]int{0, 1, 3},
			[]string{"BatchGetItem"},
		},
		"four, where one is believed": {
			[]shard{{0, 4}, {1, 4}, {2, 4}, {3, 4}},
			1, all,
			[]int{0, 1, 2, 3},
			[]string{"BatchGetItem", "BatchGetItem"},
		},
		"one, where four are believed": {[]shard{{0, 1}}, 4, all, []int{0}, []string{"BatchGetItem"}},
		"half-way through a doubling": {
			[]shard{{0, 2}, {1, 4}, {3, 4}},
			1, all,
			[]int{0, 1, 3},
			[]string{"BatchGetItem", "BatchGetItem", "BatchGetItem"},
		},
		"half-way through a doubling, as the believed shards say": {
			[]shard{{0, 2}, {1, 4}, {3, 4}},
			2, all,
			[]int{0, 1, 3},
			[]string{"BatchGetItem", "BatchGetItem"},
		},
		"shard 0 swept": {[]shard{{1, 4}, {2, 4}}, 1, all, []int{1, 2}, []string{"BatchGetItem", "Query", "BatchGetItem"}},
		"shard 0 swept, and the index names one of three": {
			[]shard{{1, 8}, {2, 8}, {7, 8}},
			1, 1,
			[]int{1, 2, 7},
			[]string{"BatchGetItem", "Query", "BatchGetItem", "BatchGetItem"},
		},
		"shard 0 swept, and the index names none, but they were read": {
			[]shard{{1, 4}, {2, 4}},
			2, 0,
			[]int{1, 2},
			[]string{"BatchGetItem", "BatchGetItem", "Query"},
		},
		"shard 0 swept, and all were read before the index was": {
			[]shard{{1, 4}, {2, 4}},
			4, all,
			[]int{1, 2},
			[]string{"BatchGetItem", "Query"},
		},
		"shard 0 swept, and some were read before the index was": {
			[]shard{{1, 2}, {3, 4}},
			2, all,
			[]int{1, 3},
			[]string{"BatchGetItem", "Query", "BatchGetItem"},
		},
		"shard 0 is known to be missing":        {[]shard{{1, 2}}, 0, all, []int{1}, []string{"Query", "BatchGetItem"}},
		"shard 0 is said to be missing wrongly": {[]shard{{0, 2}, {1, 2}}, 0, all, []int{0, 1}, []string{"Query", "BatchGetItem"}},
		"shard 0 and all others are missing":    {nil, 0, all, nil, []string{"Query"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := faults.NewTap(fixture.NewTable(t))
			s := fixture.OpenStore(t, faults.Wrap(f, indexed(c.indexed)))
			for _, sh := range c.items {
				fixture.PutBucket(t, s, f, "user", "gpt", sh.index, sh.count)
			}
			fixture.PutBucket(t, s, f, "user", "gpt-4", 5, 1)
			fixture.PutBucket(t, s, f, "user2", "gpt", 0, 1)
			f.Take()
			images, err := s.Buckets(t.Context(), "user", "gpt", c.believed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(of("user", "gpt", c.want...), shards(images)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.requests, f.Ops()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBucketsAreListedOverPagesOnBothKindsOfTable(t *testing.T) {
	t.Parallel()
	for _, projection := range []dynamo.Projection{dynamo.ProjectKeys, dynamo.ProjectAll} {
		t.Run(string(projection), func(t *testing.T) {
			t.Parallel()
			f := faults.NewTap(testbed.NewEngine(t, dynamolite.Options{}))
			f.Set(faults.Pages(7))
			if err := dynamo.CreateTable(t.Context(), f, dynamo.TableOptions{Name: table, GSI2Projection: projection}); err != nil {
				t.Fatal(err)
			}
			s := fixture.OpenStore(t, f)
			var want []store.Bucket
			for i := range 120 {
				e := fmt.Sprintf("user-%03d", i)
				fixture.PutBucket(t, s, f, e, "gpt-4", 0, 2)
				fixture.PutBucket(t, s, f, e, "gpt-4", 1, 2)
				want = append(want, of(e, "gpt-4", 0, 1)...)
			}
			fixture.PutBucket(t, s, f, "user-003", "a/b", 0, 1)
			// A usage snapshot shares the index partition.
			_, ns := s.Namespace()
			usage := schema.Key{PK: schema.EntityPK(ns, "user-003"), SK: "#USAGE#gpt-4#x"}.Item()
			usage[schema.GSI2PK], usage[schema.GSI2SK] = schema.S(schema.ResourcePK(ns, "gpt-4")), schema.S("USAGE#x#user-003")
			fixture.Put(t, f, usage)

			images, err := resourceBuckets(t.Context(), s, "gpt-4")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, shards(images)); diff != "" {
				t.Errorf("of the resource (-want +got):\n%s", diff)
			}
			for _, in := range f.Inputs() {
				if batch, ok := in.(*dynamodb.BatchGetItemInput); ok && len(batch.RequestItems[table].Keys) > 100 {
					t.Errorf("a batch of %d", len(batch.RequestItems[table].Keys))
				}
			}
			images, err = s.EntityBuckets(t.Context(), "user-003")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append(of("user-003", "a/b", 0), of("user-003", "gpt-4", 0, 1)...), shards(images)); diff != "" {
				t.Errorf("of the entity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDamagedBucketsAreReported(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	fixture.PutBucket(t, s, f, "user", "gpt-4", 0, 1)
	it := fixture.Get(t, f, schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: "gpt-4"}))
	delete(it, schema.RF)
	fixture.Put(t, f, it)
	_, one := s.Buckets(t.Context(), "user", "gpt-4", 1)
	_, all := s.EntityBuckets(t.Context(), "user")
	fixture.WantErr(t, one, store.ErrCorrupt)
	fixture.WantErr(t, all, store.ErrCorrupt)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	e := fixture.CreateEntity(t, s, store.Entity{ID: "user"})
	fixture.SetLimits(t, s, levels[1], rpm10)
	fixture.SetLimits(t, s, levels[3], tpm20)
	for shard := range 2 {
		fixture.PutBucket(t, s, f, "user", "gpt-4", shard, 2)
	}
	images, err := s.Buckets(t.Context(), "user", "gpt-4", 1)
	if err != nil {
		t.Fatal(err)
	}
	f.Take()
	got, err := s.Load(t.Context(), &store.Load{
		Entity: "user", Configs: append(levels, levels[1]), Bucket: &store.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Loaded{
		Entity: e, Configs: []*store.Config{nil, {Limits: rpm10}, nil, {Limits: tpm20}, {Limits: rpm10}}, Image: images[1],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"BatchGetItem"}, f.Ops()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	got, err = s.Load(t.Context(), &store.Load{
		Entity: "nobody", Configs: levels[:1], Bucket: &store.Bucket{Entity: "nobody", Resource: "gpt-4"},
	})
	if err != nil || got.Entity != nil || got.Image != nil || len(got.Configs) != 1 || got.Configs[0] != nil {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	f.Take()
	if got, err := s.Load(t.Context(), &store.Load{}); err != nil || len(got.Configs) != 0 || len(f.Ops()) != 0 {
		t.Errorf("asked for nothing: %+v, %v, requests %q", got, err, f.Ops())
	}
}

func TestLoadNeverAnswersInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := fixture.NewStore(t)
		for _, k := range levels {
			fixture.SetLimits(t, s, k, rpm10)
		}
		f.Take()
		f.Set(faults.Batches(1))
		got, err := s.Load(t.Context(), &store.Load{Configs: levels})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range got.Configs {
			if c == nil {
				t.Errorf("no configuration of %+v", levels[i])
			}
		}
		if len(f.Ops()) != 4 {
			t.Errorf("requests: %q", f.Ops())
		}
		stuck := faults.NewTap(fixture.NewTable(t))
		s = fixture.OpenStore(t, stuck)
		stuck.Set(faults.Batches(0))
		_, err = s.Load(t.Context(), &store.Load{Configs: levels})
		fixture.WantErr(t, err, store.ErrThrottled)
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		_, err = s.Load(ctx, &store.Load{Configs: levels})
		fixture.WantErr(t, err, context.DeadlineExceeded)
		fixture.WantErr(t, err, store.ErrUnavailable)
	})
}

// resourceBuckets collects the buckets of a resource.
func resourceBuckets(ctx context.Context, s *dynamo.Store, resource string) (all []*store.Image, err error) {
	for shards, err := range s.ResourceBuckets(ctx, resource) {
		if err != nil {
			return nil, err
		}
		all = append(all, shards...)
	}
	return all, nil
}

// A caller that has seen enough ends the listing: nothing more is read.
func TestAListingOfBucketsEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	for i := range 250 {
		fixture.PutBucket(t, s, f, fmt.Sprintf("user-%03d", i), "gpt-4", 0, 1)
	}
	before := len(f.Ops())
	n := 0
	for shards, err := range s.ResourceBuckets(t.Context(), "gpt-4") {
		if err != nil || len(shards) != 1 {
			t.Fatalf("%d shards, %v", len(shards), err)
		}
		if n++; n == 3 {
			break
		}
	}
	if ops := f.Ops()[before:]; n != 3 || len(ops) != 1+schema.IndexPartitions+1 {
		t.Errorf("%d buckets by %v, want 3 by a query of each partition and one batch", n, ops)
	}
}

// Without a name, the listing has the buckets of every resource of the namespace: those of one
// entity side by side, and the shards of each by number. Other items of the namespace are not in
// it, nor are other namespaces.
func TestAListingOfAllResources(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	var want []store.Bucket
	for _, entity := range []string{"user", "user-1", "user.1"} {
		for _, resource := range []string{"gpt", "gpt-4", "gpt/4"} {
			for shard := range 16 {
				fixture.PutBucket(t, s, f, entity, resource, shard, 16)
				want = append(want, store.Bucket{Entity: entity, Resource: resource, Shard: shard})
			}
		}
	}
	if err := s.SetLimits(t.Context(), store.ConfigKey{Entity: "user", Resource: "gpt"}, []store.Limit{{Name: "rpm", Capacity: 1, Amount: 1, Period: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	var got []store.Bucket
	for shards, err := range s.ResourceBuckets(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if len(shards) != 16 {
			t.Errorf("%v came with %d shards", shards[0].Bucket, len(shards))
		}
		for _, img := range shards {
			got = append(got, img.Bucket)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
