package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// shards makes shards of theBucket, each with its own number of shards.
func (k *kit) shards(counts map[int]int) []*store.Image {
	k.Helper()
	var images []*store.Image
	for shard := range 32 {
		count, ok := counts[shard]
		if !ok {
			continue
		}
		c := k.newBucket()
		c.Shard, c.ShardCount = shard, count
		c.Limits[0].Tokens = int64(shard)
		out, err := k.Create(k.Context(), c)
		images = append(images, k.mustApply(out, err))
	}
	return images
}

var bucketsTests = []test{
	{"none", func(k *kit) { k.stored(theBucket) }},
	{"one", func(k *kit) { k.stored(theBucket, k.shards(map[int]int{0: 1})...) }},
	{"several, in order", func(k *kit) { k.stored(theBucket, k.shards(map[int]int{0: 16, 2: 16, 10: 16, 15: 16, 1: 16})...) }},
	{"shards that exist, where some do not", func(k *kit) { k.stored(theBucket, k.shards(map[int]int{0: 4, 3: 4})...) }},
	{"shards that exist, where shard 0 does not", func(k *kit) { k.stored(theBucket, k.shards(map[int]int{1: 4, 3: 4})...) }},
	{"shards that only others know of", func(k *kit) {
		k.stored(theBucket, k.shards(map[int]int{0: 2, 1: 4, 2: 4, 3: 4})...)
	}},
	{"those of the entity and the resource alone", func(k *kit) {
		want := k.shards(map[int]int{0: 1})
		for _, b := range []store.Bucket{
			{Entity: "user-1", Resource: "gpt-4:0"},
			{Entity: "user-1", Resource: "gpt"},
			{Entity: "user-1", Resource: "gpt-4o"},
			{Entity: "user", Resource: "gpt-4"},
			{Entity: "user-10", Resource: "gpt-4"},
		} {
			c := k.newBucket()
			c.Bucket = b
			k.create(c)
		}
		k.stored(theBucket, want...)
		k.stored(store.Bucket{Entity: "user-1", Resource: "gpt-4:1"})
		k.stored(store.Bucket{Entity: "user-2", Resource: "gpt-4"})
	}},
}

// levels are the four levels of configuration of theBucket, and limits for each.
var levels = []store.ConfigKey{
	{Entity: theBucket.Entity, Resource: theBucket.Resource},
	{Entity: theBucket.Entity, Resource: store.DefaultResource},
	{Resource: theBucket.Resource},
	{},
}

func limitsOf(level int) []store.Limit {
	return []store.Limit{
		limiter.PerMinute("rpm", int64(level+1), limiter.Burst(100)),
		limiter.Custom("tpm-x.y", store.MaxTokens, store.MaxPeriod),
	}
}

func (k *kit) load(l *store.Load) *store.Loaded {
	k.Helper()
	got, err := k.Load(k.Context(), l)
	if err != nil {
		k.Fatal(err)
	}
	return got
}

// configure sets the limits of a level.
func (k *kit) configure(level int) {
	k.Helper()
	var err error
	if levels[level] == (store.ConfigKey{}) {
		err = k.SetSystem(k.Context(), limitsOf(level), store.Allow)
	} else {
		err = k.SetLimits(k.Context(), levels[level], limitsOf(level))
	}
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kit) loads(l *store.Load, want *store.Loaded) {
	k.Helper()
	if diff := cmp.Diff(want, k.load(l), cmpopts.EquateEmpty(), anySize); diff != "" {
		k.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// config is the configuration that configure writes to a level.
func config(level int) *store.Config {
	c := &store.Config{Limits: limitsOf(level)}
	if levels[level] == (store.ConfigKey{}) {
		c.OnUnavailable = store.Allow
	}
	return c
}

var loadTests = []test{
	{"nothing is there", func(k *kit) {
		k.loads(&store.Load{Entity: theBucket.Entity, Configs: levels}, &store.Loaded{Configs: make([]*store.Config, len(levels))})
	}},
	{"nothing is asked", func(k *kit) { k.loads(&store.Load{}, &store.Loaded{}) }},
	{"each level alone, absent ones nil", func(k *kit) {
		want := &store.Loaded{Configs: make([]*store.Config, len(levels))}
		for i := range levels {
			k.configure(i)
			want.Configs[i] = config(i)
			k.loads(&store.Load{Configs: levels}, want)
		}
	}},
	{"in the order asked, twice if asked twice", func(k *kit) {
		k.configure(0)
		k.configure(3)
		k.loads(&store.Load{Configs: []store.ConfigKey{levels[3], levels[1], levels[0], levels[3]}},
			&store.Loaded{Configs: []*store.Config{config(3), nil, config(0), config(3)}})
	}},
	{"new limits replace all the old ones", func(k *kit) {
		k.configure(2)
		only := []store.Limit{limiter.PerDay("rpd", 7)}
		if err := k.SetLimits(k.Context(), levels[2], only); err != nil {
			k.Fatal(err)
		}
		k.loads(&store.Load{Configs: levels[2:3]}, &store.Loaded{Configs: []*store.Config{{Limits: only}}})
	}},
	{"of this entity and resource alone", func(k *kit) {
		for i := range levels {
			k.configure(i)
		}
		k.loads(&store.Load{Entity: "user-2", Configs: []store.ConfigKey{
			{Entity: "user-2", Resource: "gpt-4"},
			{Entity: "user-2", Resource: store.DefaultResource},
			{Entity: "user-1", Resource: "gpt-4o"},
			{Resource: "gpt-4o"},
			{},
		}}, &store.Loaded{Configs: []*store.Config{nil, nil, nil, nil, config(3)}})
	}},
	{"a bucket", func(k *kit) {
		b := theBucket
		k.loads(&store.Load{Bucket: &b}, &store.Loaded{})
		k.configure(0)
		images := k.shards(map[int]int{0: 2, 1: 2})
		for _, img := range images {
			for _, consistent := range []bool{false, true} {
				k.loads(&store.Load{Entity: "user-1", Configs: levels[:1], Bucket: &img.Bucket, Consistent: consistent},
					&store.Loaded{Configs: []*store.Config{config(0)}, Image: img})
			}
		}
	}},
	{"an entity's record", func(k *kit) {
		parent, err := k.CreateEntity(k.Context(), store.Entity{ID: "project-1", Name: "Project"})
		if err != nil {
			k.Fatal(err)
		}
		child, err := k.CreateEntity(k.Context(), store.Entity{
			ID: "user-1", Parent: "project-1", Cascade: true, Metadata: map[string]string{"tier": "gold", "note": ""},
		})
		if err != nil {
			k.Fatal(err)
		}
		k.loads(&store.Load{Entity: "project-1"}, &store.Loaded{Entity: parent})
		k.loads(&store.Load{Entity: "user-1", Configs: levels[:1]}, &store.Loaded{Entity: child, Configs: make([]*store.Config, 1)})
		k.loads(&store.Load{Configs: levels[:1]}, &store.Loaded{Configs: make([]*store.Config, 1)})
		if child.Name != "user-1" || child.Created.Location() != time.UTC || child.Generation <= 0 ||
			child.Incarnation == "" || child.Incarnation == parent.Incarnation {
			k.Errorf("created %+v", child)
		}
	}},
}
