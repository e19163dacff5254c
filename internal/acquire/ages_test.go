package acquire_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A settable is a store with its own wall clock, which a test can set.
type settable struct {
	limiter.Store
	ahead atomic.Int64
}

func (s *settable) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// set moves the clock ahead of the right time.
func (s *settable) set(ahead time.Duration) { s.ahead.Store(int64(ahead)) }

// A trusted store reports every time as checked.
type trusted struct{ *settable }

func (s trusted) CheckedNow() (now time.Time, checked bool) { return s.Now(), true }

// A walled is a process that reads the wall clock. It runs beside another process that
// has the right time.
type walled struct {
	*world
	clock *settable
	slow  *limiter.Limiter
	api   *faults.Tap // the API of the process
}

// inWall runs f with such a process, in a world with limits at the system level.
func inWall(t *testing.T, f func(*walled), limits ...limiter.Limit) {
	t.Helper()
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.System(limits...)
		p := &walled{world: w, api: faults.NewTap(w.Engine)}
		p.clock = &settable{Store: w.OpenOn(p.api)}
		p.slow = w.NewLimiter(p.clock, limiter.Options{})
		f(p)
	})
}

// asks reports whether the process sends a request when it acquires.
func (p *walled) asks(req limiter.Request) bool {
	p.Helper()
	bucketRequests(p.api)
	p.Take(p.slow, req)
	return len(bucketRequests(p.api)) > 0
}

// capacity returns the capacity on which the process bases its decisions.
func (p *walled) capacity() int64 {
	p.Helper()
	lease, err := p.slow.Acquire(p.Context(), ask("user", "rph", 1))
	p.Must(err)
	p.Must(lease.Commit(p.Context()))
	return lease.Statuses()[0].Limit.Capacity
}

// reads counts the reads that the process sends when it acquires.
func (p *walled) reads() (n int) {
	p.Helper()
	bucketRequests(p.api)
	p.Take(p.slow, ask("user", "rph", 1))
	driverOf(p.slow).Settle()
	for _, s := range bucketRequests(p.api) {
		if s.Op == "BatchGetItem" {
			n++
		}
	}
	return n
}

// A process that refuses from memory asks the store again within the time of trust,
// even after its wall clock was set.
func TestARefusalFromMemoryEndsAfterAStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				lease, err := p.Acquire(p.Context(), ask("user", "rpd", 10))
				p.Must(err)
				p.Take(p.slow, ask("user", "rpd", 5))
				if p.asks(ask("user", "rpd", 5)) {
					p.Error("the store was asked about what had just been seen")
				}
				p.clock.set(step)
				p.Must(lease.Rollback(p.Context()))
				if p.asks(ask("user", "rpd", 5)) {
					p.Error("the store was asked because the clock was set")
				}
				time.Sleep(limiter.DefaultTrust + time.Millisecond)
				if refused := p.Take(p.slow, ask("user", "rpd", 5)); refused != nil {
					p.Errorf("what was returned is not seen: %v", refused)
				}
			}, limiter.PerDay("rpd", 10))
		})
	}
}

// A brake lasts its full time and then ends, even after the wall clock was set.
func TestABrakeEndsAfterAStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				p.Take(p.slow, ask("user", "rph", 1))
				p.api.Set(fullShards(func(int) error { return faults.BusyTable() }))
				throttled := func() bool {
					_, err := p.slow.Acquire(p.Context(), ask("user", "rph", 1))
					if !errors.Is(err, limiter.ErrThrottled) {
						p.Fatalf("got %v, want throttled", err)
					}
					return len(bucketRequests(p.api)) > 0
				}
				for range 10 { // up to the longest interval
					throttled()
					time.Sleep(time.Second)
				}
				throttled()
				p.clock.set(step)
				if throttled() {
					p.Error("the store was asked because the clock was set")
				}
				p.api.Set(nil)
				time.Sleep(time.Second)
				p.Take(p.slow, ask("user", "rph", 1))
			}, hourly)
		})
	}
}

