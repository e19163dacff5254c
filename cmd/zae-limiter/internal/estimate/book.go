package estimate

import (
	"context"
	"sync"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// The causes on which requests are booked, in the order of a report.
const (
	causeAdmitted = iota
	causeContention
	causeRefused
	causeParents
	causeAdjusted
	causeCalls
	causeConfig
	causeNew
	causeDoubled
	causeUsage
	causes
)

// causeNames are the names of the causes as parts.
var causeNames = [causes]string{
	PartAdmitted, PartContention, PartRefused, PartParents, PartAdjusted, PartCalls, PartConfig, PartNew, PartDoubled, PartUsage,
}

// A book has what a rehearsal has spent.
type book struct {
	of      [causes]Cost
	records float64 // writes to bucket items that were applied
	reached float64 // records that reached the aggregator's function
	batches float64 // calls of the function

	operations, refused float64
}

func (b *book) add(cause int, c Cost) { b.of[cause] = b.of[cause].plus(c, 1) }

// plus adds another book, so many times.
func (b *book) plus(other *book, times float64) {
	for i := range b.of {
		b.of[i] = b.of[i].plus(other.of[i], times)
	}
	b.records += times * other.records
	b.reached += times * other.reached
	b.batches += times * other.batches
	b.operations += times * other.operations
	b.refused += times * other.refused
}

// since is what was spent after an earlier state of the book.
func (b *book) since(before *book) book {
	diff := *b
	diff.plus(before, -1)
	return diff
}

// last is the book of a load that lasts so many times as long. Buckets are new and are doubled
// only once.
func (b *book) last(times float64) (all book) {
	all.plus(b, times)
	all.of[causeNew], all.of[causeDoubled] = b.of[causeNew], b.of[causeDoubled]
	return all
}

// costs are the causes of a book that cost anything.
func (b *book) costs() (all []Cost) {
	for i, c := range b.of {
		if c.Requests != 0 || c.Writes != 0 || c.Reads != 0 {
			c.Name = causeNames[i]
			all = append(all, c)
		}
	}
	return all
}

// costOf is the cost of metered requests.
func costOf(u dynamo.Usage) Cost {
	return Cost{Requests: float64(u.Requests), Writes: u.WCU, Reads: u.RCU}
}

// A recorder books what each operation of a limiter's store costs. It sees which call an
// operation serves, and what became of both. A write that carries several callers serves the
// first of them.
type recorder struct {
	parents map[string]bool

	mu   sync.Mutex
	book book
}

var _ limiter.Observer = (*recorder)(nil)

// A call is a call of a limiter. Two costs of an acquire are booked at its end, by its outcome:
// refused writes, and reads that found no bucket.
type call struct {
	kind  limiter.CallKind
	lost  Cost // refused writes, and looks before a write
	blind Cost // reads that found no item: a comparison of levels alone looks the same

	ended, refused, created bool
}

type callKey struct{}

// These stand for the causes that are known when the call has ended.
const (
	causeLost = causes + iota
	causeBlind
)

// spend books a cost on a cause.
func (w *recorder) spend(cause int, c Cost) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.add(cause, c)
}

// ended counts an operation of the load.
func (w *recorder) ended(refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.book.operations++; refused {
		w.book.refused++
	}
}

// spent is the book so far.
func (w *recorder) spent() book {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book
}

// BeginCall notes the call in its context.
func (w *recorder) BeginCall(ctx context.Context, c limiter.Call) context.Context {
	return context.WithValue(ctx, callKey{}, &call{kind: c.Kind})
}

// EndCall books what was left open.
func (w *recorder) EndCall(ctx context.Context, r limiter.CallResult) {
	of, _ := ctx.Value(callKey{}).(*call)
	w.mu.Lock()
	defer w.mu.Unlock()
	of.ended, of.refused = true, r.Result == limiter.Refused
	w.book.add(of.cause(causeLost), of.lost)
	w.book.add(of.cause(causeBlind), of.blind)
}

// cause is what a cause that was left open is, now that the call has ended.
func (c *call) cause(open int) int {
	switch {
	case open == causeLost && c.refused:
		return causeRefused
	case open == causeLost:
		return causeContention
	case open == causeBlind && c.created:
		return causeNew
	case open == causeBlind:
		return causeConfig
	}
	return open
}

// BeginOperation does nothing: only the end of an operation has a cost.
func (*recorder) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context { return ctx }

// EndOperation books an operation.
func (w *recorder) EndOperation(ctx context.Context, r limiter.OperationResult) {
	of, _ := ctx.Value(callKey{}).(*call)
	cost := Cost{Requests: float64(r.Cost.Requests), Writes: r.Cost.WriteUnits, Reads: r.Cost.ReadUnits}
	cause := w.causeOf(of, &r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.Refused && r.Err == nil {
		w.book.records += float64(r.Items)
	}
	switch {
	case of != nil && of.ended:
		cause = of.cause(cause)
	case cause == causeLost:
		of.lost = of.lost.plus(cost, 1)
		return
	case cause == causeBlind:
		of.blind = of.blind.plus(cost, 1)
		return
	case cause == causeNew:
		of.created = true
	}
	w.book.add(cause, cost)
}

// causeOf is the cause of an operation that serves a call, nil if it serves none.
func (w *recorder) causeOf(of *call, r *limiter.OperationResult) int {
	lost := r.Refused || r.Err != nil
	switch {
	case r.Kind == store.OpBear, r.Kind == store.OpMerge:
		return causeDoubled
	case of == nil: // in the background, items are read and repaired
		return causeConfig
	case of.kind == limiter.CallAvailable:
		return causeCalls
	case of.kind.IsSettlement():
		return causeAdjusted
	case r.Kind == store.OpCreate:
		return causeNew
	case !r.Kind.IsWrite() && r.ShardCount == 0:
		return causeBlind
	case r.Kind == store.OpLoad && len(r.Keys) > 0:
		return causeConfig
	case r.Kind == store.OpBuckets:
		return causeDoubled
	case r.Kind == store.OpAdjust: // what one side of a cascade took is returned
		return causeRefused
	case r.Kind == store.OpLoad, lost: // a look before a write saves a refused one
		return causeLost
	case w.parents[r.Entity]:
		return causeParents
	default:
		return causeAdmitted
	}
}
