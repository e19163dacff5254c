package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// Usage keeps the sums. It must not add a step twice. It recognizes a step by its shard
// and sequence number. A batch may come twice, and a batch that failed for some records
// comes again together with others. *[usage.Snapshots] is one.
type Usage interface {
	Add(ctx context.Context, d *usage.Delta) error
}

// A Namespace is what the aggregator needs to tend the buckets of one namespace.
type Namespace struct {
	// Store is where the aggregator replenishes, doubles, mends and merges buckets; nil leaves
	// them alone.
	Store store.Store
	// Usage keeps the sums; nil counts nothing.
	Usage Usage
	// Close is called once the namespace is forgotten, see Options.Namespaces, and nothing
	// works on it any more; nil closes nothing.
	Close func()
}

// An Opener opens the namespace with an id. It is called once for each namespace in the
// records, while the aggregator remembers that namespace. If it fails with
// [store.ErrNotFound], it is called again a minute later; until then the records of the
// namespace, which was deleted, are skipped. Other errors fail the records.
type Opener func(ctx context.Context, id string) (Namespace, error)

// Options configure an [Aggregator]. The zero value works.
type Options struct {
	// Windows are the windows to sum usage over. Each costs one write for each entity and
	// resource of a batch; nil is hourly, daily and monthly.
	Windows []usage.Window
	// Concurrency is the number of concurrent writes of a batch; 0 is 16.
	Concurrency int
	// Namespaces is the number of namespaces to remember; 0 is 1000. The aggregator closes
	// the least recently used ones, and opens them again when records name them.
	Namespaces int
	// MaxAge is the maximum age of a record for which its bucket is refilled or doubled; 0
	// is 10 s. Older records show an outdated bucket: while a reader catches up, the
	// aggregator only counts and mends.
	MaxAge time.Duration
	// Archive keeps expired audit events; nil drops them. While it fails, Process fails
	// their records, and Follow delays no other records.
	Archive Archive
	// Quiet is the time after which the aggregator halves the number of a bucket's shards.
	// During that time, every shard must take fewer than 200 writes a second, a fifth of
	// what its partition takes. 0 is [DefaultQuiet], and less than 0 never merges. The
	// aggregator measures it in memory. Set it below 0 on a table that the peer's clients
	// use too: they create a merged shard again, full.
	Quiet time.Duration
	// Memory is the number of buckets of a namespace that the aggregator remembers. Default
	// 100,000.
	Memory int
	// TTLMultiplier sets when an idle bucket expires, as that of a limiter does. Default 7;
	// negative keeps every bucket.
	TTLMultiplier int
	// Rand draws a number from [0, n). Default: random.
	Rand func(n int64) int64
	// Observe is called with the result of each batch; nil calls nothing. Work between
	// batches gives a result without records, for example when Follow archives events of
	// earlier batches.
	Observe func(Result)
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
	// Logger receives what cannot be returned; nil discards it.
	Logger *slog.Logger
}

// withDefaults validates the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if err := cmp.Or(
		store.CheckNotNegative("Concurrency", o.Concurrency), store.CheckNotNegative("Namespaces", o.Namespaces), store.CheckNotNegative("MaxAge", o.MaxAge),
		store.CheckNotNegative("Memory", o.Memory),
	); err != nil {
		return o, err
	}
	if o.Windows == nil {
		o.Windows = []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}
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
	return o, nil
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
	watch      *watch // buckets that may be merged; nil without merging
	looks      *roll  // last looks at the shards of buckets
}

