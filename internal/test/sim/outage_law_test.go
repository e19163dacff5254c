package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// An outageRun is a fleet of processes that lose the table together, some times, and find it again.
// Their callers take, adjust and roll back all the time. They share: each admits its part of the limit
// meanwhile. The seed draws the fleet, the limit, the callers, and in which way the table is away.
//
// The laws are those that docs/outages.md publishes:
//
//   - bounded: in an outage, no more is admitted than R / N · (seen + rate · T). Where the table comes and
//     goes, each process that loses it again has an N-th of what it saw meanwhile, besides;
//   - once: in the end the table has counted what was admitted, but for calls that the cut met;
//   - back: a second after the table is back, each process has found it, and none has lost a debt.
type outageRun struct {
	*testbed.World

	r                  *rand.Rand
	limit              limiter.Limit
	processes, assumed int
	line               faults.Slot
	fleet              []*limiter.Limiter
	broken             brokenOutage

	mu       sync.Mutex
	taken    int64            // net, by all leases
	degraded int64            // of these, in outages
	cut      int64            // asked for by calls that the cut met
	isLost   map[int]struct{} // processes that have not found out yet
	found    []string         // laws that were broken
}

// A brokenOutage is what is wrong with a run, for the self-test.
type brokenOutage struct {
	store     func(*dynamo.Store) limiter.Store
	processes int           // what the limiters are told, in place of what the law takes for N
	timeout   time.Duration // of the limiters
}

// A renaming store settles under another key each time, so that a repeated payment is a new one.
type renaming struct {
	*dynamo.Store

	mu sync.Mutex
	n  int
}

func (f *renaming) SettleOnce(ctx context.Context, s *store.Settlement) (store.SettledOnce, error) {
	f.mu.Lock()
	f.n++
	other := *s
	other.Record.Key += strconv.Itoa(f.n)
	f.mu.Unlock()
	return f.Store.SettleOnce(ctx, &other)
}

// A silentPayer says that it has settled, and has not.
type silentPayer struct{ *dynamo.Store }

func (silentPayer) SettleOnce(context.Context, *store.Settlement) (store.SettledOnce, error) {
	return store.SettledOnce{Joint: store.Joint{Applied: true}}, nil
}

var (
	errNoRoute = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")} // nothing was sent
	errCutOff  = errors.New("connection reset by peer")
)

// runOutages plays a seed, and returns the laws that it broke.
func runOutages(t *testing.T, seed uint64, broken brokenOutage) (found []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &outageRun{r: rand.New(rand.NewPCG(seed, 61)), broken: broken}
		o.World = testbed.New(t, testbed.Options{Remote: true})
		o.play()
		found = o.found
	})
	return found
}

func (o *outageRun) report(law, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.found = append(o.found, law+": "+fmt.Sprintf(format, args...))
}

func (o *outageRun) play() {
	o.processes = 1 + o.r.IntN(8)
	o.assumed = max(1, o.processes*pick(o.r, 1, 1, 2, 4)/2)
	rate := int64(10 + o.r.IntN(40))
	o.limit = limiter.PerSecond("n", rate, limiter.Burst(rate*int64(1+o.r.IntN(10))))
	o.System(o.limit)
	told := o.assumed
	if o.broken.processes != 0 {
		told = o.broken.processes
	}
	for range o.processes {
		s := o.OpenOn(faults.Wrap(o.Engine, faults.Latency(span(o.r, time.Millisecond, 20*time.Millisecond)), o.line.Apply))
		through := limiter.Store(s)
		if o.broken.store != nil {
			through = o.broken.store(s)
		}
		l := o.NewLimiter(through, limiter.Options{Timeout: o.broken.timeout, Share: limiter.ShareOptions{Processes: told}})
		o.Take(l, testbed.Ask("user", "n", 0))
		o.fleet = append(o.fleet, l)
	}
	ctx, stop := context.WithCancel(o.Context())
	var callers sync.WaitGroup
	for i := range o.fleet {
		for range 2 {
			seed := o.r.Uint64()
			callers.Go(func() { o.call(ctx, i, rand.New(rand.NewPCG(seed, 1))) })
		}
	}
	time.Sleep(span(o.r, 5*time.Second, 15*time.Second))
	for range 1 + o.r.IntN(3) {
		o.outage()
		time.Sleep(span(o.r, 2*time.Second, 15*time.Second))
	}
	stop()
	callers.Wait()
	time.Sleep(10 * time.Second) // for what goes on in the background
	o.judge()
}

// call is a caller: it takes and waits, and adjusts or rolls back some leases.
func (o *outageRun) call(ctx context.Context, process int, r *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(span(r, 20*time.Millisecond, 200*time.Millisecond))
		asked := 1 + r.Int64N(3)
		req := testbed.Ask("user", "n", asked)
		req.OnUnavailable = limiter.Share
		o.mu.Lock()
		_, before := o.isLost[process]
		o.mu.Unlock()
		lease, err := o.fleet[process].Acquire(o.Context(), req) //nolint:contextcheck // the end of the run ends no call
		o.mu.Lock()
		_, after := o.isLost[process]
		switch {
		case before || after:
			o.cut += 2 * asked // an adjustment may be lost, too
		}
		if err == nil && lease.Degraded() || errors.Is(err, limiter.ErrExceeded) && isDegraded(err) {
			delete(o.isLost, process)
		}
		o.mu.Unlock()
		if err != nil {
			continue
		}
		o.note(lease, asked)
		time.Sleep(span(r, 0, 100*time.Millisecond))
		o.settle(lease, asked, r) //nolint:contextcheck // as above
	}
}

