package sim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
)

// A client is one process: a limiter on its own store, with a clock.
type client struct {
	w    *world
	name string
	// reliable: its requests meet no faults.
	reliable bool
	offset   func(at time.Duration) time.Duration

	store    *dynamo.Store
	limiter  *limiter.Limiter
	keeper   *upkeep.Keeper
	through  limiter.Store          // what the limiter and the keeper write to
	draw     func(int64) int64      // their choices
	follower *aggregator.Aggregator // nil if it follows no stream
	// aggregator: its refills do not count as writes.
	aggregator bool
	ttl        time.Duration  // of its cached configuration
	operates   bool           // it deletes buckets
	follows    bool           // it follows the stream, and serves no callers
	dated      bool           // its answers have dates
	keeps      bool           // its clock is what its store derives from dates and steps
	strays     bool           // its clock is far ahead, and nothing corrects it
	trust      time.Duration  // maximum age of an image for a refusal; negative is none
	maxWaiters int            // its limiter's bound on a line, 0 if it has the default
	waits      map[*call]bool // calls that wait, in line or not; the world's lock protects it
	shares     bool           // its callers share writes
	idle       *call          // stands for its work on behalf of no caller
	fuse       int            // the request with which it crashes; 0 is none. The world's lock protects it.
	seen       map[bucketID][]sighting
	unread     []time.Duration          // when reads of configuration failed; the world's lock protects it
	begun      map[string]time.Duration // when writes with a sequence were sent first; likewise

	dead chan struct{} // closed when it crashes
	once sync.Once

	readings readings // of the clock, if its answers have dates
	// told are the answers with dates: when each came, and how exactly it told the time. The
	// world's lock protects them.
	told []reading
}

// newClient starts a process. The requests that open its store meet no faults.
func newClient(w *world, name string, ttl time.Duration) *client {
	c := &client{w: w, name: name, ttl: max(0, ttl), reliable: true, dead: make(chan struct{}), seen: map[bucketID][]sighting{}, waits: map[*call]bool{}}
	c.idle = &call{name: name + "/background", kind: administering, client: c}
	c.offset = w.odds.clock(w.dice, name, w.now())
	right := name == peerName || strings.HasPrefix(name, granterName) // its store stamps by its local clock
	c.dated, c.strays = w.odds.dated && !right, name == strayName
	c.keeps = c.dated || w.odds.stepped && !right
	switch {
	case c.strays:
		c.dated, c.keeps, c.offset = false, false, func(time.Duration) time.Duration { return farAhead }
	case name == "admin": // its store stamps too, by its original clock
		c.offset = func(time.Duration) time.Duration { return 0 }
	case right && (w.odds.dated || w.odds.stepped):
		c.offset = func(time.Duration) time.Duration { return 0 }
	case strings.HasPrefix(name, granterName): // its store goes on by the time that passes
		off := c.offset(w.now())
		c.offset = func(time.Duration) time.Duration { return off }
	}
	ctx := context.WithValue(context.Background(), callKey{}, &call{name: "open"})
	var err error
	c.store, err = dynamo.Open(ctx, dynamo.Options{API: c.api(), Table: tableName, Now: c.clock})
	if err != nil {
		panic(fmt.Sprintf("open: %v", err))
	}
	var store limiter.Store = clocked{c.store, c}
	if carry := dice(w.dice.hash("carried", name)); w.broken.store != nil {
		store = w.broken.store(store)
	} else if w.odds.lone || carry.stream("whether").IntN(2) == 0 {
		store = carried{clocked{c.store, c}, testbed.Carrier{Odd: func() testbed.CarriedWay {
			return testbed.CarriedWay(max(0, int(carry.hash(fmt.Sprint(w.now()))%8)-5)) // mostly as usual
		}}}
	}
	d := dice(w.dice.hash("limiter", name))
	r := d.stream("options")
	c.trust = pick(r, limiter.DefaultTrust, limiter.DefaultTrust, -1)
	inFlight := -1
	switch {
	case w.odds.lone:
		inFlight = 0
	case w.odds.crowds:
		inFlight = pick(r, 0, 1, 1, -1)
	}
	c.shares = inFlight >= 0
	trust := c.trust
	if w.broken.trust != 0 {
		trust = w.broken.trust
	}
	options := limiter.Options{ConfigTTL: ttl, Trust: trust, InFlight: inFlight}
	if w.odds.patient {
		c.maxWaiters = pick(d.stream("waiters"), 0, 1, 2, 3)
		if options.MaxWaiters = c.maxWaiters; w.broken.unbounded {
			options.MaxWaiters = -1
		}
	}
	// A function of the instant, so that two goroutines may draw in either order.
	c.through, c.draw = store, func(n int64) int64 { return int64(d.hash(fmt.Sprint(w.now())) % uint64(n)) }
	options.Rand = c.draw
	c.limiter, err = limiter.New(store, options)
	if err != nil {
		panic(fmt.Sprintf("new limiter: %v", err))
	}
	c.keeper, err = upkeep.NewKeeper(store, process.Options{Rand: c.draw})
	if err != nil {
		panic(fmt.Sprintf("new keeper: %v", err))
	}
	c.reliable = false
	return c
}

