package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// settling is how long after a level was disabled its buckets are searched again. A
	// bucket whose creator has read the configuration just before exists by then, and the
	// indexes show it.
	settling = time.Second
	// markers is how many buckets are marked at once.
	markers = 8
)

// A marking makes the buckets below a level follow the switches that hold for each of them
// (ADR 045):
//
//	operator  ── disables the level ─▶ reads the switches, marks each item ─▶ reads them again
//	another   ─────────── enables the level ─▶ reads the switches, removes the marks ─▶ …
//
// Two operators may mark an item in another order than they changed the level. So whoever has
// marked a bucket reads its switches again, and marks it again if they have changed: the last
// one to write to the item is followed by a read that comes after both changes.
type marking struct {
	store    *Store
	progress func(Switched)

	mu    sync.Mutex
	done  map[store.Bucket]bool // of shard 0: buckets that exist, and follow
	found int
	count Switched
	errs  []error
}

// markAll marks the buckets below a level, which are searched for twice.
func (s *Store) markAll(ctx context.Context, k store.ConfigKey, to store.Policy, progress func(Switched)) (Switched, error) {
	m := &marking{store: s, progress: progress, done: map[store.Bucket]bool{}}
	for again := range 2 {
		if again > 0 && to == store.Yes {
			if err := conn.Sleep(ctx, settling); err != nil {
				m.failed(s.conn.Translate("wait for buckets that are being created", err))
				break
			}
		}
		m.search(ctx, k)
	}
	if err := errors.Join(m.errs...); err != nil {
		return m.count, &store.IncompleteError{Entity: k.Entity, Resource: k.Resource, Reached: m.count.Reached, Of: m.found, Err: err}
	}
	return m.count, nil
}

// search marks the buckets below a level that do not follow yet. It ends with the first
// bucket that cannot be marked.
func (m *marking) search(ctx context.Context, k store.ConfigKey) {
	var work sync.WaitGroup
	places := make(chan struct{}, markers)
	err := m.store.bucketsBelow(ctx, k, func(b store.Bucket) error {
		if m.isDone(b) {
			return nil
		}
		places <- struct{}{}
		if m.hasFailed() {
			return conn.ErrStop
		}
		work.Go(func() {
			defer func() { <-places }()
			m.end(b, m.store.markBucket(ctx, b))
		})
		return nil
	})
	work.Wait()
	m.failed(err)
}

// isDone reports whether a bucket follows already.
func (m *marking) isDone(b store.Bucket) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done[b]
}

// end counts a bucket.
func (m *marking) end(b store.Bucket, is marked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case is.err != nil:
		m.found++
		m.errs = append(m.errs, is.err)
		return
	case !is.exists:
		return
	}
	m.found++
	m.done[b] = true
	m.count.Reached++
	if is.changed {
		m.count.Changed++
	}
	if m.progress != nil {
		m.progress(m.count)
	}
}

func (m *marking) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.errs = append(m.errs, err)
	}
}

func (m *marking) hasFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.errs) > 0
}

// CountBuckets counts the buckets that a switch of a level concerns. The indexes that it reads
// lag behind.
func (s *Store) CountBuckets(ctx context.Context, k store.ConfigKey) (n int, err error) {
	if err := checkLevel(k); err != nil {
		return 0, err
	}
	err = s.bucketsBelow(ctx, k, func(store.Bucket) error { n++; return nil })
	return n, err
}

// bucketsBelow yields the buckets that a level of an entity or a resource concerns, each once.
func (s *Store) bucketsBelow(ctx context.Context, k store.ConfigKey, yield func(store.Bucket) error) error {
	if k.Entity == "" {
		var last string // the index has the shards of an entity side by side
		op := "list buckets for " + k.Resource
		return s.conn.QueryMerged(ctx, op, schema.GSI2, schema.ResourceIndexPKs(s.ns, k.Resource), schema.BucketIndexPrefix, func(it item) error {
			_, b, ok := schema.ParseBucketPK(schema.KeyOf(it).PK)
			if !ok || b.Entity == last {
				return nil
			}
			last = b.Entity
			return yield(store.Bucket{Entity: b.Entity, Resource: k.Resource})
		})
	}
	resources, err := s.bucketResources(ctx, k)
	if k.Resource != store.DefaultResource && !slices.Contains(resources, k.Resource) {
		resources = append(resources, k.Resource) // the index may not show it yet
	}
	for _, resource := range resources {
		err = cmp.Or(err, yield(store.Bucket{Entity: k.Entity, Resource: resource}))
	}
	if errors.Is(err, conn.ErrStop) {
		return nil
	}
	return err
}

// A marked is what became of a bucket.
type marked struct {
	exists, changed bool
	err             error
}

