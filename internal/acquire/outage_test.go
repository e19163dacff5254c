package acquire_test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A severed is processes that lose the table together, and find it together.
type severed struct {
	*world
	away faults.Slot
	all  []*limiter.Limiter
}

var (
	errNoRoute = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")} // nothing was sent
	errCut     = errors.New("connection reset by peer")
)

// inSevered runs f in a bubble with n processes that share. An answer of the table takes 10 ms.
func inSevered(t *testing.T, n int, o limiter.Options, f func(*severed)) {
	t.Helper()
	inWorld(t, limiter.Options{}, func(w *world) {
		s := &severed{world: w}
		for range n {
			s.all = append(s.all, w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, faults.Latency(10*time.Millisecond), s.away.Apply)), o))
		}
		f(s)
	})
}

// lose takes the table away in some way.
func (d *demand) lose(how faults.Hook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = time.Now()
	d.away.Set(how)
}

// find brings it back.
func (f *severed) find() { f.away.Set(nil) }

func (f *severed) sum(of func(limiter.Stats) int64) (n int64) {
	for _, l := range f.all {
		n += of(l.Stats())
	}
	return n
}

func sharing(req limiter.Request) limiter.Request {
	req.OnUnavailable = limiter.Share
	return req
}

// lastSeen is what a process saw last of an entity's limit, in tokens.
func lastSeen(l *limiter.Limiter, entity, limit string) (tokens float64) {
	seen, _ := driverOf(l).Memory(limiter.Bucket{Entity: entity, Resource: "gpt-4"}).LastSeen()
	for _, s := range seen {
		for i := range s.Image.Limits {
			if st := &s.Image.Limits[i]; st.Name == limit {
				tokens += max(0, float64(min(st.Capacity, st.Tokens+(s.At.Now-s.Image.RefilledAt)*st.Amount/st.Period)))
			}
		}
	}
	return tokens / 1000
}

// A demand is callers of all processes that ask for a token at intervals, until it is stopped. It
// notes what was admitted, and in which way.
type demand struct {
	*severed

	stop     chan struct{}
	done     sync.WaitGroup
	mu       sync.Mutex
	admitted map[bool]int // by whether the lease was degraded
	others   map[string]int
	normal   time.Time // when the last normal answer came: a lease or a refusal of the store
	lost     time.Time // when the table was lost
	cut      int       // calls that were under way then, or came before their process knew
}

func (f *severed) demand(entity string, every time.Duration) *demand {
	d := &demand{severed: f, stop: make(chan struct{}), admitted: map[bool]int{}, others: map[string]int{}}
	for i, l := range f.all {
		d.done.Go(func() {
			time.Sleep(time.Duration(i) * every / time.Duration(len(f.all)))
			for {
				select {
				case <-d.stop:
					return
				case <-time.After(every):
				}
				d.done.Go(func() { d.ask(l, entity) })
			}
		})
	}
	return d
}