// close ends what the process does.
func (c *client) close() error {
	if c.follower != nil {
		c.follower.Close()
	}
	return errors.Join(c.limiter.Close(), c.keeper.Close())
}

// clock is the process's local clock: the true time and its own error.
func (c *client) clock() time.Time {
	at := c.w.now()
	if calm := c.w.calm.Load(); calm != nil {
		at = *calm
	}
	off := c.offset(at)
	if !c.keeps {
		c.isOff(off)
	}
	return time.Now().Add(off)
}

// isOff records the error of the clock that stamps buckets.
func (c *client) isOff(by time.Duration) {
	if c.strays {
		return // no check measures by it
	}
	c.w.clocks.Lock()
	defer c.w.clocks.Unlock()
	c.w.lo, c.w.hi = min(c.w.lo, by), max(c.w.hi, by)
}

// clock is the error of one client's clock, as a function of the true time.
func (o odds) clock(d dice, name string, born time.Duration) func(time.Duration) time.Duration {
	if o.skew == 0 {
		return func(time.Duration) time.Duration { return 0 }
	}
	if o.stepped {
		return o.steppingClock(d, name, born)
	}
	r := d.stream("clock", name)
	start := span(r, -o.skew, o.skew)
	switch o.wandering {
	case driftingClock: // up and down between the extremes, like a saw with two slopes
		period := span(r, 10*time.Minute, 6*time.Hour)
		phase := span(r, 0, period)
		return func(at time.Duration) time.Duration {
			x := float64((at+phase)%period) / float64(period)
			if x > 0.5 {
				x = 1 - x
			}
			return time.Duration((4*x - 1) * float64(o.skew))
		}
	case jumpingClock:
		every := span(r, 10*time.Second, 10*time.Minute)
		return func(at time.Duration) time.Duration {
			return span(d.stream("jump", name, fmt.Sprint(at/every)), -o.skew, o.skew)
		}
	case fixedClock:
	}
	return func(time.Duration) time.Duration { return start }
}

// crash stops the process: requests already sent may arrive, and nothing else happens.
func (c *client) crash() {
	c.once.Do(func() {
		c.w.mu.Lock()
		c.w.crashes++
		c.w.mu.Unlock()
		close(c.dead)
	})
}

// burns reports whether a client crashes with its next request.
func (c *client) burns() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.fuse--
	return c.fuse == 0
}

func (c *client) standsStill() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

var errCrashed = errors.New("the process has crashed")

// gone stands still until the world ends.
func (c *client) gone() error {
	<-c.w.end
	return errCrashed
}

// answer returns an error to the process, if it still lives.
func (c *client) answer(err error) error {
	if c.standsStill() {
		return c.gone()
	}
	return err
}

// A call is one call of the limiter's API, and its answer.
type call struct {
	name   string // the caller, and the number of its call
	kind   kind
	client *client
	req    limiter.Request
	of     *call // the call whose lease it settles, extends or reduces
	// also are what a call asks of further resources, or settles of them, each as a call of its
	// own. with is the call that such a one is a part of; nil if it is none.
	also []*call
	with *call
	want map[string]int64 // commit, rollback, release: the tokens that the lease should keep

	// keeps is what an open lease should have in total, by its caller's own sums.
	keeps map[string]int64
	// lined are the process's callers that were in line when a wait began, if all of those
	// that had begun to wait were; queued is how many were.
	lined  []*call
	queued int

	start, end time.Duration
	deadline   time.Duration // 0 is none
	leaves     time.Duration // when the caller cancels; 0 is never

	answered bool // the client was alive to receive the answer
	lease    *limiter.Lease
	statuses []limiter.Status
	err      error

	grant *grant // what the call of an operator is to give
	marks bool   // an operator marks items: switches them, or moves their entity

	faults []fault
	// bypassed are the items of which it took while they were bypassed.
	bypassed map[bucketID]bool
}

