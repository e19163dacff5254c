package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// Stats are counts since a store was opened.
type Stats struct {
	// Reached counts the buckets to which changes of an entity's limits were applied.
	// Changed counts those among them that were different before. Left counts the
	// buckets left unchanged, because they use a feature that this version cannot
	// evaluate.
	Reached, Changed, Left uint64
}

// counts are the counters behind [Stats].
type counts struct{ reached, changed, left atomic.Uint64 }

// Stats reads the counts.
func (s *Store) Stats() Stats {
	return Stats{Reached: s.counts.reached.Load(), Changed: s.counts.changed.Load(), Left: s.counts.left.Load()}
}

// spread repairs the buckets of an entity to the configuration that holds now: those of
// one level's resource, or all. The levels above an entity have no list of their
// buckets. Those buckets are repaired when a limiter compares them.
//
// It searches for buckets twice. The second search finds a bucket that was made from
// the old configuration during the first one.
func (s *Store) spread(ctx context.Context, k store.ConfigKey) error {
	if k.Entity == "" {
		return nil
	}
	keeper, err := upkeep.NewKeeper(s, process.Options{Logger: s.conn.Log})
	if err != nil {
		return err
	}
	incomplete := &store.IncompleteError{Entity: k.Entity, Resource: k.Resource}
	var done []string
	var errs []error
	for range 2 {
		buckets, err := s.bucketsOf(ctx, k)
		if err != nil {
			errs = append(errs, err)
			break
		}
		for _, b := range buckets {
			if slices.Contains(done, b.Resource) {
				continue
			}
			done = append(done, b.Resource)
			if err := s.configure(ctx, keeper, b); err != nil {
				errs = append(errs, err)
			} else {
				incomplete.Reached++
			}
		}
	}
	errs = append(errs, keeper.Close())
	incomplete.Of = len(done)
	if incomplete.Err = errors.Join(errs...); incomplete.Err != nil {
		return incomplete
	}
	return nil
}

// configure repairs a bucket to its configuration, and counts it.
func (s *Store) configure(ctx context.Context, keeper *upkeep.Keeper, b store.Bucket) error {
	changed, err := keeper.Configure(ctx, b)
	switch {
	case errors.Is(err, store.ErrUnsupported):
		s.counts.left.Add(1)
		s.conn.Log.WarnContext(ctx, "bucket left as it is", "entity", b.Entity, "resource", b.Resource, "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("repair %s of %s to its configuration: %w", b.Resource, b.Entity, err)
	}
	s.counts.reached.Add(1)
	if changed {
		s.counts.changed.Add(1)
	}
	return nil
}

// bucketsOf lists the buckets of an entity that a level of configuration covers. Of each it
// names the last shard: shard 0 may not know of the others, because a peer has made it again.
func (s *Store) bucketsOf(ctx context.Context, k store.ConfigKey) (buckets []store.Bucket, err error) {
	prefix := schema.BucketIndexPrefix
	if k.Resource != store.DefaultResource {
		prefix = schema.ResourceBucketPrefix(k.Resource)
	}
	err = s.conn.Query(ctx, "list buckets of "+k.Entity, conn.IndexQuery(schema.GSI3, schema.EntityPK(s.ns, k.Entity), prefix), func(it item) error {
		_, b, ok := schema.ParseBucketPK(schema.KeyOf(it).PK)
		if !ok {
			return nil
		}
		if i := slices.IndexFunc(buckets, func(has store.Bucket) bool { return has.Resource == b.Resource }); i < 0 {
			buckets = append(buckets, b)
		} else {
			buckets[i].Shard = max(buckets[i].Shard, b.Shard)
		}
		return nil
	})
	return buckets, err
}