// A limiter follows another process's configuration within the time to live, even after
// its wall clock was set. It reads the configuration no more often than that.
func TestConfigurationIsFollowedAfterAStep(t *testing.T) {
	for name, steps := range map[string][]time.Duration{
		"back": {-time.Hour}, "forward": {time.Hour}, "forward and back": {time.Hour, 0}, "back and forth": {-time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				other := p.elsewhere()
				p.reads()
				for i, step := range steps {
					p.clock.set(step)
					if n := p.reads(); n != 0 {
						p.Errorf("%d reads because the clock was set to %v", n, step)
					}
					if i < len(steps)-1 {
						continue
					}
					p.Must(other.SetSystem(p.Context(), []limiter.Limit{limiter.PerHour("rph", 2000)}, ""))
					time.Sleep(limiter.DefaultConfigTTL)
					if got := p.capacity(); got != 2000 {
						p.Errorf("the capacity is %d after the time to live, want 2000", got)
					}
				}
			}, limiter.PerHour("rph", 1000))
		})
	}
}

// A process reads a disabled bucket again within the time to live, even after its wall
// clock was set.
func TestADisabledBucketIsLookedAtAgainAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		k := limiter.ConfigKey{Resource: "gpt-4"}
		p.switchOff(k, true)
		p.disabled(p.slow, ask("user", "rph", 1), true, "switched off")
		p.clock.set(-time.Hour)
		p.switchOff(k, false)
		time.Sleep(limiter.DefaultConfigTTL)
		p.disabled(p.slow, ask("user", "rph", 1), false, "switched on")
	}, limiter.PerHour("rph", 1000))
}

// meets makes two processes write to the user's bucket until the first one has noticed
// the other.
func (p *walled) meets(l *limiter.Limiter) {
	p.Helper()
	for n := 0; !driverOf(l).IsShared(theBucket); n++ {
		if n == 100 {
			p.Fatal("the other one was not noticed")
		}
		p.Take(p.Limiter, ask("user", "rps", 1))
		p.Take(l, ask("user", "rps", 1))
	}
}

var theBucket = limiter.Bucket{Entity: "user", Resource: "gpt-4"}

// A process forgets other writers after they have gone, and not earlier.
func TestContentionIsForgottenAfterAStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				p.meets(p.slow)
				p.clock.set(step)
				if !driverOf(p.slow).IsShared(theBucket) {
					p.Error("the other one is forgotten at once")
				}
				time.Sleep(5 * time.Second)
				if driverOf(p.slow).IsShared(theBucket) {
					p.Error("the other one is remembered for ever")
				}
			}, limiter.PerSecond("rps", 1000))
		})
	}
}

// A pause of a writer to a scarce bucket does not get longer because the clock was set.
func TestAPauseEndsAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		l := p.NewLimiter(p.clock, limiter.Options{Trust: -1})
		p.meets(l)
		p.Take(l, ask("user", "rps", p.Balance("user", "rps")))
		p.clock.set(-time.Hour)
		start := time.Now()
		p.Take(l, ask("user", "rps", 1))
		if took := time.Since(start); took > time.Second {
			p.Errorf("it paused for %v", took)
		}
	}, limiter.PerSecond("rps", 100))
}

// A bucket can be doubled again once the last doubling has had its effect.
func TestABucketIsDoubledAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		p.Take(p.slow, ask("user", "rph", 1))
		double := func() bool {
			p.exhaust("user", 100_000)
			img := p.Images("user")[0]
			done, err := driverOf(p.slow).Double(p.Context(), img, time.UnixMilli(img.RefilledAt))
			p.Must(err)
			return done
		}
		if !double() || p.count() != 2 {
			p.Fatalf("%d shards, want 2", p.count())
		}
		p.clock.set(-time.Hour)
		if double() {
			p.Error("doubled again at once")
		}
		time.Sleep(time.Second)
		if !double() || p.count() != 4 {
			p.Errorf("%d shards, want 4", p.count())
		}
	}, limiter.PerHour("rph", 96_000))
}

// An item that needs healing again is healed after the pause.
func TestAnItemIsHealedAgainAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		l := p.NewLimiter(trusted{p.clock}, limiter.Options{})
		heals := func() bool {
			before := l.Stats().Healed
			p.Take(l, ask("user", "rph", 1))
			return l.Stats().Healed > before
		}
		heals()
		p.advance(0, time.Hour)
		time.Sleep(time.Second)
		if !heals() {
			p.Fatal("not healed")
		}
		p.clock.set(-time.Hour)
		time.Sleep(time.Second)
		if heals() {
			p.Error("healed again at once")
		}
		time.Sleep(30 * time.Second)
		if !heals() {
			p.Error("not healed after the pause")
		}
	}, limiter.PerHour("rph", 1000, limiter.Burst(5000))) // what is left after a healing serves the next request
}
