package limiter

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/internal/waiting"
)

// Defaults of [Options].
const (
	DefaultConfigTTL     = process.DefaultConfigTTL     // 1 minute
	DefaultTimeout       = process.DefaultTimeout       // 5 seconds
	DefaultMemory        = process.DefaultMemory        // 100,000 buckets
	DefaultTTLMultiplier = process.DefaultTTLMultiplier // 7
	DefaultTrust         = acquire.DefaultTrust         // 1 second
	DefaultInFlight      = acquire.DefaultInFlight      // 2
	DefaultMaxWaiters    = 1000
)

// Options configure a [Limiter]. The zero value works.
type Options struct {
	// ConfigTTL is how long the limiter remembers configuration, and so the time within
	// which a change reaches buckets in use. Default [DefaultConfigTTL]; negative reads
	// the configuration on every acquire.
	ConfigTTL time.Duration
	// Timeout bounds every call but [Limiter.Top]: a call that has not ended by then
	// returns [ErrUnavailable]. Calls that begin at about the same time end together, so a call
	// may get up to an eighth less.
	//
	// The work of a call that has returned goes on in the background. The limiter
	// finishes a write that several callers share, and returns what the write took for
	// callers that have returned. Default [DefaultTimeout].
	Timeout time.Duration
	// Memory is the number of buckets that the limiter remembers, and of levels of
	// configuration. Those that were used once are forgotten first. Default [DefaultMemory].
	Memory int
	// TTLMultiplier sets when an idle bucket expires: after this many times its longest
	// fill time. A bucket whose limits are the entity's own does not expire. Default
	// [DefaultTTLMultiplier]; negative keeps every bucket.
	TTLMultiplier int
	// Trust is how long the limiter may refuse from memory. It has then seen the bucket
	// exhausted, and what the bucket has earned since does not suffice. For that time the
	// limiter overlooks tokens that another process returns. If another process takes
	// tokens, the quoted wait is too short. Default [DefaultTrust]; negative always asks
	// the store, so that every wait is exact.
	Trust time.Duration
	// InFlight is the maximum number of concurrent writes per bucket item; further
	// callers share the next write. Default [DefaultInFlight]: 2. There is one at a time
	// while other processes write to the item, or callers come in crowds. Negative lets
	// every caller write for itself. A store in the same process answers at once, so its
	// callers share no writes.
	InFlight int
	// MaxWaiters is how many callers of [Limiter.Wait] may wait at the same time for one
	// bucket. If the bucket's entity has a parent to which it cascades, all buckets that
	// cascade to the parent's count together. Further callers get [ErrQueueFull]. Default
	// [DefaultMaxWaiters]; negative is no bound.
	MaxWaiters int
	// Share is what the limiter admits while the store is away, for requests with [Share].
	Share ShareOptions
	// TokenKeys sign and check what [Lease.Token] writes down, each at least [MinTokenKey]
	// random bytes. The first one signs; all are accepted. To change the key, give the new one to
	// all processes as a further one, then as the first, and remove the old one after [TokenLife].
	// Default: none, and no lease is written down or resumed.
	TokenKeys [][]byte
	// Logger gets what the limiter cannot return. Default: discarded.
	Logger *slog.Logger
	// Rand draws a number from [0, n). The limiter chooses shards and pauses with it.
	// Default: [rand.Int64N].
	Rand func(n int64) int64
	// Observer is told of every call and of every operation of the store. Default: nobody
	// is, which costs nothing.
	Observer Observer
}

// A Limiter decides requests against a [Store]. It is safe for concurrent use,
// and any number of limiters, in any number of processes, may share a store.
type Limiter struct {
	// driver decides requests; the limiter is a facade over it (ADR 032).
	driver *acquire.Driver
	// begin carries out an acquisition, in the way that suits the store.
	begin func(context.Context, Request, *acquisition) (*Lease, error)
	// observer is told of calls; nil if nobody is.
	observer Observer

	tokenKeys  *token.Keys
	waiting    waiting.Room[*Lease]
	maxWaiters int
}