func (d *demand) ask(l *limiter.Limiter, entity string) {
	knew := l.Stats().Outages > 0
	lease, err := l.Acquire(d.Context(), sharing(ask(entity, "rps", 1)))
	refused, is := errors.AsType[*limiter.ExceededError](err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !knew && !d.lost.IsZero() {
		d.cut++
	}
	switch {
	case err == nil:
		d.admitted[lease.Degraded()]++
		if !lease.Degraded() {
			d.normal = time.Now()
		}
	case is && !refused.Degraded:
		d.normal = time.Now()
	case is:
	default:
		d.others[limiter.ErrorKind(err)]++
	}
}

// end stops the demand, and waits for its calls and for the work behind them.
func (d *demand) end() {
	close(d.stop)
	d.done.Wait()
	for _, l := range d.all {
		driverOf(l).Settle()
	}
}

func (d *demand) count() (normal, degraded int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.admitted[false], d.admitted[true]
}

// outages are the ways in which a table is away. landed says that what is under way as the network
// is cut takes effect.
var outages = map[string]faults.Hook{
	"refused":    faults.Fail(errNoRoute),
	"silent":     faults.Hang,
	"half a way": faults.After(func(*faults.Call, error) error { return errCut }),
}

// A call that the cut met counts as taken, as ever: its tokens are debited if its write took effect,
// whether the share then admitted it or not, and not again.
//
// Eight processes lose the table for some time, while they ask for more than a limit has. They admit
// no more than the published bound, whatever number of processes each takes the fleet for. When the
// table is back, all of them are at it within a second, and it has been debited of all that they
// admitted, once.
func TestAnOutageIsBounded(t *testing.T) {
	const rate, processes = 20, 8
	for name, how := range outages {
		for _, assumed := range []int{4, 8, 16} {
			for _, away := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%s for %v, %d of %d", name, away, assumed, processes), func(t *testing.T) {
					inSevered(t, processes, limiter.Options{Share: limiter.ShareOptions{Processes: assumed}}, func(f *severed) {
						f.System(limiter.PerSecond("rps", rate, limiter.Burst(100)))
						f.warmAll("user")
						began := time.Now()
						d := f.demand("user", time.Second/5) // twice as much as there is
						time.Sleep(20 * time.Second)         // the burst is used up
						seen := 0.0
						for _, l := range f.all {
							seen += lastSeen(l, "user", "rps")
						}
						before, _ := d.count()
						d.lose(how)
						time.Sleep(away)
						f.find()
						back := time.Now()
						time.Sleep(time.Second)
						d.mu.Lock()
						if !d.normal.After(back) {
							f.Errorf("no normal answer within a second")
						}
						d.mu.Unlock()
						time.Sleep(20 * time.Second)
						d.end()
						normal, degraded := d.count()
						ratio, lasts := float64(processes)/float64(assumed), away.Seconds()+1 // until all have found the table
						if bound := seen/float64(assumed) + ratio*rate*lasts; float64(degraded) > bound {
							f.Errorf("%d were admitted, the bound is %.0f", degraded, bound)
						}
						in := 100 + rate*(time.Since(began).Seconds()+1) // one second more while some still share
						if most := in + seen/float64(assumed) + max(0, ratio-1)*rate*lasts; float64(normal+degraded) > most {
							f.Errorf("%d were admitted in all, the bound is %.0f", normal+degraded, most)
						}
						if least := min(ratio, 2) * rate * (away.Seconds() - 6); float64(degraded) < least*0.9 {
							f.Errorf("%d were admitted, which is less than %.0f", degraded, least)
						}
						consumed := f.consumedOf("user", "rps")
						switch more := consumed - int64(normal+degraded); {
						case name == "refused" && more != 0, name == "silent" && more > 0, name == "half a way" && more < 0, more > int64(d.cut), -more > int64(d.cut):
							f.Errorf("%d were admitted, %d of them before, and %d are counted; %d were cut off: %v", normal+degraded, before, consumed, d.cut, d.others)
						}
						if n := f.sum(func(s limiter.Stats) int64 { return s.DegradedSpent }); n > int64(degraded+processes) || f.sum(func(s limiter.Stats) int64 { return s.DegradedLost }) != 0 {
							f.Errorf("%d of %d are reported", n, degraded)
						}
					})
				})
			}
		}
	}
}

// warmAll lets every process see the bucket.
func (f *severed) warmAll(entity string) {
	f.Helper()
	for _, l := range f.all {
		f.Take(l, ask(entity, "rps", 0))
	}
}

// consumedOf is what the items of an entity's bucket have counted, in tokens.
func (f *severed) consumedOf(entity, limit string) (tokens int64) {
	f.Helper()
	for _, img := range f.Images(entity) {
		s, _ := img.Limit(limit)
		tokens += s.Consumed
	}
	return tokens / 1000
}