// markBucket makes the items of a bucket follow the switches that hold for it.
func (s *Store) markBucket(ctx context.Context, b store.Bucket) (m marked) {
	op := fmt.Sprintf("mark the bucket of %s for %s", b.Entity, b.Resource)
	for range conn.AdminAttempts {
		is, err := s.disabling(ctx, b)
		if err != nil {
			m.err = err
			return m
		}
		now := s.markShards(ctx, op, b, is)
		m.exists, m.changed, m.err = now.exists, m.changed || now.changed, now.err
		if now.err != nil || !now.changed {
			return m
		}
		again, err := s.disabling(ctx, b)
		if m.err = err; err != nil || again.Disabled == is.Disabled && again.Until == is.Until {
			return m
		}
	}
	m.err = fmt.Errorf("%s: others change its switches: %w: try again", op, store.ErrConflict)
	return m
}

// disabling reads the switches that hold for a bucket.
func (s *Store) disabling(ctx context.Context, b store.Bucket) (store.Disabling, error) {
	own := store.ConfigKey{Entity: b.Entity, Resource: b.Resource}
	keys := append([]store.ConfigKey{own}, levelsBelow(own)...)[:store.SwitchLevels]
	loaded, err := s.Load(ctx, &store.Load{Configs: keys, Consistent: true})
	if err != nil {
		return store.Disabling{}, err
	}
	var of store.Switches
	for i, c := range loaded.Configs {
		if c != nil {
			of[i] = c.Disabled
		}
	}
	return of.At(s.conn.Clock.Now().UnixMilli()), nil
}

// markShards marks the shards of a bucket that are different. A shard may be made meanwhile
// of one that was not marked yet. The sibling then has a larger number of shards, which the
// sibling's mark shows: the shards are read again up to that number. A marked shard makes
// no other.
func (s *Store) markShards(ctx context.Context, op string, b store.Bucket, is store.Disabling) (m marked) {
	for shards := 1; ; {
		images, err := s.Buckets(ctx, b.Entity, b.Resource, shards)
		if err != nil {
			m.err = err
			return m
		}
		m.exists = len(images) > 0
		shards = max(shards, len(images))
		most := shards
		for _, img := range images {
			most = max(most, img.ShardCount)
			if img.Disabled == is.Disabled && (!is.Disabled || img.DisabledUntil == is.Until) {
				continue
			}
			after, err := s.mark(ctx, op, img.Bucket, is)
			if err != nil {
				m.err = err
				return m
			}
			m.changed, most = true, max(most, after)
		}
		if most <= shards {
			return m
		}
		shards = most
	}
}

// mark disables or enables an item, whatever it holds:
//
//	SET     disabled; disabled_until, or REMOVE it
//	REMOVE  disabled, disabled_until
//	if      there is an item
//
// It returns the number of shards of the item, 0 if there is none. A mark moves no stamp:
// every write to the item is conditional on the mark.
func (s *Store) mark(ctx context.Context, op string, b store.Bucket, is store.Disabling) (shards int, err error) {
	in := &dynamodb.UpdateItemInput{
		TableName: s.conn.Table, Key: s.bucketKey(b), ConditionExpression: aws.String("attribute_exists(PK)"),
		UpdateExpression: aws.String("REMOVE disabled, disabled_until"), ReturnValues: types.ReturnValueAllNew,
	}
	switch {
	case is.Disabled && is.Until != 0:
		in.UpdateExpression = aws.String("SET disabled = :true, disabled_until = :until")
		in.ExpressionAttributeValues = item{":true": schema.Bool(true), ":until": schema.N(is.Until)}
	case is.Disabled:
		in.UpdateExpression = aws.String("SET disabled = :true REMOVE disabled_until")
		in.ExpressionAttributeValues = item{":true": schema.Bool(true)}
	}
	for attempt := 0; ; attempt++ {
		out, err := conn.Call(ctx, s.conn, op, s.conn.API.UpdateItem, in)
		if _, gone := conn.ConditionFailed(err); gone {
			return 0, nil
		}
		if err == nil {
			img, err := schema.DecodeBucket(out.Attributes)
			if err != nil {
				return 0, err
			}
			return img.ShardCount, nil
		}
		// The bucket of somebody who calls too often is throttled just when it is to be disabled.
		if busy := errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrConflict); !busy || attempt == markAttempts {
			return 0, err
		}
		if err := conn.Sleep(ctx, conn.Backoff(markBackoff, attempt)); err != nil {
			return 0, s.conn.Translate(op, err)
		}
	}
}

const (
	markAttempts = 8
	markBackoff  = 50 * time.Millisecond // doubled for each attempt; the wait is drawn from 0 up to it
)
