package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Buckets reads every existing shard of an entity's bucket for a resource, in order.
// shards is the shard count that the caller expects. Reads are consistent: one request
// if there are that many shards, and another one if there are more. If shard 0 is
// missing, or shards is 0, Buckets finds siblings through the index. The siblings' own
// counts lead to shards that the index does not list yet.
func (s *Store) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	b := store.Bucket{Entity: entity, Resource: resource}
	if err := checkBucket(b); err != nil {
		return nil, err
	}
	op := fmt.Sprintf("read bucket of %s for %s", entity, resource)
	images, asked, err := s.readShards(ctx, op, b, 0, shards)
	if err != nil || len(images) > 0 && images[0].Shard == 0 {
		return images, err
	}
	last := -1
	err = s.conn.Query(ctx, op, conn.IndexQuery(schema.GSI3, schema.EntityPK(s.ns, entity), schema.ResourceBucketPrefix(resource)), func(it item) error {
		if _, named, ok := schema.ParseBucketPK(schema.KeyOf(it).PK); ok {
			last = max(last, named.Shard)
		}
		return nil
	})
	if err != nil || last < asked {
		return images, err
	}
	// The number of shards is a power of two.
	more, _, err := s.readShards(ctx, op, b, asked, 1<<bits.Len(uint(last)))
	if err != nil {
		return nil, err
	}
	return append(images, more...), nil
}

// readShards reads the existing shards of a bucket from number next on. It reads up to
// the largest count in any of them, and at least to the count given. asked is the
// number after the last shard requested.
//
// While a bucket is being doubled, its other shards have a higher shard count than
// shard 0.
func (s *Store) readShards(ctx context.Context, op string, b store.Bucket, next, count int) (images []*store.Image, asked int, err error) {
	for count = min(count, schema.MaxShards); next < count; {
		keys := make([]schema.Key, 0, count-next)
		for ; next < count; next++ {
			b.Shard = next
			keys = append(keys, schema.BucketKey(s.ns, b))
		}
		more, err := s.readBuckets(ctx, op, keys)
		if err != nil {
			return nil, next, err
		}
		for _, img := range more {
			count = max(count, img.ShardCount)
		}
		images = append(images, more...)
	}
	return images, next, nil
}

// EntityBuckets reads every bucket of an entity, by resource and shard. It finds them
// through an index that lags behind: a bucket just made may be missing.
func (s *Store) EntityBuckets(ctx context.Context, entity string) ([]*store.Image, error) {
	if err := store.CheckEntity(entity); err != nil {
		return nil, err
	}
	return s.indexedBuckets(ctx, "list buckets of "+entity, schema.GSI3, schema.EntityPK(s.ns, entity), schema.BucketIndexPrefix)
}

// ResourceBuckets reads every bucket of a resource, by entity and shard. It finds them
// through an index that lags behind: a bucket just made may be missing.
func (s *Store) ResourceBuckets(ctx context.Context, resource string) ([]*store.Image, error) {
	if err := store.CheckResource(resource); err != nil {
		return nil, err
	}
	return s.indexedBuckets(ctx, "list buckets for "+resource, schema.GSI2, schema.ResourcePK(s.ns, resource), schema.BucketIndexPrefix)
}

// indexedBuckets reads the buckets that an index lists. It reads the items from the
// table, because an index may project only its keys, and lags behind.
func (s *Store) indexedBuckets(ctx context.Context, op, index, pk, prefix string) ([]*store.Image, error) {
	var keys []schema.Key
	err := s.conn.Query(ctx, op, conn.IndexQuery(index, pk, prefix), func(it item) error {
		keys = append(keys, schema.KeyOf(it))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return s.readBuckets(ctx, op, keys)
}

// readBuckets reads bucket items consistently; it leaves out those that no longer
// exist.
func (s *Store) readBuckets(ctx context.Context, op string, keys []schema.Key) ([]*store.Image, error) {
	items, err := s.conn.BatchGet(ctx, op, keys, true)
	if err != nil {
		return nil, err
	}
	images := make([]*store.Image, 0, len(items))
	for _, it := range items {
		img, err := schema.DecodeBucket(it)
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	slices.SortFunc(images, func(a, b *store.Image) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Shard, b.Shard))
	})
	return images, nil
}
