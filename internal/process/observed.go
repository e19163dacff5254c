package process

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Observer is told of every operation of a process's store. Its methods are called on
// the goroutine that carries the operation out.
type Observer interface {
	// BeginOperation is called before an operation. The operation gets the context that
	// it returns.
	BeginOperation(ctx context.Context, op store.Operation) context.Context
	// EndOperation is called after the operation, with that context.
	EndOperation(ctx context.Context, r store.OperationResult)
}

// An observedStore is a store whose operations an observer is told of. It stands below the
// healer, so the observer is also told of the writes that heal.
type observedStore struct {
	store.Store

	observer Observer
	uptime   func() time.Duration
}

// newObserved returns the store, or one that tells an observer if there is one.
func newObserved(s store.Store, o Observer, uptime func() time.Duration) store.Store {
	if o == nil {
		return s
	}
	return &observedStore{s, o, uptime}
}

// observedSlots are the slots of a store, whose operations an observer is told of.
type observedSlots struct {
	slots store.SlotStore
	told  *observedStore
}

// newObservedSlots returns the slots that a store keeps, or such slots if there is an observer. It
// returns nil if the store keeps none.
func newObservedSlots(s store.Store, o Observer, uptime func() time.Duration) store.SlotStore {
	slots, ok := s.(store.SlotStore)
	if !ok || o == nil {
		return slots
	}
	return &observedSlots{slots, &observedStore{s, o, uptime}}
}

// Hold calls the store's Hold, and tells the observer.
func (s *observedSlots) Hold(ctx context.Context, h *store.Hold) (store.SlotOutcome, error) {
	op := store.Operation{Kind: store.OpHold, Bucket: store.Bucket{Entity: h.Entity, Resource: h.Resource}, Items: 1}
	return observed(ctx, s.told, op, func(ctx context.Context) (store.SlotOutcome, error) { return s.slots.Hold(ctx, h) },
		func(r *store.OperationResult, out store.SlotOutcome) { r.Refused = !out.Applied })
}

// Slots calls the store's Slots, and tells the observer.
func (s *observedSlots) Slots(ctx context.Context, k store.SlotKey) (*store.SlotImage, error) {
	op := store.Operation{Kind: store.OpSlots, Bucket: store.Bucket{Entity: k.Entity, Resource: k.Resource}}
	return observed(ctx, s.told, op, func(ctx context.Context) (*store.SlotImage, error) { return s.slots.Slots(ctx, k) },
		func(*store.OperationResult, *store.SlotImage) {})
}

// observedOnce is a store that settles once, whose settlements an observer is told of.
type observedOnce struct {
	store.OnceStore

	told *observedStore
}

// newObservedOnce returns the store as one that settles once, or nil if it is none.
func newObservedOnce(s store.Store, o Observer, uptime func() time.Duration) store.OnceStore {
	once, ok := s.(store.OnceStore)
	if !ok || o == nil {
		return once
	}
	return &observedOnce{once, &observedStore{s, o, uptime}}
}

// SettleOnce calls the store's SettleOnce, and tells the observer.
func (s *observedOnce) SettleOnce(ctx context.Context, t *store.Settlement) (store.SettledOnce, error) {
	op := store.Operation{Kind: store.OpSettle, Bucket: t.Record.Bucket, Items: len(t.Writes)}
	return observed(ctx, s.told, op, func(ctx context.Context) (store.SettledOnce, error) { return s.OnceStore.SettleOnce(ctx, t) },
		func(r *store.OperationResult, out store.SettledOnce) { r.Refused = !out.Applied })
}

// observed carries an operation out, and tells the observer. note adds to the result what
// the answer shows.
func observed[T any](ctx context.Context, s *observedStore, op store.Operation, do func(context.Context) (T, error), note func(*store.OperationResult, T)) (T, error) {
	var bill store.Bill
	ctx = s.observer.BeginOperation(ctx, op)
	began := s.uptime()
	answer, err := do(store.WithBill(ctx, &bill))
	r := store.OperationResult{Operation: op, Err: err, Latency: s.uptime() - began, Cost: bill.Cost()}
	if err == nil {
		note(&r, answer)
	}
	s.observer.EndOperation(ctx, r)
	return answer, err
}

func noteOutcome(r *store.OperationResult, out store.Outcome) {
	r.Refused = !out.Applied
	if out.Image != nil {
		r.ShardCount = out.Image.ShardCount
	}
}