func isDegraded(err error) bool {
	refusal, is := errors.AsType[*limiter.ExceededError](err)
	return is && refusal.Degraded
}

// settle ends a lease in some way.
func (o *outageRun) settle(lease *limiter.Lease, asked int64, r *rand.Rand) {
	var by int64
	switch r.IntN(4) {
	case 0:
		by = -asked
		o.note(lease, by) // what comes back may be taken again at once
		if lease.Rollback(o.Context()) == nil {
			return
		}
	case 1:
		by = -r.Int64N(asked + 1)
		o.note(lease, by)
		if errors.Join(lease.Adjust("n", by), lease.Commit(o.Context())) == nil {
			return
		}
	default:
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut -= by // nobody knows whether it was returned
}

func (o *outageRun) note(lease *limiter.Lease, tokens int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taken += tokens; lease.Degraded() {
		o.degraded += tokens
	}
}

// outage takes the table away, and judges what is admitted until all have found it again.
func (o *outageRun) outage() {
	away := span(o.r, 2*time.Second, time.Minute)
	how := pick(o.r, faults.Fail(errNoRoute), faults.Hang, faults.LoseAnswer(errCutOff))
	o.mu.Lock()
	before, losses := o.degraded, o.losses()
	o.isLost = map[int]struct{}{}
	for i := range o.fleet {
		o.isLost[i] = struct{}{}
	}
	o.mu.Unlock()
	o.line.Set(how)
	time.Sleep(25 * time.Millisecond) // answers under way have come
	var seen float64
	for _, img := range o.Images("user") { // nobody sees more from now on than there is
		s, _ := img.Limit("n")
		seen += float64(s.Tokens)/1000 + float64(o.limit.Amount)*float64(time.Now().UnixMilli()-img.RefilledAt)/1000
	}
	// A process saw at most what was there: what is there now, and what was taken since it looked. It
	// looks several times a second, unless it refuses from memory, for up to a second.
	seen = min(float64(o.limit.Capacity), seen+2*float64(o.limit.Amount)+float64(6*len(o.fleet)))
	time.Sleep(away)
	if o.r.IntN(2) == 0 { // payments are applied, and their answers are lost
		o.line.Set(faults.On(faults.LoseAnswer(errCutOff), "TransactWriteItems"))
		time.Sleep(2 * time.Second)
		away += 2 * time.Second
	}
	o.line.Set(nil)
	time.Sleep(time.Second)
	for i, l := range o.fleet {
		if st := l.Stats(); st.Away || st.DegradedLost != 0 {
			o.report("back", "process %d, a second after the table is back: %+v", i, st)
		}
	}
	o.mu.Lock()
	admitted := float64(o.degraded - before)
	o.mu.Unlock()
	again := max(0, o.losses()-losses-o.processes) // losses of a table that was back for a moment
	shares := float64(o.processes)*(seen+float64(o.limit.Amount)*(away.Seconds()+1)) + float64(again)*float64(o.limit.Capacity)
	if bound := shares/float64(o.assumed) + 3; admitted > bound {
		o.report("bounded", "%.0f admitted by %d processes that take themselves for %d in %v, of %v, the bound is %.0f", admitted, o.processes, o.assumed, away, o.limit, bound)
	}
}

// losses is how often processes have lost the table.
func (o *outageRun) losses() (sum int) {
	for _, l := range o.fleet {
		sum += int(l.Stats().Outages) //nolint:gosec // a few
	}
	return sum
}

// judge compares what the table has counted with what was admitted.
func (o *outageRun) judge() {
	var counted int64
	for _, img := range o.Images("user") {
		s, _ := img.Limit("n")
		counted += s.Consumed / 1000
	}
	if off := counted - o.taken; off > o.cut || -off > o.cut {
		o.report("once", "%d are counted of %d, and calls for %d were cut off", counted, o.taken, o.cut)
	}
}

// Outages with shares keep their laws.
func TestSimOutages(t *testing.T) {
	t.Parallel()
	for i := range uint64(many() * 2) {
		t.Run(fmt.Sprint("seed ", *firstSeed+i), func(t *testing.T) {
			t.Parallel()
			for _, law := range runOutages(t, *firstSeed+i, brokenOutage{}) {
				t.Error(law)
			}
		})
	}
}

// Each law finds what breaks it.
func TestSimFindsBrokenOutages(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		brokenOutage

		law string
	}{
		"pays again":   {brokenOutage{store: func(s *dynamo.Store) limiter.Store { return &renaming{Store: s} }}, "once"},
		"never pays":   {brokenOutage{store: func(s *dynamo.Store) limiter.Store { return silentPayer{s} }}, "once"},
		"is alone":     {brokenOutage{processes: 1}, "bounded"},
		"waits longer": {brokenOutage{timeout: 20 * time.Second}, "back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(60) {
				for _, found := range runOutages(t, seed+1, of.brokenOutage) {
					if found[:len(of.law)] == of.law {
						return
					}
				}
			}
			t.Errorf("no seed broke the law %q", of.law)
		})
	}
}
