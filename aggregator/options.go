package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// Usage keeps the hours of deleted items, but not of deleted entities. The same hours may
// come any number of times. *[usage.Snapshots] is one.
type Usage interface {
	Save(ctx context.Context, all ...usage.Diary) error
}

// Peers are what the aggregator does for clients of the Python package, and for its readers of
// usage. *[usage.Snapshots] is one.
type Peers interface {
	// Restart forgets the counts of limits that such a client removed.
	Restart(ctx context.Context, b store.Bucket, hour int32, counts map[string]string) error
	// SaveDay copies a day's usage to where the package reads it.
	SaveDay(ctx context.Context, entity, resource string, day time.Time) error
}

// A Namespace is what the aggregator needs to tend the buckets of one namespace.
type Namespace struct {
	// Store is where the aggregator replenishes, doubles, mends and merges buckets; nil leaves
	// them alone.
	Store store.Store
	// Usage keeps the hours of deleted items; nil loses them.
	Usage Usage
	// Peers is for a table that clients of the Python package share; nil if it is none: then
	// every writer keeps the diary of its buckets.
	Peers Peers
	// Close is called once the namespace is forgotten, see Options.Namespaces, and nothing
	// works on it any more; nil closes nothing.
	Close func()
}

// An Opener opens the namespace with an id. It is called once for each namespace in the
// records, while the aggregator remembers that namespace. If it fails with
// [store.ErrNotFound], it is called again a minute later; until then the records of the
// namespace, which was deleted, are skipped. Other errors fail the records.
type Opener func(ctx context.Context, id string) (Namespace, error)

// An Archive keeps audit events that a table has deleted on expiry. *archive.Archive is
// one.
type Archive interface {
	// Put stores all events of one day (UTC) or none, and returns their size in bytes. It
	// accepts the same events again.
	Put(ctx context.Context, day time.Time, events []audit.TrailEvent) (size int, err error)
}

// Options configure an [Aggregator]. The zero value works.
type Options struct {
	// Concurrency is the number of concurrent writes of a batch; 0 is 16.
	Concurrency int
	// Namespaces is the number of namespaces to remember; 0 is 1000. The aggregator closes
	// the least recently used ones, and opens them again when records name them.
	Namespaces int
	// MaxAge is the maximum age of a record for which its bucket is refilled or doubled; 0
	// is 10 s. Older records show an outdated bucket: while a reader catches up, the
	// aggregator only saves usage and mends.
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
	// Busiest is the number of buckets that [Traffic] tells by shard, at most 256; 0 is
	// [DefaultBusiest].
	Busiest int
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
		store.CheckNotNegative("Memory", o.Memory), store.CheckNotNegative("Busiest", o.Busiest),
	); err != nil {
		return o, err
	}
	if o.Busiest > trafficPlaces {
		return o, &store.ValidationError{Field: "Busiest", Value: strconv.Itoa(o.Busiest), Reason: fmt.Sprintf("give at most %d", trafficPlaces)}
	}
	if o.Busiest == 0 {
		o.Busiest = DefaultBusiest
	}
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