type kind string

const (
	acquiring     kind = "acquire"
	waiting       kind = "wait"
	extending     kind = "take"
	releasing     kind = "release"
	asking        kind = "available"
	committing    kind = "commit"
	returning     kind = "rollback"
	administering kind = "admin"
)

// takes reports whether calls of the kind debit under enforcement.
func (k kind) takes() bool { return k.leases() || k == extending }

// leases reports whether calls of the kind return a lease.
func (k kind) leases() bool { return k == acquiring || k == waiting }

// A fault is a fault that a write of a call met.
type fault struct {
	at    time.Duration
	id    bucketID
	fault certainty
}

type certainty int

const (
	notApplied certainty = iota
	unknown
)

type callKey struct{}

// callOf returns the call that a request belongs to. The limiter passes its caller's
// context to the store, even if it continues without the caller. Only the doubling of a
// bucket with a throttled partition belongs to no call.
func (c *client) callOf(ctx context.Context) *call {
	if k, ok := ctx.Value(callKey{}).(*call); ok {
		return k
	}
	return c.idle
}

// met records that writes of the call to these items met a fault.
func (c *call) met(w *world, ids []bucketID, f certainty) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		for _, of := range c.on(id) {
			of.faults = append(of.faults, fault{w.now(), id, f})
		}
	}
}

// begin registers a call and makes its context.
func (c *call) begin(w *world) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, part := range c.parts() {
		part.start = w.now()
		w.calls = append(w.calls, part)
	}
	return context.WithValue(context.Background(), callKey{}, c)
}

// finish records the answer, unless the process has crashed.
func (c *call) finish(w *world, err error) {
	if c.client.standsStill() {
		return
	}
	w.mu.Lock()
	for _, part := range c.parts() {
		part.end, part.err, part.answered = w.now(), err, true
	}
	w.mu.Unlock()
	if w.broken.answer != nil {
		w.broken.answer(c)
	}
}

func (c *call) admitted() bool { return c.answered && c.lease != nil && !c.lease.Degraded() }
func (c *call) degraded() bool { return c.lease != nil && c.lease.Degraded() }

// refusal is the call's refusal, nil if it was not refused.
func (c *call) refusal() *limiter.ExceededError {
	exceeded := (*limiter.ExceededError)(nil)
	if c.answered && errors.As(c.err, &exceeded) {
		return exceeded
	}
	return nil
}

// amounts lists the request's amount of each limit.
func (c *call) amounts() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.req.Consume)) {
		fmt.Fprintf(&b, " %s=%d", name, c.req.Consume[name])
	}
	return b.String()
}

// String is the call in a trace. An error that quotes the namespace's random id appears as
// its condition.
func (c *call) String() string {
	s := fmt.Sprintf("%v %s %s %s %s%s", c.start, c.name, c.kind, c.req.Entity, c.req.Resource, c.amounts())
	if c.want != nil {
		s += fmt.Sprintf(" keep %v", c.want)
	}
	return fmt.Sprintf("%s -> %v %s", s, c.end, c.outcome())
}

func (c *call) outcome() string {
	switch e := c.refusal(); {
	case !c.answered:
		return "crashed"
	case e != nil:
		return "refused, wait " + e.RetryAfter().String()
	case c.err != nil:
		return "error: " + class(c.err)
	case c.degraded():
		return "degraded"
	}
	return "done"
}

func class(err error) string {
	if err == nil {
		return "<nil>"
	}
	for _, is := range []error{
		limiter.ErrExceeded, limiter.ErrClosed, limiter.ErrInvalid, limiter.ErrNotConfigured, limiter.ErrThrottled, limiter.ErrUnavailable, limiter.ErrConflict, limiter.ErrNotFound,
		limiter.ErrDisabled, limiter.ErrUnsupported, limiter.ErrLeaseClosed, limiter.ErrCorrupt, limiter.ErrAccessDenied,
		context.Canceled, context.DeadlineExceeded, errCrashed,
	} {
		if errors.Is(err, is) {
			return is.Error()
		}
	}
	return "unexpected: " + err.Error()
}
