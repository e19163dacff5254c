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

const (
	// imageAge is how long an image is worth planning on.
	imageAge = 5 * time.Minute
	// maxSkew is how far ahead of the clock an honest client may stamp.
	maxSkew = 30 * time.Second
)

// Options configure a [Limiter]. The zero value works.
type Options struct {
	// ConfigTTL is how long configuration is cached, and so the time within
	// which a change reaches buckets in use. Default [DefaultConfigTTL];
	// negative reads the configuration on every acquire.
	ConfigTTL time.Duration
	// Timeout bounds every call: one that has not ended by then returns
	// [ErrUnavailable]. Calls that begin at about the same time end together, so
	// one may get up to an eighth less. The work that a call has begun goes on in
	// the background: a write that is shared with other callers is seen through, and
	// what it took for callers that have returned is given back. Default
	// [DefaultTimeout].
	Timeout time.Duration
	// Memory is the number of buckets, and of levels of configuration, that
	// are remembered. Default [DefaultMemory].
	Memory int
	// TTLMultiplier says after how many times its longest fill time an idle
	// bucket expires, unless its limits are the entity's own. Default
	// [DefaultTTLMultiplier]; negative keeps every bucket.
	TTLMultiplier int
	// Trust is how long a bucket that was seen to be exhausted refuses without
	// asking the store again, as far as what it has earned since does not
	// suffice. Tokens that another process returns meanwhile are overlooked
	// for as long. If another process takes tokens meanwhile, the wait that is quoted
	// is too short. Default [DefaultTrust]; negative always asks, so that every wait
	// is exact.
	Trust time.Duration
	// InFlight is the number of writes to one bucket item that may be under way
	// at a time; callers beyond that share the next write. Default
	// [DefaultInFlight], and up to twice that while each write more is for 16
	// callers at least and the item's partition has half of its capacity left;
	// negative lets every caller write for itself. A store in the same process is
	// never waited for, so nobody shares.
	InFlight int
	// Logger gets what cannot be returned. Default: discarded.
	Logger *slog.Logger
	// Rand draws a number from [0, n): shards and pauses are chosen with it.
	// Default: [rand.Int64N].
	Rand func(n int64) int64
}

// A Limiter decides requests against a [Store]. It is safe for concurrent use,
// and any number of limiters, in any number of processes, may share a store.
type Limiter struct {
	store      Store
	config     *config
	accounts   *cache[accountKey, *account]
	ttl        time.Duration
	deadlines  *calls.Deadlines
	multiplier int64
	logger     *slog.Logger
	rand       func(int64) int64
	unwatch    func()
	begun      time.Time     // when the limiter was made: see [Limiter.uptime]
	immediate  bool          // the store never waits
	trust      time.Duration // for which an image is good enough to refuse on; negative is never
	places     places        // for writes to one item before callers share them; none is no sharing
	counts     counts

	// epoch counts the configuration changes of this process: a bucket
	// compared in an earlier epoch is due again.
	epoch     atomic.Uint64
	isClosing atomic.Bool
	closing   chan struct{} // closed as Close begins: repairs that can wait are given up
	closed    chan struct{} // closed as Close ends, with closeErr
	closeErr  error
	underWay  *calls.Tally // calls, and what goes on after a caller has its answer
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
		begun: machineNow(), rand: o.Rand, logger: o.Logger,
		ttl: o.ConfigTTL, multiplier: int64(o.TTLMultiplier),
		trust: o.Trust, places: places{base: max(0, o.InFlight)},
	}
	if o.Trust == 0 {
		l.trust = DefaultTrust
	}
	if o.Trust < 0 {
		l.trust = -1
	}
	if o.InFlight == 0 {
		l.places = places{base: DefaultInFlight, more: DefaultInFlight}
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
	l.accounts = newCache[accountKey, *account](o.Memory)
	if i, ok := s.(store.ImmediateStore); ok {
		l.immediate = i.Immediate()
	}
	if l.immediate {
		l.places = places{}
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

// Close ends the limiter. Calls that begin from now on return [ErrClosed]. Close
// waits for those under way, and for the work that goes on after calls have
// returned: rollbacks for callers that left, and comparisons of buckets with their
// configuration. It gives up the doubling of a bucket that is throttled.
//
// Close takes twice [Options.Timeout] at most: a call under way may take it once,
// and what it took is given back within as much. Then Close cuts the rest off:
// the contexts of its requests end, Close returns as soon as the store has let go
// of them, and the error says that tokens may stay debited. No goroutine of the
// limiter is left when Close has returned.
//
// Leases stay as they are. One that has nothing to write can still be committed;
// writing adjustments and rolling back is [ErrClosed]. The store stays open. Close may be called
// several times, and at the same time: every call waits for the end, and returns
// the same.
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

// InvalidateConfig drops the cached configuration, so that changes made
// elsewhere are seen by the next acquire rather than within the time to live.
func (l *Limiter) InvalidateConfig() {
	l.config.invalidate()
	l.epoch.Add(1)
}

// Stats are counts since the limiter was made.
type Stats struct {
	Config  CacheStats
	Buckets int // buckets remembered
	// LocallyRefused requests were refused from memory, without the store.
	LocallyRefused uint64
	// Carried are claims and adjustments that another caller's write carried
	// along.
	Carried uint64
	// Gathered requests were served by several shards in one transaction.
	Gathered uint64
	// Doublings of the number of shards that this limiter has made, and Merges.
	Doublings, Merges uint64
	// Throttled are the writes that the store turned away for their rate, and
	// Braked the requests that were not sent because it had just done so.
	Throttled, Braked uint64
	// Healed are the items whose stamp lay far ahead and was moved back.
	Healed uint64
}

// counts are those of [Stats] that the limiter keeps itself.
type counts struct {
	refused, carried, gathered, doublings, merges, throttled, braked, healed atomic.Uint64
}

// Stats reads the counts.
func (l *Limiter) Stats() Stats {
	return Stats{
		Config: l.config.stats(), Buckets: l.accounts.len(),
		LocallyRefused: l.counts.refused.Load(), Carried: l.counts.carried.Load(), Gathered: l.counts.gathered.Load(),
		Doublings: l.counts.doublings.Load(), Merges: l.counts.merges.Load(), Throttled: l.counts.throttled.Load(), Braked: l.counts.braked.Load(),
		Healed: l.counts.healed.Load(),
	}
}

func (l *Limiter) account(entity, resource string) *account {
	return l.accounts.getOrPut(accountKey{entity, resource}, func() *account { return &account{} })
}

// Do acquires, runs f, and commits the lease; if f fails or panics, what was
// taken is returned instead. f settles the difference between what was
// requested and what was used with [Lease.Adjust]. [Options.Timeout] bounds the
// acquire and the commit, each, and f not at all.
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