// New makes an aggregator. It does no I/O. It fails with [store.ErrInvalid] if
// there is no opener or an option is negative.
func New(open Opener, o Options) (*Aggregator, error) {
	if open == nil {
		return nil, &store.ValidationError{Field: "open", Value: "nil", Reason: "give a function that opens namespaces"}
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Aggregator{o: o, namespaces: newNamespaces(open, o), looks: newRoll()}
	if o.Quiet > 0 {
		a.watch = newWatch(o.Quiet)
	}
	return a, nil
}

// Close forgets all namespaces: it waits for what goes on in the background, for some
// seconds at most, and calls their Close. Call it when nothing is processed any more.
func (a *Aggregator) Close() { a.namespaces.close() }

// A Result is the result of a batch.
type Result struct {
	Records int // in the batch, including those that it ignores
	Buckets int // bucket items that the records are about
	// Updates of usage sums, Refills of items, and Doublings, Mends and Merges of the
	// shards of buckets.
	Updates, Refills, Doublings, Mends, Merges int
	// Healed counts items whose stamp lay far ahead and was moved back. Braked counts refills
	// that were not sent because the store had just throttled the item.
	Healed, Braked int
	// Archived counts audit events, stored in objects of ArchivedBytes in total.
	Archived, ArchivedBytes int
	// Errors are failed refills, doublings, mends and merges. They lose nothing, and no
	// record is delivered again because of them.
	Errors int
	// Lag is the age of the oldest record.
	Lag time.Duration
	// Failed are records whose usage was not counted, or not all of it, or whose event was
	// not archived, in the order of the batch. Deliver them again, before later records of
	// the same items.
	Failed []Failure
	// Poisoned are records that can never be read, in the order of the batch.
	Poisoned []Failure
}

// A Failure is a record that was not processed, and the reason.
type Failure struct {
	Index        int // in the batch
	ID, Sequence string
	Err          error
}

// Process processes a batch of records. It makes at most one write for each entity,
// resource and window of usage, and one for each bucket item that is worth a refill. It
// also makes the writes that double or merge a bucket, and one archive object for each day
// of expired audit events.
//
// Without records, Process does what is due for earlier records. A failure does not stop
// the rest. The error is the context's, if the context has ended; the result counts the
// completed work in any case.
func (a *Aggregator) Process(ctx context.Context, records []stream.Record) (Result, error) {
	b := newBatch(records, a.o.Now())
	a.takeIn(ctx, b)
	a.archive(ctx, b, a.expired(b))
	res := b.result()
	a.tell(ctx, &res)
	return res, ctx.Err()
}

// takeIn does all the work on the buckets of a batch.
func (a *Aggregator) takeIn(ctx context.Context, b *batch) {
	defer func() {
		b.healed, b.braked = a.namespaces.news(b.opened())
		a.namespaces.release(b.opened()...)
	}()
	a.resolve(ctx, b)
	a.addUsage(ctx, b)
	a.tend(ctx, b)
	a.mergeQuiet(ctx, b)
}

// tell reports the result of a batch.
func (a *Aggregator) tell(ctx context.Context, res *Result) {
	a.report(ctx, res)
	a.o.Observe(*res)
}

// report logs each failure.
func (a *Aggregator) report(ctx context.Context, res *Result) {
	for _, f := range res.Poisoned {
		a.o.Logger.ErrorContext(ctx, "record cannot be read", "event_id", f.ID, "sequence", f.Sequence, "error", f.Err)
	}
	for _, f := range res.Failed {
		a.o.Logger.WarnContext(ctx, "record was not processed", "event_id", f.ID, "sequence", f.Sequence, "error", f.Err)
	}
	level := slog.LevelInfo
	if res.Buckets+res.Merges+res.Archived+len(res.Failed)+len(res.Poisoned) == 0 {
		level = slog.LevelDebug // the aggregator's own writes come back as records
	}
	a.o.Logger.Log(ctx, level, "batch processed", "records", res.Records, "buckets", res.Buckets, "updates", res.Updates,
		"refills", res.Refills, "doublings", res.Doublings, "mends", res.Mends, "merges", res.Merges, "errors", res.Errors,
		"healed", res.Healed, "braked", res.Braked,
		"archived", res.Archived, "archived_bytes", res.ArchivedBytes,
		"failed", len(res.Failed), "poisoned", len(res.Poisoned), "lag_ms", res.Lag.Milliseconds())
}

// resolve opens the namespaces of a batch. It drops the records of a namespace that does
// not exist, and fails those of one that cannot be opened.
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
			it.tended = ns.ns
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
		if err := s.usage.Add(ctx, &s.delta); err != nil {
			b.fail(s.records, fmt.Errorf("add the usage of %s of %s: %w", s.delta.Resource, s.delta.Entity, err))
			return
		}
		done.Add(1)
	})
	b.updates = int(done.Load())
}

// tend keeps the buckets of a batch in order.
func (a *Aggregator) tend(ctx context.Context, b *batch) {
	buckets := b.buckets()
	a.atOnce(len(buckets), func(i int) {
		if bk := &buckets[i]; bk.keeper != nil {
			a.tendBucket(ctx, b, bk)
		}
	})
}

// tendBucket mends the shards of a bucket if they disagree or may disagree. Otherwise it
// doubles them if one is pressed, and refills those that are worth it.
func (a *Aggregator) tendBucket(ctx context.Context, b *batch, bk *bucketGroup) {
	failed := func(err error) {
		b.errors.Add(1)
		a.o.Logger.WarnContext(ctx, "bucket was not tended", "entity", bk.entity, "resource", bk.resource, "error", err)
	}
	if bk.isUneven() {
		if err := bk.keeper.Mend(ctx, bk.last()); err != nil {
			failed(err)
		} else {
			b.mends.Add(1)
		}
		return // the records no longer describe its shards
	}
	if err := a.lookForSiblings(ctx, b, bk); err != nil {
		failed(err)
	}
	for _, it := range bk.items {
		if b.now.Sub(it.at) > a.o.MaxAge || it.last == nil {
			continue
		}
		doubled, err := bk.keeper.Double(ctx, it.last, it.at)
		if err != nil {
			failed(err)
		}
		if doubled {
			b.doublings.Add(1)
		}
		if doubled || err != nil {
			return
		}
		switch replenished, err := bk.keeper.Replenish(ctx, it.last, it.demand()); {
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
