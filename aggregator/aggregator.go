package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Usage keeps the sums. A step that was added before, which its shard and
// sequence number tell, must not be added again: a batch may come twice, and one
// that failed for some records comes again with others. *[dynamo.Store] is one.
type Usage interface {
	AddUsage(ctx context.Context, d *dynamo.UsageDelta) error
}

// A Namespace is what is needed to tend the buckets of one namespace.
type Namespace struct {
	// Limiter refills, doubles and merges; nil leaves buckets alone. It is better not
	// shared with requests: what it remembers is what records say.
	Limiter *limiter.Limiter
	// Usage keeps the sums; nil counts nothing.
	Usage Usage
	// Close is called when the namespace is forgotten, see Options.Namespaces,
	// and nothing works on it any more; nil if nothing is to be closed.
	Close func()
}

// An Opener opens the namespace with an id. It is called once for each namespace
// that records tell of, as long as that is remembered, and again a minute later if
// it fails with [limiter.ErrNotFound]: the records of a namespace that was deleted
// are passed over. Other errors leave the records failed.
type Opener func(ctx context.Context, id string) (Namespace, error)

// Options configure an [Aggregator]. The zero value works.
type Options struct {
	// Windows are what usage is summed over, each at the price of a write for
	// each entity and resource of a batch; nil is hourly, daily and monthly.
	Windows []dynamo.Window
	// Concurrency is how many writes of a batch are under way at a time; 0 is 16.
	Concurrency int
	// Namespaces is how many namespaces are remembered; 0 is 1000. Those not
	// used for longest are closed, and opened again when records tell of them.
	Namespaces int
	// MaxAge is how old a record may be for its bucket to be refilled or
	// doubled; 0 is 10 s. Older ones tell what a bucket was: while a reader
	// catches up it only counts and mends.
	MaxAge time.Duration
	// Archive keeps the events of the audit trail that have expired; nil lets them
	// go. While it fails, Process fails their records, and Follow keeps nothing else
	// waiting for it.
	Archive Archive
	// Quiet is how long every shard of a bucket must have been written to less than
	// 200 times a second, a fifth of what its partition takes, for the bucket to get
	// half as many of them; 0 is [DefaultQuiet], and less than 0 never merges. It is
	// counted in memory. On a table that the peer's clients use, too, it is better
	// never: they make a shard that was merged anew, full.
	Quiet time.Duration
	// Observe is called with the result of each batch; nil is nobody. Where there
	// was something to do between batches, as for Follow to archive what the last
	// ones told of, that is one without records.
	Observe func(Result)
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
	// Logger is told what cannot be returned; nil discards it.
	Logger *slog.Logger
}

const (
	defaultConcurrency = 16
	defaultNamespaces  = 1000
	defaultMaxAge      = 10 * time.Second
)

// An Aggregator processes records. It is safe for concurrent use, as long as
// records of one item are not processed at the same time.
type Aggregator struct {
	o          Options
	namespaces *namespaces
	watch      *watch // of buckets that may be merged; nil if none is
	looks      *roll  // at the shards of buckets
}