func noteJoint(r *store.OperationResult, joint store.Joint) { r.Refused = !joint.Applied }

// Take and the methods below call the store's, and tell the observer.
func (s *observedStore) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	return observed(ctx, s, store.Operation{Kind: store.OpTake, Bucket: t.Bucket, Items: 1},
		func(ctx context.Context) (store.Outcome, error) { return s.Store.Take(ctx, t) }, noteOutcome)
}

// Refill calls the store's Refill.
func (s *observedStore) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	return observed(ctx, s, store.Operation{Kind: store.OpRefill, Bucket: r.Bucket, Items: 1},
		func(ctx context.Context) (store.Outcome, error) { return s.Store.Refill(ctx, r) }, noteOutcome)
}

// Create calls the store's Create.
func (s *observedStore) Create(ctx context.Context, c *store.Create) (store.Outcome, error) {
	return observed(ctx, s, store.Operation{Kind: store.OpCreate, Bucket: c.Bucket, Items: 1},
		func(ctx context.Context) (store.Outcome, error) { return s.Store.Create(ctx, c) }, noteOutcome)
}

// Adjust calls the store's Adjust.
func (s *observedStore) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	return observed(ctx, s, store.Operation{Kind: store.OpAdjust, Bucket: a.Bucket, Items: 1},
		func(ctx context.Context) (store.Outcome, error) { return s.Store.Adjust(ctx, a) }, noteOutcome)
}

// Bear calls the store's Bear.
func (s *observedStore) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	op := store.Operation{Kind: store.OpBear, Bucket: b.Bucket, Items: 1}
	if b.Donor != nil {
		op.Items++
	}
	return observed(ctx, s, op, func(ctx context.Context) (store.Joint, error) { return s.Store.Bear(ctx, b) },
		func(r *store.OperationResult, joint store.Joint) {
			if noteJoint(r, joint); joint.Applied {
				r.ShardCount = b.ShardCount
			}
		})
}

// Gather calls the store's Gather.
func (s *observedStore) Gather(ctx context.Context, rs []*store.Refill) (store.Joint, error) {
	op := store.Operation{Kind: store.OpGather, Items: len(rs)}
	if len(rs) > 0 {
		op.Bucket = rs[0].Bucket
	}
	return observed(ctx, s, op, func(ctx context.Context) (store.Joint, error) { return s.Store.Gather(ctx, rs) }, noteJoint)
}

// Merge calls the store's Merge.
func (s *observedStore) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	op := store.Operation{Kind: store.OpMerge, Items: 2 * len(pairs)}
	if len(pairs) > 0 {
		op.Bucket = pairs[0].Survivor.Bucket
	}
	return observed(ctx, s, op, func(ctx context.Context) (store.Joint, error) { return s.Store.Merge(ctx, pairs) },
		func(r *store.OperationResult, joint store.Joint) {
			if noteJoint(r, joint); joint.Applied {
				r.ShardCount = len(pairs)
			}
		})
}

// Buckets calls the store's Buckets.
func (s *observedStore) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	op := store.Operation{Kind: store.OpBuckets, Bucket: store.Bucket{Entity: entity, Resource: resource}}
	return observed(ctx, s, op, func(ctx context.Context) ([]*store.Image, error) {
		return s.Store.Buckets(ctx, entity, resource, shards)
	},
		func(r *store.OperationResult, images []*store.Image) {
			if len(images) > 0 {
				r.ShardCount = plan.CountOf(images)
			}
		})
}

// Load calls the store's Load.
func (s *observedStore) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	return observed(ctx, s, store.Operation{Kind: store.OpLoad, Bucket: loadedBucket(l)},
		func(ctx context.Context) (*store.Loaded, error) { return s.Store.Load(ctx, l) },
		func(r *store.OperationResult, loaded *store.Loaded) {
			r.Keys, r.Configs = l.Configs, loaded.Configs
			if loaded.Image != nil {
				r.ShardCount = loaded.Image.ShardCount
			}
		})
}

// loadedBucket returns the bucket that a load is for: its own, or the one whose levels it
// reads.
func loadedBucket(l *store.Load) store.Bucket {
	if l.Bucket != nil {
		return *l.Bucket
	}
	b := store.Bucket{Entity: l.Entity}
	for _, k := range l.Configs {
		if b.Entity == "" {
			b.Entity = k.Entity
		}
		if b.Resource == "" && k.Resource != store.DefaultResource {
			b.Resource = k.Resource
		}
	}
	return b
}
