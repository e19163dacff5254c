package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// Names that must not become part of a key.
var (
	badEntities  = []string{"", "a#b", "user-1\n", "\nuser-1", "-a", ".a", "a b", "a/b", "é", "a\x00", strings.Repeat("a", 257)}
	badResources = []string{"", "a#b", "gpt-4\n", "4gpt", "_a", "_default_", "a b", "a@b", "é", "a\x00", strings.Repeat("a", 65)}
)

// A call is an operation of a store on a bucket.
type call struct {
	name string
	run  func(context.Context, *kit, store.Bucket) error
}

func errOf[T any](_ T, err error) error { return err }

// bucketCalls are the operations that name a bucket. Each would succeed with a valid
// name.
var bucketCalls = []call{
	{"Take", func(ctx context.Context, k *kit, b store.Bucket) error {
		return errOf(k.Take(ctx, &store.Take{Bucket: b, Now: k.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli})}))
	}},
	{"Refill", func(ctx context.Context, k *kit, b store.Bucket) error {
		r := refill(imageOf(k.newBucket()), keep("rpm", milli, 0))
		r.Bucket = b
		return errOf(k.Refill(ctx, r))
	}},
	{"Create", func(ctx context.Context, k *kit, b store.Bucket) error {
		c := k.newBucket()
		c.Bucket = b
		return errOf(k.Create(ctx, c))
	}},
	{"Adjust", func(ctx context.Context, k *kit, b store.Bucket) error {
		return errOf(k.Adjust(ctx, &store.Adjust{Bucket: b, Seen: imageOf(k.newBucket()), Deltas: []store.Delta{debits("rpm", milli)}}))
	}},
	{"Gather", func(ctx context.Context, k *kit, b store.Bucket) error {
		r := refill(imageOf(k.newBucket()), keep("rpm", milli, 0))
		r.Bucket = b
		return errOf(k.Gather(ctx, []*store.Refill{r}))
	}},
	{"Bear", func(ctx context.Context, k *kit, b store.Bucket) error {
		c := k.born(1, 2, 0)
		c.Entity, c.Resource = b.Entity, b.Resource
		r := gives(imageOf(k.newBucket()), 0, 2)
		r.Entity, r.Resource = b.Entity, b.Resource
		return errOf(k.Bear(ctx, &store.Birth{Create: c, Donor: r}))
	}},
	{"Merge", func(ctx context.Context, k *kit, b store.Bucket) error {
		survivor, retired := k.born(0, 2, 0), k.born(1, 2, 0)
		survivor.Entity, survivor.Resource = b.Entity, b.Resource
		retired.Entity, retired.Resource = b.Entity, b.Resource
		return errOf(k.Merge(ctx, []*store.Pair{joins(imageOf(&survivor), imageOf(&retired))}))
	}},
	{"Buckets", func(ctx context.Context, k *kit, b store.Bucket) error {
		return errOf(k.Buckets(ctx, b.Entity, b.Resource, 1))
	}},
	{"Read of a bucket", func(ctx context.Context, k *kit, b store.Bucket) error {
		return errOf(k.Load(ctx, &store.Load{Bucket: &b}))
	}},
	{"Load of a configuration", func(ctx context.Context, k *kit, b store.Bucket) error {
		return errOf(k.Load(ctx, &store.Load{Configs: []store.ConfigKey{{}, {Entity: b.Entity, Resource: b.Resource}}}))
	}},
	{"Load of a record", func(ctx context.Context, k *kit, b store.Bucket) error {
		return errOf(k.Load(ctx, &store.Load{Entity: b.Entity, Configs: []store.ConfigKey{{Resource: b.Resource}}}))
	}},
}

// An entrance is an operation that accepts the name of a limit, besides "rpm" and other
// valid ones.
type entrance struct {
	name string
	run  func(k *kit, seen *store.Image, limit string) error
}

