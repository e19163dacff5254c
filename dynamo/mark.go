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
	// markPasses is how often a bucket is read. Each further pass follows a change by others.
	markPasses = 12
	// markAttempts is how often a mark is sent again that met a conflict, or was throttled.
	markAttempts = 8
	markBackoff  = 50 * time.Millisecond // doubled for each attempt; the wait is drawn from 0 up to it
)

// A marking makes the buckets below a level follow what holds for each of them: their switches
// (ADR 045), or their owners (ADR 049).
//
//	operator  ── disables the level ─▶ reads the switches ───── marks each item ─▶ reads them again
//	another   ────────── enables the level ─▶ reads the switches ─▶ removes the marks ─▶ …
//
// Two operators may mark an item in another order than they changed the level. So whoever has
// marked a bucket reads its switches again, and marks it again if they have changed: the last
// write to an item is followed by a read that comes after both changes.
type marking struct {
	store    *Store
	follow   func(context.Context, store.Bucket) marked
	progress func(Switched)

	mu    sync.Mutex
	found map[store.Bucket]marked // by shard 0: what became of those that exist
	count Switched
	errs  []error
}

// markAll makes the buckets below a level follow, and counts them in reached. It searches for them
// twice, and settles before the second time if buckets that are being created must not be missed.
func (s *Store) markAll(ctx context.Context, k store.ConfigKey, settles bool, follow func(context.Context, store.Bucket) marked, reached Switched, progress func(Switched)) (Switched, error) {
	m := &marking{store: s, follow: follow, progress: progress, found: map[store.Bucket]marked{}, count: reached}
	for again := range 2 {
		if again > 0 && settles {
			if err := conn.Sleep(ctx, settling); err != nil {
				m.failed(s.conn.Translate("wait for buckets that are being created", err))
				break
			}
		}
		m.search(ctx, k)
	}
	if err := errors.Join(m.errs...); err != nil {
		return m.count, &store.IncompleteError{Entity: k.Entity, Resource: k.Resource, Reached: m.count.Reached, Of: len(m.found), Err: err}
	}
	return m.count, nil
}

// search marks the buckets below a level. It ends with the first bucket that cannot be marked.
func (m *marking) search(ctx context.Context, k store.ConfigKey) {
	var work sync.WaitGroup
	places := make(chan struct{}, markers)
	err := m.store.bucketsBelow(ctx, k, func(b store.Bucket) error {
		places <- struct{}{}
		if m.hasFailed() {
			return conn.ErrStop
		}
		work.Go(func() {
			defer func() { <-places }()
			m.end(b, m.follow(ctx, b))
		})
		return nil
	})
	work.Wait()
	m.failed(err)
}

