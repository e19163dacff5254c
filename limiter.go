package limiter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

// Defaults of [Options].
const (
	DefaultConfigTTL     = time.Minute
	DefaultTimeout       = 5 * time.Second
	DefaultMemory        = 100_000
	DefaultTTLMultiplier = 7
	DefaultTrust         = time.Second
	DefaultInFlight      = 2
)

// Options configure a [Limiter]. The zero value works.
type Options struct {
	// ConfigTTL is how long the limiter remembers configuration, and so the time within
	// which a change reaches buckets in use. Default [DefaultConfigTTL]; negative reads
	// the configuration on every acquire.
	ConfigTTL time.Duration
	// Timeout bounds every call: a call that has not ended by then returns
	// [ErrUnavailable]. Calls that begin at about the same time end together, so a call
	// may get up to an eighth less.
	//
	// The work of a call that has returned goes on in the background. The limiter
	// finishes a write that several callers share, and returns what the write took for
	// callers that have returned. Default [DefaultTimeout].
	Timeout time.Duration
	// Memory is the number of buckets that the limiter remembers, and of levels of
	// configuration. Default [DefaultMemory].
	Memory int
	// TTLMultiplier sets when an idle bucket expires: after this many times its longest
	// fill time. A bucket whose limits are the entity's own does not expire. Default
	// [DefaultTTLMultiplier]; negative keeps every bucket.
	TTLMultiplier int
	// Trust is how long the limiter may refuse from memory: it has seen the bucket
	// exhausted, and what the bucket has earned since does not suffice. For that time
	// the limiter overlooks tokens that another process returns. If another process
	// takes tokens, the quoted wait is too short. Default [DefaultTrust]; negative
	// always asks the store, so that every wait is exact.
	Trust time.Duration
	// InFlight is the maximum number of concurrent writes per bucket item; further
	// callers share the next write. Default [DefaultInFlight]: 2, raised to at most 4
	// while 16 or more callers wait and half of the item's hidden write limit is free.
	// Negative lets every caller write for itself. A store in the same process answers
	// at once, so its callers share no writes.
	InFlight int
	// Logger gets what the limiter cannot return. Default: discarded.
	Logger *slog.Logger
	// Rand draws a number from [0, n). The limiter chooses shards and pauses with it.
	// Default: [rand.Int64N].
	Rand func(n int64) int64
}

// A Limiter decides requests against a [Store]. It is safe for concurrent use,
// and any number of limiters, in any number of processes, may share a store.
type Limiter struct {
	store      Store
	config     *config
	accounts   *memory.Cache[memory.Key, *account]
	ttl        time.Duration
	deadlines  *calls.Deadlines
	multiplier int64
	logger     *slog.Logger
	rand       func(int64) int64
	unwatch    func()
	clock      memory.Clock
	immediate  bool          // the store's operations never wait
	trust      time.Duration // the age up to which an image may refuse; negative is never
	places     lane.Places   // for concurrent writes to one item; with none, callers share no writes
	counts     counts

	// epoch counts the configuration changes of this process. A bucket that was
	// compared in an earlier epoch is due for another comparison.
	epoch     atomic.Uint64
	isClosing atomic.Bool
	closing   chan struct{} // closed as Close begins; ends background work that can wait
	closed    chan struct{} // closed as Close ends, with closeErr
	closeErr  error
	underWay  *calls.Tally // calls, and work that goes on after a caller has its answer
	workers   calls.Workers
}

// New makes a limiter on a store. It does no I/O.
func New(s Store, o Options) (*Limiter, error) {
	if s == nil {
		return nil, &ValidationError{Field: "store", Reason: "open one, with dynamo.Open for instance"}
	}
	if o.Timeout < 0 || o.Memory < 0 {
		return nil, &ValidationError{Field: "options", Value: fmt.Sprintf("Timeout %v, Memory %d", o.Timeout, o.Memory), Reason: "use 0 for the default, or a positive value"}
	}
	l := &Limiter{
		clock: memory.NewClock(s.Now), rand: o.Rand, logger: o.Logger,
		ttl: o.ConfigTTL, multiplier: int64(o.TTLMultiplier),
		trust: o.Trust, places: lane.Places{Base: max(0, o.InFlight)},
	}
	if o.Trust == 0 {
		l.trust = DefaultTrust
	}
	if o.Trust < 0 {
		l.trust = -1
	}
	if o.InFlight == 0 {
		l.places = lane.Places{Base: DefaultInFlight, More: DefaultInFlight}
	}
	if l.ttl == 0 {
		l.ttl = DefaultConfigTTL
	}
	l.ttl = max(0, l.ttl)
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	l.deadlines = calls.NewDeadlines(o.Timeout)
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if l.multiplier == 0 {
		l.multiplier = DefaultTTLMultiplier
	}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.rand == nil {
		l.rand = rand.Int64N
	}
	l.closing, l.closed, l.underWay = make(chan struct{}), make(chan struct{}), calls.NewTally()
	l.store = newHealer(s, l.multiplier, l.uptime, &l.counts, l.logger)
	l.config = newConfig(l.store, l.uptime, l.ttl, o.Memory)
	l.accounts = memory.NewCache[memory.Key, *account](o.Memory)
	if i, ok := s.(store.ImmediateStore); ok {
		l.immediate = i.Immediate()
	}
	if l.immediate {
		l.places = lane.Places{}
	}
	l.unwatch = func() {}
	if w, ok := s.(store.ConfigWatcher); ok {
		l.unwatch = w.WatchConfig(func(k ConfigKey) {
			l.config.evict(k)
			l.epoch.Add(1)
		})
	}
	return l, nil
}

