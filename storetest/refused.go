package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Names that must not get near a key.
var (
	badEntities  = []string{"", "a#b", "user-1\n", "\nuser-1", "-a", ".a", "a b", "a/b", "é", "a\x00", strings.Repeat("a", 257)}
	badResources = []string{"", "a#b", "gpt-4\n", "4gpt", "_a", "_default_", "a b", "a@b", "é", "a\x00", strings.Repeat("a", 65)}
)

// A call is an operation of a store on a bucket.
type call struct {
	name string
	run  func(context.Context, *kit, limiter.Bucket) error
}

func errOf[T any](_ T, err error) error { return err }

// bucketCalls are the operations that name a bucket; each would succeed.
var bucketCalls = []call{
	{"Take", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		return errOf(k.Take(ctx, &limiter.Take{Bucket: b, Now: k.now, Debits: debitsOf(limiter.Amount{Limit: "rpm", Milli: milli})}))
	}},
	{"Refill", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		r := refill(imageOf(k.newBucket()), keep("rpm", milli, 0))
		r.Bucket = b
		return errOf(k.Refill(ctx, r))
	}},
	{"Create", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		c := k.newBucket()
		c.Bucket = b
		return errOf(k.Create(ctx, c))
	}},
	{"Adjust", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		return errOf(k.Adjust(ctx, &limiter.Adjust{Bucket: b, Seen: imageOf(k.newBucket()), Deltas: []limiter.Delta{debits("rpm", milli)}}))
	}},
	{"Buckets", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		return errOf(k.Buckets(ctx, b.Entity, b.Resource, 1))
	}},
	{"Read of a bucket", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		return errOf(k.Load(ctx, &limiter.Load{Bucket: &b}))
	}},
	{"Load of a configuration", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		return errOf(k.Load(ctx, &limiter.Load{Configs: []limiter.ConfigKey{{}, {Entity: b.Entity, Resource: b.Resource}}}))
	}},
	{"Load of a record", func(ctx context.Context, k *kit, b limiter.Bucket) error {
		return errOf(k.Load(ctx, &limiter.Load{Entity: b.Entity, Configs: []limiter.ConfigKey{{Resource: b.Resource}}}))
	}},
}

var refusedTests = []test{
	{"bad entities", func(k *kit) {
		for _, c := range bucketCalls {
			for _, entity := range badEntities {
				// In a Load, no entity means the resource's own.
				if entity == "" && strings.HasPrefix(c.name, "Load") {
					continue
				}
				if err := c.run(k.Context(), k, limiter.Bucket{Entity: entity, Resource: theBucket.Resource}); !errors.Is(err, limiter.ErrInvalid) {
					k.Errorf("%s: entity %.20q: %v, want %v", c.name, entity, err, limiter.ErrInvalid)
				}
			}
		}
	}},
	{"bad resources", func(k *kit) {
		for _, c := range bucketCalls {
			for _, resource := range badResources {
				if strings.HasPrefix(c.name, "Load") && (resource == "" || resource == limiter.DefaultResource) {
					continue
				}
				if err := c.run(k.Context(), k, limiter.Bucket{Entity: theBucket.Entity, Resource: resource}); !errors.Is(err, limiter.ErrInvalid) {
					k.Errorf("%s: resource %.20q: %v, want %v", c.name, resource, err, limiter.ErrInvalid)
				}
			}
		}
	}},
	{"bad limit names", func(k *kit) {
		img := k.create(k.newBucket())
		for _, limit := range []string{"", "rpm\n", "a#b", "4rpm", "wcu", "é"} {
			c := k.newBucket()
			c.Shard, c.Limits[0].Limit = 1, limit
			for op, err := range map[string]error{
				"Take":   errOf(k.Take(k.Context(), &limiter.Take{Bucket: theBucket, Now: k.now, Debits: debitsOf(limiter.Amount{Limit: limit})})),
				"Refill": errOf(k.Refill(k.Context(), refill(img, keep(limit, milli, 0)))),
				"Create": errOf(k.Create(k.Context(), c)),
				"Adjust": errOf(k.Adjust(k.Context(), &limiter.Adjust{Bucket: theBucket, Seen: img, Deltas: []limiter.Delta{debits(limit, milli)}})),
			} {
				if !errors.Is(err, limiter.ErrInvalid) {
					k.Errorf("%s: limit %q: %v, want %v", op, limit, err, limiter.ErrInvalid)
				}
			}
		}
		k.stored(theBucket, img)
	}},
	{"an entity's configuration without a resource", func(k *kit) {
		err := errOf(k.Load(k.Context(), &limiter.Load{Configs: []limiter.ConfigKey{{Entity: "user-1"}}}))
		if !errors.Is(err, limiter.ErrInvalid) {
			k.Errorf("got %v, want %v", err, limiter.ErrInvalid)
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
			if !errors.Is(err, limiter.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				k.Errorf("%s, past its deadline: %v, want %v and %v", c.name, err, limiter.ErrUnavailable, context.DeadlineExceeded)
			}
		}
		k.stored(theBucket, img)
	}},
}