// end counts a bucket, once in both searches.
func (m *marking) end(b store.Bucket, is marked) {
	b.Shard = 0
	m.mu.Lock()
	defer m.mu.Unlock()
	was, again := m.found[b]
	if is.err != nil {
		m.errs = append(m.errs, is.err)
	}
	if is.err == nil && !is.exists {
		return
	}
	if m.found[b] = is; is.err != nil {
		return
	}
	if is.changed && !was.changed {
		m.count.Changed++
	}
	if again {
		return
	}
	m.count.Reached++
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

// CountBuckets counts the buckets that a switch or a cascade policy of a level concerns; those of
// an entity for every resource follow its parent, too. The indexes that it reads lag behind.
func (s *Store) CountBuckets(ctx context.Context, k store.ConfigKey) (n int, err error) {
	if err := checkLevel(k); err != nil {
		return 0, err
	}
	err = s.bucketsBelow(ctx, k, func(store.Bucket) error { n++; return nil })
	return n, err
}

// bucketsBelow yields the buckets that a level of an entity or a resource concerns, each once. As
// [Store.bucketsOf], it names their last shards.
func (s *Store) bucketsBelow(ctx context.Context, k store.ConfigKey, yield func(store.Bucket) error) error {
	var err error
	if k.Entity == "" {
		err = s.bucketsFor(ctx, k.Resource, yield)
	} else {
		var buckets []store.Bucket
		buckets, err = s.bucketsOf(ctx, k)
		if k.Resource != store.DefaultResource && len(buckets) == 0 {
			buckets = append(buckets, store.Bucket{Entity: k.Entity, Resource: k.Resource}) // the index may not show it yet
		}
		for _, b := range buckets {
			err = cmp.Or(err, yield(b))
		}
	}
	if errors.Is(err, conn.ErrStop) {
		return nil
	}
	return err
}

// bucketsFor yields the buckets of a resource. The index has the shards of an entity side by side.
func (s *Store) bucketsFor(ctx context.Context, resource string, yield func(store.Bucket) error) error {
	var last store.Bucket
	err := s.conn.QueryMerged(ctx, "list buckets for "+resource, schema.GSI2, schema.ResourceIndexPKs(s.ns, resource), schema.BucketIndexPrefix, func(it item) error {
		_, b, ok := schema.ParseBucketPK(schema.KeyOf(it).PK)
		switch {
		case !ok:
			return nil
		case b.Entity == last.Entity:
			last.Shard = max(last.Shard, b.Shard)
			return nil
		}
		was := last
		if last = b; was.Entity == "" {
			return nil
		}
		return yield(was)
	})
	if err != nil || last.Entity == "" {
		return err
	}
	return yield(last)
}

// A marked is what became of a bucket.
type marked struct {
	exists, changed bool
	err             error
}

// A trait is what the items of a bucket have from elsewhere.
type trait[T any] struct {
	read func(context.Context, store.Bucket) (T, error) // what they are to have, consistently
	has  func(*store.Image, T) bool
	mark func(context.Context, string, store.Bucket, T) error // an item
}

// follow makes the items of a bucket, at least up to the shard that b names, have what they are to
// have. It ends with a read of that, and then of the shards, which finds nothing to change. So
// shards that are made meanwhile of others, which were not marked yet, are found. A shard that is
// made of a marked one has its mark.
func follow[T any](ctx context.Context, s *Store, b store.Bucket, t trait[T]) (m marked) {
	op := fmt.Sprintf("mark the bucket of %s for %s", b.Entity, b.Resource)
	shards := b.Shard + 1
	for range markPasses {
		is, err := t.read(ctx, b)
		if err != nil {
			m.err = err
			return m
		}
		images, err := s.Buckets(ctx, b.Entity, b.Resource, shards)
		if err != nil {
			m.err = err
			return m
		}
		m.exists, shards = m.exists || len(images) > 0, max(shards, len(images))
		differ := slices.DeleteFunc(images, func(img *store.Image) bool { return t.has(img, is) })
		if len(differ) == 0 {
			return m
		}
		for _, img := range differ {
			if m.err = t.mark(ctx, op, img.Bucket, is); m.err != nil {
				return m
			}
			m.changed = true
		}
	}
	m.err = fmt.Errorf("%s: others change its levels, its owner or its shards: %w: try again", op, store.ErrConflict)
	return m
}

// levelsOf reads the levels that may have policies for a bucket, consistently, and its entity's
// record if an entity is given.
func (s *Store) levelsOf(ctx context.Context, b store.Bucket, entity string) (*store.Loaded, error) {
	own := store.ConfigKey{Entity: b.Entity, Resource: b.Resource}
	keys := append([]store.ConfigKey{own}, levelsBelow(own)...)[:store.SwitchLevels]
	return s.Load(ctx, &store.Load{Entity: entity, Configs: keys, Consistent: true})
}

// followSwitches makes a bucket follow the switches that hold for it.
func (s *Store) followSwitches(ctx context.Context, b store.Bucket) marked {
	return follow(ctx, s, b, trait[store.Disabling]{
		read: s.disabling, mark: s.mark,
		has: func(img *store.Image, is store.Disabling) bool {
			return isMarked(img, is, s.conn.Clock.Now().UnixMilli())
		},
	})
}

// isMarked reports whether an item is at an instant as its switches say. The stamp of a bypass
// has not passed, and passes no later than the bypass ends.
func isMarked(img *store.Image, is store.Disabling, now int64) bool {
	switch {
	case img.Disabled != is.Disabled || img.Bypassed != is.Bypassed:
		return false
	case is.Bypassed:
		return img.IsBypassed(now) && (is.Until == 0 || img.MarkedUntil <= is.Until)
	}
	return img.MarkedUntil == is.Until
}

// disabling reads the switches that hold for a bucket.
func (s *Store) disabling(ctx context.Context, b store.Bucket) (is store.Disabling, err error) {
	loaded, err := s.levelsOf(ctx, b, "")
	if err != nil {
		return is, err
	}
	var of store.Switches
	for i, c := range loaded.Configs {
		if c != nil {
			of[i] = c.Disabled
		}
	}
	return of.At(s.conn.Clock.Now().UnixMilli()), nil
}

// mark disables, bypasses or enables an item, whatever it holds:
//
//	SET     disabled; disabled_until, or REMOVE it; REMOVE bypass
//	SET     bypass; REMOVE disabled, disabled_until
//	REMOVE  disabled, disabled_until, bypass
//	if      there is an item
//
// A mark does not move rf: every write to the item is conditional on the mark, or need not know it.
func (s *Store) mark(ctx context.Context, op string, b store.Bucket, is store.Disabling) error {
	in := &dynamodb.UpdateItemInput{
		Key: s.bucketKey(b), ConditionExpression: aws.String("attribute_exists(PK)"),
		UpdateExpression: aws.String("REMOVE disabled, disabled_until, bypass"),
	}
	switch {
	case is.Disabled && is.Until != 0:
		in.UpdateExpression = aws.String("SET disabled = :true, disabled_until = :until REMOVE bypass")
		in.ExpressionAttributeValues = item{":true": schema.Bool(true), ":until": schema.N(is.Until)}
	case is.Disabled:
		in.UpdateExpression = aws.String("SET disabled = :true REMOVE disabled_until, bypass")
		in.ExpressionAttributeValues = item{":true": schema.Bool(true)}
	case is.Bypassed:
		in.UpdateExpression = aws.String("SET bypass = :until REMOVE disabled, disabled_until")
		in.ExpressionAttributeValues = item{":until": schema.N(is.BypassStamp(s.conn.Clock.Now().UnixMilli()))}
	}
	return s.sendMark(ctx, op, in)
}

// sendMark sends the mark of an item, and sends it again after a conflict or a throttle. An item
// that turns the mark away needs none: it is gone, or has a newer one.
func (s *Store) sendMark(ctx context.Context, op string, in *dynamodb.UpdateItemInput) error {
	for attempt := 0; ; attempt++ {
		err := s.conn.UpdateItem(ctx, op, in)
		if _, gone := conn.ConditionFailed(err); err == nil || gone {
			return nil
		}
		// The bucket of somebody who calls too often is throttled just when it is to be marked.
		if busy := errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrConflict); !busy || attempt == markAttempts {
			return err
		}
		if err := conn.Sleep(ctx, conn.Backoff(markBackoff, attempt)); err != nil {
			return s.conn.Translate(op, err)
		}
	}
}
