package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
		more, err := s.readBuckets(ctx, op, keys, true)
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
	op := "list buckets of " + entity
	keys, err := s.queryKeys(ctx, op, conn.IndexQuery(schema.GSI3, schema.EntityPK(s.ns, entity), schema.BucketIndexPrefix))
	if err != nil {
		return nil, err
	}
	return s.readBuckets(ctx, op, keys, true)
}

// bucketsAtOnce is how many bucket items [Store.ResourceBuckets] reads in one request, and
// so about how many it holds. DynamoDB allows 100.
const bucketsAtOnce = 100

// ResourceBuckets yields every bucket of a resource, or of all resources if it is "", by
// entity: of each bucket, its shards by number. It finds them through an index that lags
// behind: a bucket or shard just made may be missing. It reads the items from the table,
// because the index may project only its keys. These reads are eventually consistent, and
// cost half a read unit for each shard. The index costs half a read unit for each 4 KB of its
// entries, which have about 200 bytes in an index of keys, and 8.5 units at least, for its 17
// partitions. Of an index with all attributes the entries are as large as the items.
//
// It holds up to 1,000 entries of each partition of the index, and about 100 items at a time.
func (s *Store) ResourceBuckets(ctx context.Context, resource string) iter.Seq2[[]*store.Image, error] {
	return func(yield func([]*store.Image, error) bool) {
		b := bucketBatch{store: s, op: "list buckets", yield: yield}
		index, pks := schema.GSI4, schema.NamespaceIndexPKs(s.ns)
		if resource != "" {
			if err := store.CheckResource(resource); err != nil {
				yield(nil, err)
				return
			}
			b.op += " for " + resource
			index, pks = schema.GSI2, schema.ResourceIndexPKs(s.ns, resource)
		}
		err := s.conn.QueryMerged(ctx, b.op, index, pks, schema.BucketIndexPrefix, func(it item) error { return b.add(ctx, schema.KeyOf(it)) })
		if err == nil {
			err = b.flush(ctx)
		}
		if err != nil && !errors.Is(err, conn.ErrStop) {
			yield(nil, err)
		}
	}
}

// A bucketBatch reads the buckets whose keys an index yields, many in one request.
type bucketBatch struct {
	store  *Store
	op     string
	yield  func([]*store.Image, error) bool
	keys   []schema.Key // of whole buckets, except for the last one
	entity string       // whose shards are the last keys
}

// add takes the key of the next shard. The index has the shards of a bucket, and the buckets of
// an entity, side by side: no name has a character that sorts before the separator of the parts.
func (b *bucketBatch) add(ctx context.Context, k schema.Key) error {
	_, id, _ := schema.ParseBucketPK(k.PK) // the item of any other key is corrupt, and says so
	if id.Entity != b.entity && len(b.keys) >= bucketsAtOnce {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.keys, b.entity = append(b.keys, k), id.Entity
	return nil
}

// flush reads the buckets and yields them; [conn.ErrStop] if nobody wants more.
func (b *bucketBatch) flush(ctx context.Context) error {
	images, err := b.store.readBuckets(ctx, b.op, b.keys, false)
	b.keys = b.keys[:0]
	if err != nil {
		return err
	}
	for shards := range wholeBuckets(images) {
		if !b.yield(shards, nil) {
			return conn.ErrStop
		}
	}
	return nil
}

// wholeBuckets yields the images of each bucket. The images are sorted by bucket.
func wholeBuckets(images []*store.Image) iter.Seq[[]*store.Image] {
	return func(yield func([]*store.Image) bool) {
		for len(images) > 0 {
			n := 1
			for n < len(images) && images[n].Entity == images[0].Entity && images[n].Resource == images[0].Resource {
				n++
			}
			if !yield(images[:n:n]) {
				return
			}
			images = images[n:]
		}
	}
}

// readBuckets reads bucket items; it leaves out those that no longer exist.
func (s *Store) readBuckets(ctx context.Context, op string, keys []schema.Key, consistent bool) ([]*store.Image, error) {
	items, err := s.conn.BatchGet(ctx, op, keys, consistent)
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
