package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A TopQuery asks for the most used limits.
type TopQuery struct {
	// Resource is the resource; "" means all of the namespace.
	Resource string
	// Most is how many balances to return, 1 to [MaxTop].
	Most int
	// WithoutParent leaves out entities that have a parent, so that the capacity of whole
	// projects shows. It goes by what buckets have copied of the entity's record.
	WithoutParent bool
	// Shadow asks for limits in [Shadow] that would have refused something: those that would have
	// refused most tokens first, see [Balance.Shadowed].
	Shadow bool
}

// Top returns the balances of a resource that are nearest to their limits, the most
// used first: those with the largest [Balance.Used]. Top looks at every bucket of the
// resource, at all shards of each, and at each of its limits on its own. So an entity with
// two limits may occur twice.
//
// Balances are those at the time when their bucket was read, with the parameters that the
// bucket has. A change of configuration shows once an acquire has met it. A bucket that
// uses a feature which this version cannot evaluate is left out.
//
// Top reads all buckets of the resource, page after page, and holds one page of them. On
// DynamoDB that costs half a read unit for each shard, and about half for every 20 shards
// of the index. [Options.Timeout] does not bound Top: give the context a deadline. Top ends
// when the limiter is closed, with [ErrClosed]. It writes nothing.
//
// The store must be a [BucketLister], as dynamo.Store is.
func (l *Limiter) Top(ctx context.Context, q TopQuery) ([]Balance, error) {
	lister := l.driver.Lister
	if lister == nil {
		return nil, cannotList(l.driver.Store, "buckets: use a store.BucketLister")
	}
	return topOf(ctx, l, "find the most used limits", q, lister.ResourceBuckets, q.compare(), func(ctx context.Context, top *ranking[Balance], shards []*store.Image) error {
		return l.rank(ctx, top, shards, q)
	})
}

// cannotList is the error of a store that cannot list what is named.
func cannotList(s store.Store, what string) error {
	return &ValidationError{Field: "store", Value: fmt.Sprintf("%T", s), Reason: "it cannot list " + what + ", dynamo.Store for instance"}
}

// topOf ranks what a store lists of a resource, and returns what compare puts first. rank adds what
// one of the listed has.
func topOf[L, R any](
	ctx context.Context, l *Limiter, op string, q TopQuery, list func(context.Context, string) iter.Seq2[L, error],
	compare func(a, b R) int, rank func(context.Context, *ranking[R], L) error,
) ([]R, error) {
	p := l.driver.Process
	if q.Most < 1 || q.Most > MaxTop {
		return nil, &ValidationError{Field: "most", Value: strconv.Itoa(q.Most), Reason: fmt.Sprintf("give 1 to %d", MaxTop)}
	}
	if q.Resource != "" {
		if err := store.CheckResource(q.Resource); err != nil {
			return nil, err
		}
		op += " of " + q.Resource
	}
	if !p.Begin() {
		return nil, fmt.Errorf("%s: %w", op, ErrClosed)
	}
	defer p.End()
	ctx, stop := untilClosing(ctx, p)
	defer stop()
	top := ranking[R]{n: q.Most, compare: compare}
	for listed, err := range list(ctx, q.Resource) {
		if err == nil {
			err = rank(ctx, &top, listed)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, process.OutOfTime(ctx, op)
		default:
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	return top.sorted(), nil
}

// TopSlots returns who holds the slots of a resource that are nearest to their limits, the most
// used first: those with the largest [SlotUse.Used]. Slots of which none is held or waited for are
// left out.
//
// TopSlots reads the slots that were held within a day, page after page, and the configuration of
// those who hold some now. On DynamoDB that costs half a read unit for each limit of an entity, and
// about half for every 20 of the index, of the whole namespace. It ends as [Limiter.Top] does, and
// writes nothing.
//
// The store must be a [store.SlotLister], as dynamo.Store is.
func (l *Limiter) TopSlots(ctx context.Context, q TopQuery) ([]SlotUse, error) {
	lister := l.driver.SlotLister
	if lister == nil {
		return nil, cannotList(l.driver.Store, "slots: use a store.SlotLister")
	}
	return topOf(ctx, l, "find the most used slots", q, lister.ResourceSlots, compareUses, func(ctx context.Context, top *ranking[SlotUse], img *store.SlotImage) error {
		if img.Used == 0 && len(img.Holdings) == 0 {
			return nil
		}
		w, _, err := l.driver.Config.Resolve(ctx, img.Entity, img.Resource, nil)
		if err != nil {
			return fmt.Errorf("read the configuration of %s for %s: %w", img.Resource, img.Entity, err)
		}
		if !q.WithoutParent || w.Owner.Parent == "" {
			top.add(l.slotUse(img.SlotKey, w, img))
		}
		return nil
	})
}

// compareUses says which of two is nearer to its limit.
func compareUses(a, b SlotUse) int {
	return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held),
		strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Limit.Name, b.Limit.Name))
}

// untilClosing returns a context that also ends when a process begins to close. The caller
// must call stop, which waits.
func untilClosing(ctx context.Context, p *process.Process) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-p.Closing():
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(errors.New("the work is done"))
		wait.Wait()
	}
}

// rank adds the balances of a bucket to a ranking. The index that led to the shards may lag
// behind a change of their number; then rank reads the bucket itself.
func (l *Limiter) rank(ctx context.Context, top *ranking[Balance], shards []*store.Image, q TopQuery) error {
	if len(shards) == 0 {
		return nil
	}
	b := shards[0].Bucket
	if !plan.IsWhole(shards) {
		var err error
		if shards, err = l.driver.Store.Buckets(ctx, b.Entity, b.Resource, plan.CountOf(shards)); err != nil {
			return err
		}
	}
	if q.WithoutParent && slices.ContainsFunc(shards, func(img *store.Image) bool { return img.Parent != "" }) {
		return nil
	}
	c := &acquire.Claim{Bucket: b}
	names := map[string]bool{}
	for _, img := range shards {
		if !img.IsEvaluable() {
			return nil
		}
		for i := range img.Limits {
			if name := img.Limits[i].Name; !names[name] {
				names[name] = true
				c.Terms.Amounts = append(c.Terms.Amounts, store.Amount{Limit: name, Milli: milli})
			}
		}
	}
	for _, balance := range balancesOf(c, plan.WholeSet(shards), l.driver.Now()) {
		if !q.Shadow || balance.Shadowed != 0 {
			top.add(balance)
		}
	}
	return nil
}

// compare says which of two balances the query puts first.
func (q TopQuery) compare() func(a, b Balance) int {
	if !q.Shadow {
		return compareBalances
	}
	return func(a, b Balance) int {
		return cmp.Or(cmp.Compare(b.Shadowed, a.Shadowed), compareBalances(a, b))
	}
}

// compareBalances says which of two is nearer to its limit.
func compareBalances(a, b Balance) int {
	return cmp.Or(cmp.Compare(b.Used, a.Used), strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Limit.Name, b.Limit.Name))
}

// A ranking keeps the n first of what it is given.
type ranking[R any] struct {
	n       int
	compare func(a, b R) int
	best    []R // at most 2n; the n best of all are among them
}

// add gives the ranking one more. Sorting once for every n is as fast as a heap.
func (r *ranking[R]) add(b R) {
	if r.best = append(r.best, b); len(r.best) >= 2*r.n {
		r.best = r.sorted()
	}
}

// sorted returns the n best.
func (r *ranking[R]) sorted() []R {
	slices.SortFunc(r.best, r.compare)
	return r.best[:min(r.n, len(r.best))]
}
