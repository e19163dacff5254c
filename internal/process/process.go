// Package process has what one process needs to work on the buckets of a store: the
// store and its configuration, the clocks, the goroutines, and the way in which every
// write to a bucket is sent.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// ErrClosed says that a process has been closed, and that nothing was done.
var ErrClosed = errors.New("limiter is closed")

// errCutOff is the cause when Close ends work that has gone on for too long. Unlike
// [ErrClosed], it does not say that nothing was done.
var errCutOff = errors.New("cut off because the limiter is being closed")

// Defaults of [Options].
const (
	DefaultConfigTTL     = time.Minute
	DefaultTimeout       = 5 * time.Second
	DefaultMemory        = 100_000
	DefaultTTLMultiplier = 7
)

// Options configure a [Process]. The zero value works.
type Options struct {
	// ConfigTTL is how long the process remembers configuration. Default
	// [DefaultConfigTTL]; negative remembers none.
	ConfigTTL time.Duration
	// Timeout bounds every call. Default [DefaultTimeout].
	Timeout time.Duration
	// Memory is the number of levels of configuration that the process remembers, and of
	// buckets. Default [DefaultMemory].
	Memory int
	// TTLMultiplier sets when an idle bucket expires: after this many times its longest
	// fill time. Default [DefaultTTLMultiplier]; negative keeps every bucket.
	TTLMultiplier int
	// Logger gets what a process cannot return. Default: discarded.
	Logger *slog.Logger
	// Rand draws a number from [0, n). Default: [rand.Int64N].
	Rand func(n int64) int64
	// Observer is told of the store's operations. Default: nobody is.
	Observer Observer
}

// withDefaults validates the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if err := cmp.Or(store.CheckNotNegative("Timeout", o.Timeout), store.CheckNotNegative("Memory", o.Memory)); err != nil {
		return o, err
	}
	if o.ConfigTTL == 0 {
		o.ConfigTTL = DefaultConfigTTL
	}
	o.ConfigTTL = max(0, o.ConfigTTL)
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.TTLMultiplier == 0 {
		o.TTLMultiplier = DefaultTTLMultiplier
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = rand.Int64N
	}
	return o, nil
}

// A Process is one process's access to the buckets of a store. It is safe for concurrent
// use.
type Process struct {
	*calls.Crew
	memory.Clock

	Store      store.Store        // heals the images that it returns
	Leavable   bool               // whether Store observes a [calls.Leavable] in bucket writes
	Lister     store.BucketLister // nil if the store is none; its images are not healed
	Slots      store.SlotStore    // nil if the store is none
	SlotLister store.SlotLister   // as above
	Once       store.OnceStore    // nil if the store is none
	Config     *config.Reader
	Memory     int   // see [Options.Memory]
	Multiplier int64 // see [Options.TTLMultiplier]
	Logger     *slog.Logger
	Rand       func(n int64) int64
	Counts     Counts
	// OnHotPartition is called after the partition of a busy item of a bucket has throttled
	// a write. It must be set before the first write.
	OnHotPartition func(ctx context.Context, acct *memory.Account, b store.Bucket)

	// Ledger is what this process gets back if it is lost.
	Ledger *ledger.Book

	sequences *memory.Sequences
	unwatch   func()
	closes    atomic.Bool
	closed    chan struct{} // closed as Close ends, with err
	err       error
}

// Counts are what a process has done.
type Counts struct {
	Refused   atomic.Uint64 // requests refused from memory
	Carried   atomic.Uint64 // claims and adjustments that another caller's write included
	Gathered  atomic.Uint64 // requests that several shards served in one transaction
	Doublings atomic.Uint64 // how often a bucket got twice as many shards
	Merges    atomic.Uint64 // how often a bucket got half as many shards
	Throttled atomic.Uint64 // writes that the store rejected for their rate
	Braked    atomic.Uint64 // requests not sent because the store had just throttled
	Resent    atomic.Uint64 // writes sent again because an answer was lost
	SentOnce  atomic.Uint64 // writes that would not be, because their item has no room for a position
	Reclaimed atomic.Uint64 // writes whose tokens were returned because they had landed for nobody
	Healed    atomic.Uint64 // items whose stamp was moved back
}

// New returns a process that works on a store. It does no I/O.
func New(s store.Store, o Options) (*Process, error) {
	if s == nil {
		return nil, &store.ValidationError{Field: "store", Reason: "open one, with dynamo.Open for instance"}
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	immediate, ok := s.(store.ImmediateStore)
	leavable, _ := s.(interface{ Leavable() bool })
	p := &Process{
		Leavable: leavable != nil && leavable.Leavable() && o.Observer == nil,
		Crew:     calls.NewCrew(o.Timeout, ok && immediate.Immediate()), Clock: memory.NewClock(s.Now),
		Memory: o.Memory, Multiplier: int64(o.TTLMultiplier), Logger: o.Logger, Rand: o.Rand,
		sequences: memory.NewSequences(), unwatch: func() {}, closed: make(chan struct{}),
	}
	p.Ledger = ledger.New(p.sequences.Process)
	p.Store = newHealer(s, newObserved(s, o.Observer, p.Uptime), p)
	p.Lister, _ = s.(store.BucketLister)
	p.SlotLister, _ = s.(store.SlotLister)
	p.Slots = newObservedSlots(s, o.Observer, p.Uptime)
	p.Once = newObservedOnce(s, o.Observer, p.Uptime)
	p.Config = config.NewReader(p.Store, p.Uptime, o.ConfigTTL, o.Memory, o.TTLMultiplier >= 0)
	if w, ok := s.(store.ConfigWatcher); ok {
		p.unwatch = w.WatchConfig(p.Config.Evict)
	}
	return p, nil
}

// Close ends the process. Calls that begin from now on return [ErrClosed]. Close waits
// for the calls under way, and for work that goes on after calls have returned, but for
// no longer than twice the timeout. Then it cuts them off, and fails.
func (p *Process) Close() error {
	if p.closes.CompareAndSwap(false, true) {
		const most = 2
		p.unwatch()
		if p.Crew.Close(most*p.Time(), errCutOff) {
			p.err = fmt.Errorf("close: calls were cut off after %v, what they took may stay debited: %w", most*p.Time(), store.ErrUnavailable)
		}
		close(p.closed)
	}
	<-p.closed
	return p.err
}

// Verify reads what a bucket is to be, by a consistent read that begins now, and
// remembers it.
func (p *Process) Verify(ctx context.Context, acct *memory.Account, b store.Bucket) (*plan.Wanted, error) {
	w, err := p.Config.Reread(ctx, b.Entity, b.Resource)
	if err != nil {
		return nil, err
	}
	acct.Want(w)
	return w, nil
}