// entrances are all such operations, on the limits of buckets and on configuration.
var entrances = []entrance{
	{"Take", func(k *kit, _ *store.Image, limit string) error {
		return errOf(k.take(store.Amount{Limit: limit, Milli: milli}))
	}},
	{"Take of nothing", func(k *kit, _ *store.Image, limit string) error {
		return errOf(k.take(store.Amount{Limit: "rpm", Milli: milli}, store.Amount{Limit: limit}))
	}},
	refillEntrance("keeps", store.KeepParams),
	refillEntrance("sets", store.SetParams),
	refillEntrance("adds", store.AddLimit),
	refillEntrance("removes", store.RemoveLimit),
	{"Refill of a full bucket", func(k *kit, seen *store.Image, limit string) error {
		r := fill(seen, seen.RefilledAt)
		r.Changes[1].Limit = limit
		return errOf(k.Refill(k.Context(), r))
	}},
	{"Gather", func(k *kit, seen *store.Image, limit string) error {
		other := refill(seen, keep("rpm", milli, 0), keep(limit, milli, 0))
		other.Shard = 1
		return errOf(k.Gather(k.Context(), []*store.Refill{refill(seen, keep("rpm", milli, 0)), other}))
	}},
	{"Bear", func(k *kit, seen *store.Image, limit string) error {
		b := k.halves(seen)
		b.Limits = append(b.Limits, holds(limit, rpm, 0))
		return errOf(k.Bear(k.Context(), b))
	}},
	{"Bear, of a donor", func(k *kit, seen *store.Image, limit string) error {
		b := k.halves(seen)
		b.Donor.Changes = append(b.Donor.Changes, keep(limit, -milli, 0))
		return errOf(k.Bear(k.Context(), b))
	}},
	{"Bear, without a donor", func(k *kit, _ *store.Image, limit string) error {
		b := k.orphan(1, 3)
		b.Limits[0].Limit = limit
		return errOf(k.Bear(k.Context(), b))
	}},
	{"Merge, of the survivor", func(k *kit, _ *store.Image, limit string) error {
		survivor, retired := k.born(0, 2, 0), k.born(1, 2, 0)
		p := joins(imageOf(&survivor), imageOf(&retired))
		p.Survivor.Changes[0].Limit = limit
		return errOf(k.Merge(k.Context(), []*store.Pair{p}))
	}},
	{"Merge, of the retired", func(k *kit, _ *store.Image, limit string) error {
		survivor, retired := k.born(0, 2, 0), k.born(1, 2, 0)
		retired.Limits[0].Limit = limit
		return errOf(k.Merge(k.Context(), []*store.Pair{joins(imageOf(&survivor), imageOf(&retired))}))
	}},
	{"Create", func(k *kit, _ *store.Image, limit string) error {
		c := k.newBucket()
		c.Shard, c.Limits[1].Limit = 1, limit
		return errOf(k.Create(k.Context(), c))
	}},
	{"Adjust, a debit", func(k *kit, seen *store.Image, limit string) error {
		return errOf(k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: seen, Deltas: []store.Delta{debits("rpm", milli), debits(limit, milli)}}))
	}},
	{"Adjust, a credit", func(k *kit, seen *store.Image, limit string) error {
		d := credits(milli)
		d.Limit = limit
		return errOf(k.Adjust(k.Context(), &store.Adjust{Bucket: theBucket, Seen: seen, Deltas: []store.Delta{d}}))
	}},
	{"SetLimits of a resource", func(k *kit, _ *store.Image, limit string) error {
		return k.SetLimits(k.Context(), levels[2], []store.Limit{limiter.PerMinute("rpm", 1), limiter.PerMinute(limit, 1)})
	}},
	{"SetLimits of an entity", func(k *kit, _ *store.Image, limit string) error {
		return k.SetLimits(k.Context(), levels[0], []store.Limit{limiter.PerMinute(limit, 1)})
	}},
	{"SetSystem", func(k *kit, _ *store.Image, limit string) error {
		return k.SetSystem(k.Context(), []store.Limit{limiter.PerMinute(limit, 1)}, store.Block)
	}},
}

// refillEntrance is a refill that changes the limit in some way.
func refillEntrance(does string, kind store.ChangeKind) entrance {
	return entrance{"Refill that " + does, func(k *kit, seen *store.Image, limit string) error {
		return errOf(k.Refill(k.Context(), refill(seen, keep("rpm", milli, 0), store.Change{Limit: limit, Kind: kind, Params: rpm})))
	}}
}

var invalidTests = []test{
	{"bad entities", func(k *kit) {
		for _, c := range bucketCalls {
			for _, entity := range badEntities {
				// In a Load, an empty entity means the resource's own.
				if entity == "" && strings.HasPrefix(c.name, "Load") {
					continue
				}
				if err := c.run(k.Context(), k, store.Bucket{Entity: entity, Resource: theBucket.Resource}); !errors.Is(err, store.ErrInvalid) {
					k.Errorf("%s: entity %.20q: %v, want %v", c.name, entity, err, store.ErrInvalid)
				}
			}
		}
	}},
	{"bad resources", func(k *kit) {
		for _, c := range bucketCalls {
			for _, resource := range badResources {
				if strings.HasPrefix(c.name, "Load") && (resource == "" || resource == store.DefaultResource) {
					continue
				}
				if err := c.run(k.Context(), k, store.Bucket{Entity: theBucket.Entity, Resource: resource}); !errors.Is(err, store.ErrInvalid) {
					k.Errorf("%s: resource %.20q: %v, want %v", c.name, resource, err, store.ErrInvalid)
				}
			}
		}
	}},
	{"bad limit names", func(k *kit) {
		img := k.create(k.newBucket())
		for _, limit := range []string{"", "rpm\n", "a#b", "4rpm", hidden, "é"} {
			for _, e := range entrances {
				err := e.run(k, img, limit)
				bad := (*store.ValidationError)(nil)
				if !errors.As(err, &bad) || bad.Field != "limit name" || bad.Value != limit || bad.Reason == "" {
					k.Errorf("%s: limit %q: %v, want what is wrong with the limit name", e.name, limit, err)
				}
			}
		}
		k.stored(theBucket, img)
		k.loads(&store.Load{Configs: levels}, &store.Loaded{Configs: make([]*store.Config, len(levels))})
	}},
	{"an entity's configuration without a resource", func(k *kit) {
		err := errOf(k.Load(k.Context(), &store.Load{Configs: []store.ConfigKey{{Entity: "user-1"}}}))
		if !errors.Is(err, store.ErrInvalid) {
			k.Errorf("got %v, want %v", err, store.ErrInvalid)
		}
	}},
	{"contexts already done", func(k *kit) {
		img := k.create(k.newBucket())
		cancelled, cancel := context.WithCancel(k.Context())
		cancel()
		expired, cancel := context.WithDeadline(k.Context(), k.Now().Add(-1))
		defer cancel()
		for _, c := range bucketCalls {
			b := theBucket
			if c.name == "Create" {
				b.Shard = 1
			}
			if err := c.run(cancelled, k, b); !errors.Is(err, context.Canceled) {
				k.Errorf("%s, cancelled: %v, want %v", c.name, err, context.Canceled)
			}
			err := c.run(expired, k, b)
			if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				k.Errorf("%s, past its deadline: %v, want %v and %v", c.name, err, store.ErrUnavailable, context.DeadlineExceeded)
			}
		}
		k.stored(theBucket, img)
	}},
}