// New makes a limiter on a store. It does no I/O. It fails with [ErrInvalid] if the store
// is nil or an option is out of range.
func New(s Store, o Options) (*Limiter, error) {
	of := process.Options{
		ConfigTTL: o.ConfigTTL, Timeout: o.Timeout, Memory: o.Memory, TTLMultiplier: o.TTLMultiplier, Logger: o.Logger, Rand: o.Rand,
	}
	if o.Observer != nil {
		of.Observer = operations{o.Observer}
	}
	if err := o.Share.validate(); err != nil {
		return nil, err
	}
	keys, err := token.NewKeys(o.TokenKeys)
	if err != nil {
		return nil, err
	}
	p, err := process.New(s, of)
	if err != nil {
		return nil, err
	}
	l := &Limiter{driver: acquire.New(p, acquire.Options{Trust: o.Trust, InFlight: o.InFlight, Outage: acquire.OutageOptions{
		Processes: o.Share.Processes, Buckets: o.Share.Buckets, Admits: o.Share.Unseen == Allow,
	}}), maxWaiters: o.MaxWaiters, tokenKeys: keys}
	if l.maxWaiters == 0 {
		l.maxWaiters = DefaultMaxWaiters
	}
	l.begin, l.observer = l.acquireApart, o.Observer
	if p.IsInline() {
		l.begin = l.acquireHere
	}
	return l, nil
}

// Close ends the limiter. Calls that begin from now on return [ErrClosed], and so do calls
// of [Limiter.Wait] that are waiting. Close waits for the calls under way, and for work that
// goes on after calls have returned. Such work is rollbacks for callers that left, and
// comparisons of buckets with their configuration. Close gives up the doubling of a
// throttled bucket.
//
// Close takes at most twice [Options.Timeout]: a call under way may take it once, and
// returning what the call took may take as long again. Then Close cuts off the rest: it
// ends the contexts of their requests, and returns as soon as the store has released
// them. The error then says that tokens may stay debited. When Close has returned, no
// goroutine of the limiter is left.
//
// Leases stay as they are, but they lose their slots ([ErrSlotsLost]). A lease that has nothing
// to write can still be committed; writing adjustments and rolling back return [ErrClosed]. The
// store stays open. Close may be called several times and concurrently: every call waits for
// the end and returns the same error.
func (l *Limiter) Close() error {
	l.driver.CloseSlots()
	return l.driver.Close()
}

// InvalidateConfig drops the remembered configuration. The next acquire then sees
// changes made elsewhere, instead of within [Options.ConfigTTL], and callers of
// [Limiter.Wait] look again at once.
func (l *Limiter) InvalidateConfig() {
	l.driver.Config.Invalidate()
	l.waiting.RouseAll()
}

// CacheStats counts what the configuration cache did.
type CacheStats struct {
	Hits, Misses int64         // levels found in the cache, and levels read from the store
	Size         int           // levels held, those that do not exist included
	TTL          time.Duration // how long the cache holds a level
}

