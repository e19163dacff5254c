package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// MaxTop is the largest number of balances that [Limiter.Top] returns.
const MaxTop = 1000

// A TopQuery asks for the most used limits.
type TopQuery struct {
	// Resource is the resource; "" means all of the namespace.
	Resource string
	// Most is how many balances to return, 1 to [MaxTop].
	Most int
	// WithoutParent leaves out entities that have a parent, so that the capacity of whole
	// projects shows. It goes by what buckets have copied of the entity's record.
	WithoutParent bool
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
	op := "find the most used limits"
	p := l.driver.Process
	switch {
	case q.Most < 1 || q.Most > MaxTop:
		return nil, &ValidationError{Field: "most", Value: strconv.Itoa(q.Most), Reason: fmt.Sprintf("give 1 to %d", MaxTop)}
	case p.Lister == nil:
		return nil, &ValidationError{Field: "store", Value: fmt.Sprintf("%T", p.Store), Reason: "it cannot list buckets: use a store.BucketLister, dynamo.Store for instance"}
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
	top := ranking{n: q.Most}
	for shards, err := range p.Lister.ResourceBuckets(ctx, q.Resource) {
		if err == nil {
			err = l.rank(ctx, &top, shards, q.WithoutParent)
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
func (l *Limiter) rank(ctx context.Context, top *ranking, shards []*store.Image, withoutParent bool) error {
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
	if withoutParent && slices.ContainsFunc(shards, func(img *store.Image) bool { return img.Parent != "" }) {
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
		top.add(balance)
	}
	return nil
}

// A ranking keeps the n most used of the balances that it is given.
type ranking struct {
	n    int
	best []Balance // at most 2n; the n best of all are among them
}

// add gives the ranking a balance. Sorting once for every n balances is as fast as a heap.
func (r *ranking) add(b Balance) {
	if r.best = append(r.best, b); len(r.best) >= 2*r.n {
		r.best = r.sorted()
	}
}

// sorted returns the n best.
func (r *ranking) sorted() []Balance {
	slices.SortFunc(r.best, func(a, b Balance) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Limit.Name, b.Limit.Name))
	})
	return r.best[:min(r.n, len(r.best))]
}