// New makes an aggregator. It does no I/O. It fails with [limiter.ErrInvalid] if
// there is no opener or an option is negative.
func New(open Opener, o Options) (*Aggregator, error) {
	switch {
	case open == nil:
		return nil, &limiter.ValidationError{Field: "open", Value: "nil", Reason: "give a function that opens namespaces"}
	case o.Concurrency < 0 || o.Namespaces < 0 || o.MaxAge < 0:
		return nil, &limiter.ValidationError{
			Field: "options", Value: fmt.Sprintf("Concurrency %d, Namespaces %d, MaxAge %v", o.Concurrency, o.Namespaces, o.MaxAge),
			Reason: "use 0 for the default, or a positive value",
		}
	}
	if o.Windows == nil {
		o.Windows = []dynamo.Window{dynamo.Hourly, dynamo.Daily, dynamo.Monthly}
	}
	o.Windows = slices.Clone(o.Windows)
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.Namespaces == 0 {
		o.Namespaces = defaultNamespaces
	}
	if o.MaxAge == 0 {
		o.MaxAge = defaultMaxAge
	}
	if o.Quiet == 0 {
		o.Quiet = DefaultQuiet
	}
	if o.Observe == nil {
		o.Observe = func(Result) {}
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Aggregator{o: o, namespaces: newNamespaces(open, o.Namespaces), looks: newRoll()}
	if o.Quiet > 0 {
		a.watch = newWatch(o.Quiet)
	}
	return a, nil
}

// A Result is what became of a batch.
type Result struct {
	Records int // in the batch, those of no interest included
	Buckets int // bucket items that they tell of
	// Updates of sums of usage, Refills of items, Doublings, Mends and Merges of
	// the shards of buckets.
	Updates, Refills, Doublings, Mends, Merges int
	// Archived events of the audit trail, in objects of ArchivedBytes together.
	Archived, ArchivedBytes int
	// Errors are refills, doublings, mends and merges that failed. Nothing is lost by
	// them, and no record is delivered again for their sake.
	Errors int
	// Lag is how old the oldest record was.
	Lag time.Duration
	// Failed are records whose usage was not, or not all, taken in, or whose event
	// was not archived, in the order of the batch. They are to be delivered again,
	// before later records of the same items.
	Failed []Failure
	// Poisoned are records that cannot be read, now or ever, in the order of the
	// batch.
	Poisoned []Failure
}

// A Failure is a record that was not taken in, and why.
type Failure struct {
	Index        int // in the batch
	ID, Sequence string
	Err          error
}

// Process takes in a batch of records: at most one write for each entity,
// resource and window of usage, one for each bucket item that is worth a refill,
// what the doubling or merging of a bucket takes, and an object in the archive for
// each day of expired audit events. Called without records it does what is due for
// those that came before. What fails does not keep the rest from
// being done. The error is the context's, if that has ended; the result says what
// was done all the same.
func (a *Aggregator) Process(ctx context.Context, records []dynamo.Record) (Result, error) {
	b := newBatch(records, a.o.Now())
	a.takeIn(ctx, b)
	a.archive(ctx, b, a.expired(b))
	res := b.result()
	a.tell(ctx, &res)
	return res, ctx.Err()
}

// takeIn does all that hangs on the buckets of a batch.
func (a *Aggregator) takeIn(ctx context.Context, b *batch) {
	defer func() { a.namespaces.release(b.opened()...) }()
	a.resolve(ctx, b)
	a.addUsage(ctx, b)
	a.tend(ctx, b)
	a.mergeQuiet(ctx, b)
}

// tell passes on what became of a batch.
func (a *Aggregator) tell(ctx context.Context, res *Result) {
	a.report(ctx, res)
	a.o.Observe(*res)
}

// report logs what went wrong, one by one.
func (a *Aggregator) report(ctx context.Context, res *Result) {
	for _, f := range res.Poisoned {
		a.o.Logger.ErrorContext(ctx, "record cannot be read", "event_id", f.ID, "sequence", f.Sequence, "error", f.Err)
	}
	for _, f := range res.Failed {
		a.o.Logger.WarnContext(ctx, "record was not taken in", "event_id", f.ID, "sequence", f.Sequence, "error", f.Err)
	}
	level := slog.LevelInfo
	if res.Buckets+res.Merges+res.Archived+len(res.Failed)+len(res.Poisoned) == 0 {
		level = slog.LevelDebug // what it wrote itself comes back
	}
	a.o.Logger.Log(ctx, level, "batch processed", "records", res.Records, "buckets", res.Buckets, "updates", res.Updates,
		"refills", res.Refills, "doublings", res.Doublings, "mends", res.Mends, "merges", res.Merges, "errors", res.Errors,
		"archived", res.Archived, "archived_bytes", res.ArchivedBytes,
		"failed", len(res.Failed), "poisoned", len(res.Poisoned), "lag_ms", res.Lag.Milliseconds())
}

// resolve opens the namespaces of a batch. The records of one that does not exist
// drop out; those of one that cannot be opened fail.
func (a *Aggregator) resolve(ctx context.Context, b *batch) {
	for id := range b.namespaces {
		ns, err := a.namespaces.get(ctx, id, b.now)
		if err != nil {
			a.o.Logger.WarnContext(ctx, "namespace was not opened", "namespace", id, "error", err)
		}
		b.namespaces[id] = opened{ns, err}
	}
	kept := b.items[:0]
	for _, it := range b.items {
		switch ns := b.namespaces[it.ns]; {
		case ns.err != nil:
			b.fail(it.indexes(), ns.err)
		case ns.ns.missing:
		default:
			it.tended = &ns.ns.Namespace
			kept = append(kept, it)
		}
	}
	b.items = kept
}

// addUsage adds up what the batch consumed.
func (a *Aggregator) addUsage(ctx context.Context, b *batch) {
	sums := b.usage(a.o.Windows)
	var done atomic.Int64
	a.atOnce(len(sums), func(i int) {
		s := sums[i]
		if err := s.usage.AddUsage(ctx, &s.delta); err != nil {
			b.fail(s.records, fmt.Errorf("add the usage of %s of %s: %w", s.delta.Resource, s.delta.Entity, err))
			return
		}
		done.Add(1)
	})
	b.updates = int(done.Load())
}

// tend looks after the buckets of a batch.
func (a *Aggregator) tend(ctx context.Context, b *batch) {
	buckets := b.buckets()
	a.atOnce(len(buckets), func(i int) {
		if bk := &buckets[i]; bk.limiter != nil {
			a.tendBucket(ctx, b, bk)
		}
	})
}

// tendBucket mends the shards of a bucket if they disagree or may do so, doubles them if
// one of them is pressed, and refills those that are worth it.
func (a *Aggregator) tendBucket(ctx context.Context, b *batch, bk *bucketGroup) {
	failed := func(err error) {
		b.errors.Add(1)
		a.o.Logger.WarnContext(ctx, "bucket was not tended", "entity", bk.entity, "resource", bk.resource, "error", err)
	}
	if bk.isUneven() {
		if err := bk.limiter.Mend(ctx, bk.last()); err != nil {
			failed(err)
		} else {
			b.mends.Add(1)
		}
		return // what the records say of its shards is not so any more
	}
	if err := a.lookForSiblings(ctx, b, bk); err != nil {
		failed(err)
	}
	for _, it := range bk.items {
		if b.now.Sub(it.at) > a.o.MaxAge || it.last == nil {
			continue
		}
		doubled, err := bk.limiter.Double(ctx, it.last, it.at)
		if err != nil {
			failed(err)
		}
		if doubled {
			b.doublings.Add(1)
		}
		if doubled || err != nil {
			return
		}
		switch replenished, err := bk.limiter.Replenish(ctx, it.last, it.demand()); {
		case err != nil:
			failed(err)
		case replenished:
			b.refills.Add(1)
		}
	}
}

// atOnce runs f for 0 to n−1, several at a time.
func (a *Aggregator) atOnce(n int, f func(i int)) {
	workers := min(n, a.o.Concurrency)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var all sync.WaitGroup
	var next atomic.Int64
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}