// Stats are counts since the limiter was made.
type Stats struct {
	Config  CacheStats
	Buckets int // buckets remembered
	Waiting int // callers of [Limiter.Wait] that wait now
	// LocallyRefused counts requests that were refused from memory, without the store.
	LocallyRefused uint64
	// Carried counts claims and adjustments that another caller's write included.
	Carried uint64
	// Gathered counts requests that several shards served in one transaction.
	Gathered uint64
	// Doublings and Merges count how often this limiter doubled and halved the number
	// of shards of a bucket.
	Doublings, Merges uint64
	// Throttled counts writes that the store rejected for their rate. Braked counts
	// requests that the limiter did not send because the store had just throttled.
	Throttled, Braked uint64
	// Healed counts items whose stamp lay far ahead and was moved back.
	Healed uint64
	// Outages counts how often the store was found to be away, by requests with [Share], and Away
	// says that it is so now. SharesAdmitted and SharesRefused count such requests that were decided
	// meanwhile. DegradedSpent are the tokens that outages took and that were debited when the store
	// was back, and DegradedLost those that could not be. A bucket's parent counts for itself.
	Outages, SharesAdmitted, SharesRefused uint64
	Away                                   bool
	DegradedSpent, DegradedLost            int64
	// Resent counts writes to buckets that were sent again because an answer was lost. SentOnce counts
	// writes that would not be, because their bucket item has no room for what that needs. If such a
	// write is lost, its tokens count as taken. Reclaimed counts writes that turned out to have landed
	// for nobody, and whose tokens were returned.
	Resent, SentOnce, Reclaimed uint64
	// LostReturned are the tokens of lost processes that writes of this limiter gave back to limits with
	// [Limit.Returns], and LostKept those that such limits keep of the same acquires, by their percentages
	// at that moment. A limit without Returns does not know what it keeps. Unreserved counts acquires of
	// limits with it that stay debited even so, because their bucket item had no room, or several shards served
	// them. TakenForLost counts buckets of which this limiter itself was taken for lost while it had leases:
	// it debits again what those use.
	LostReturned, LostKept   int64
	Unreserved, TakenForLost uint64
	// SlotsLost counts slots that this limiter could not renew in time, so that others may have
	// held them, too. HoldersRemoved counts other processes that were gone, and whose slots of
	// a limit it has set free.
	SlotsLost, HoldersRemoved uint64
}

// Stats reads the counts.
func (l *Limiter) Stats() Stats {
	config, c := l.driver.Config.Stats(), &l.driver.Counts
	lost, removed := l.driver.SlotCounts()
	away, _ := l.driver.Outage.IsAway()
	of, book := &l.driver.Outage.Counts, l.driver.Ledger
	return Stats{
		Config:  CacheStats{Hits: config.Hits, Misses: config.Misses, Size: config.Size, TTL: l.driver.Config.TTL()},
		Buckets: l.driver.Buckets(), Waiting: l.waiting.Size(), LocallyRefused: c.Refused.Load(), Carried: c.Carried.Load(), Gathered: c.Gathered.Load(),
		Doublings: c.Doublings.Load(), Merges: c.Merges.Load(), Throttled: c.Throttled.Load(), Braked: c.Braked.Load(),
		Outages: of.Outages.Load(), SharesAdmitted: of.Admitted.Load(), SharesRefused: of.Refused.Load(), Away: away,
		DegradedSpent: of.Spent.Load() / milli, DegradedLost: of.Lost.Load() / milli,
		LostReturned: int64(book.Returned.Load() / milli), LostKept: int64(book.Kept.Load() / milli), //nolint:gosec // far below
		Unreserved: book.Unreserved.Load(), TakenForLost: book.Removed.Load(),
		Healed: c.Healed.Load(), Resent: c.Resent.Load(), SentOnce: c.SentOnce.Load(), Reclaimed: c.Reclaimed.Load(), SlotsLost: lost, HoldersRemoved: removed,
	}
}

// Do acquires, runs f, and commits the lease. If f fails or panics, Do returns what the
// lease took instead. f sets what was really used with [Lease.Settle]. Its context is that of
// [Lease.Context] if the request names slots. [Options.Timeout] bounds the acquire and the commit,
// each on its own; it does not bound f.
func (l *Limiter) Do(ctx context.Context, req Request, f func(context.Context, *Lease) error) (err error) {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}
	settled := false
	defer func() {
		if !settled {
			err = errors.Join(err, lease.Rollback(ctx))
		}
	}()
	if err = lease.run(ctx, f); err != nil {
		return err
	}
	settled = true
	if lease.isHandedOver() {
		return nil
	}
	return lease.Commit(ctx)
}

// run calls f with the context of the work under a lease.
func (l *Lease) run(ctx context.Context, f func(context.Context, *Lease) error) error {
	if !l.hasSlots() {
		return f(ctx, l)
	}
	ctx, cancel := l.Context(ctx)
	defer cancel()
	return f(ctx, l)
}