// Close ends the limiter. Calls that begin from now on return [ErrClosed]. Close waits
// for the calls under way, and for work that goes on after calls have returned. Such
// work is rollbacks for callers that left, and comparisons of buckets with their
// configuration. Close gives up the doubling of a throttled bucket.
//
// Close takes at most twice [Options.Timeout]: a call under way may take it once, and
// returning what the call took may take as long again. Then Close cuts off the rest: it
// ends the contexts of their requests, and returns as soon as the store has released
// them. The error then says that tokens may stay debited. When Close has returned, no
// goroutine of the limiter is left.
//
// Leases stay as they are. A lease that has nothing to write can still be committed;
// writing adjustments and rolling back return [ErrClosed]. The store stays open. Close
// may be called several times and concurrently: every call waits for the end and
// returns the same error.
func (l *Limiter) Close() error {
	if l.isClosing.CompareAndSwap(false, true) {
		l.closeErr = l.close()
		close(l.closed)
	}
	<-l.closed
	return l.closeErr
}

func (l *Limiter) close() (err error) {
	l.unwatch()
	l.underWay.Close()
	close(l.closing)
	const most = 2
	t := time.NewTimer(most * l.deadlines.Time())
	defer t.Stop()
	select {
	case <-l.underWay.Empty():
	case <-t.C:
		err = fmt.Errorf("close: calls were cut off after %v, what they took may stay debited: %w", most*l.deadlines.Time(), ErrUnavailable)
	}
	l.deadlines.End(errCutOff)
	<-l.underWay.Empty()
	l.workers.Close()
	return err
}

// InvalidateConfig drops the remembered configuration. The next acquire then sees
// changes made elsewhere, instead of within [Options.ConfigTTL].
func (l *Limiter) InvalidateConfig() {
	l.config.invalidate()
	l.epoch.Add(1)
}

// Stats are counts since the limiter was made.
type Stats struct {
	Config  CacheStats
	Buckets int // buckets remembered
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
}

// counts are the [Stats] that the limiter itself keeps.
type counts struct {
	refused, carried, gathered, doublings, merges, throttled, braked, healed atomic.Uint64
}

// Stats reads the counts.
func (l *Limiter) Stats() Stats {
	return Stats{
		Config: l.config.stats(), Buckets: l.accounts.Len(),
		LocallyRefused: l.counts.refused.Load(), Carried: l.counts.carried.Load(), Gathered: l.counts.gathered.Load(),
		Doublings: l.counts.doublings.Load(), Merges: l.counts.merges.Load(), Throttled: l.counts.throttled.Load(), Braked: l.counts.braked.Load(),
		Healed: l.counts.healed.Load(),
	}
}

// memory is what the limiter remembers of a bucket.
func (l *Limiter) memory(entity, resource string) *memory.Account {
	return &l.account(entity, resource).Account
}

func (l *Limiter) account(entity, resource string) *account {
	return l.accounts.GetOrPut(memory.Key{Entity: entity, Resource: resource}, func() *account { return &account{} })
}

// Do acquires, runs f, and commits the lease. If f fails or panics, Do returns what the
// lease took instead. f settles the difference between requested and used tokens with
// [Lease.Adjust]. [Options.Timeout] bounds the acquire and the commit, each on its own;
// it does not bound f.
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
	if err = f(ctx, lease); err != nil {
		return err
	}
	settled = true
	return lease.Commit(ctx)
}

func (l *Limiter) moment() memory.Moment { return l.clock.Moment() }

func (l *Limiter) now() int64 { return l.clock.Now() }

func (l *Limiter) uptime() time.Duration { return l.clock.Uptime() }
