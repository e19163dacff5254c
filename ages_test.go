package limiter_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A settable is a store of a user's own: it goes by the wall clock, which can be set.
type settable struct {
	limiter.Store
	ahead atomic.Int64
}

func (s *settable) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// set sets the clock to so much ahead of the right time.
func (s *settable) set(ahead time.Duration) { s.ahead.Store(int64(ahead)) }

// A trusted one says of any time that it is right.
type trusted struct{ *settable }

func (s trusted) CheckedNow() (now time.Time, checked bool) { return s.Now(), true }

// A walled is a process that goes by a wall clock, beside another one that goes by the
// right time.
type walled struct {
	*world
	clock *settable
	slow  *limiter.Limiter
	api   *tap // of the process
}

// inWall runs f with such a process, in a world whose system has limits.
func inWall(t *testing.T, f func(*walled), limits ...limiter.Limit) {
	t.Helper()
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.system(limits...)
		p := &walled{world: w, api: &tap{API: w.engine}}
		p.clock = &settable{Store: w.open(p.api)}
		p.slow = w.limiter(p.clock, limiter.Options{})
		f(p)
	})
}

// asks reports whether the process sends a request when it acquires.
func (p *walled) asks(req limiter.Request) bool {
	p.Helper()
	p.api.take()
	p.take(p.slow, req)
	return len(p.api.take()) > 0
}

// capacity is the capacity by which the process decides.
func (p *walled) capacity() int64 {
	p.Helper()
	lease, err := p.slow.Acquire(p.Context(), ask("user", "rph", 1))
	p.must(err)
	p.must(lease.Commit(p.Context()))
	return lease.Statuses()[0].Limit.Capacity
}

// reads is how many reads the process sends when it acquires.
func (p *walled) reads() (n int) {
	p.Helper()
	p.api.take()
	p.take(p.slow, ask("user", "rph", 1))
	p.slow.Settle()
	for _, s := range p.api.take() {
		if s.op == "BatchGetItem" {
			n++
		}
	}
	return n
}

// A process that refuses from memory asks again within the time of trust, whatever its
// wall clock is set to.
func TestARefusalFromMemoryEndsAfterAStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				lease, err := p.Acquire(p.Context(), ask("user", "rpd", 10))
				p.must(err)
				p.take(p.slow, ask("user", "rpd", 5))
				if p.asks(ask("user", "rpd", 5)) {
					p.Error("the store was asked about what had just been seen")
				}
				p.clock.set(step)
				p.must(lease.Rollback(p.Context()))
				if p.asks(ask("user", "rpd", 5)) {
					p.Error("the store was asked because the clock was set")
				}
				time.Sleep(limiter.DefaultTrust + time.Millisecond)
				if refused := p.take(p.slow, ask("user", "rpd", 5)); refused != nil {
					p.Errorf("what was returned is not seen: %v", refused)
				}
			}, limiter.PerDay("rpd", 10))
		})
	}
}

// A brake ends, whatever the wall clock is set to, and is kept until then.
func TestABrakeEndsAfterAStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				p.take(p.slow, ask("user", "rph", 1))
				p.api.turn(func(int) error { return busyError() })
				throttled := func() bool {
					_, err := p.slow.Acquire(p.Context(), ask("user", "rph", 1))
					if !errors.Is(err, limiter.ErrThrottled) {
						p.Fatalf("got %v, want throttled", err)
					}
					return len(p.api.take()) > 0
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
				p.api.turn(nil)
				time.Sleep(time.Second)
				p.take(p.slow, ask("user", "rph", 1))
			}, hourly)
		})
	}
}

// A limiter follows what another process configures within the time to live, and reads it
// no more often than that, whatever the wall clock is set to.
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
					p.must(other.SetSystem(p.Context(), []limiter.Limit{limiter.PerHour("rph", 2000)}, ""))
					time.Sleep(limiter.DefaultConfigTTL)
					if got := p.capacity(); got != 2000 {
						p.Errorf("the capacity is %d after the time to live, want 2000", got)
					}
				}
			}, limiter.PerHour("rph", 1000))
		})
	}
}

// A bucket that was found disabled is looked at again within the time to live.
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

// meets has two processes write to the user's bucket until the first one has noticed.
func (p *walled) meets(l *limiter.Limiter) {
	p.Helper()
	for n := 0; !l.IsShared(theBucket); n++ {
		if n == 100 {
			p.Fatal("the other one was not noticed")
		}
		p.take(p.Limiter, ask("user", "rps", 1))
		p.take(l, ask("user", "rps", 1))
	}
}

var theBucket = limiter.Bucket{Entity: "user", Resource: "gpt-4"}

// Other writers are forgotten when they have gone, and no sooner.
func TestContentionIsForgottenAfterAStep(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWall(t, func(p *walled) {
				p.meets(p.slow)
				p.clock.set(step)
				if !p.slow.IsShared(theBucket) {
					p.Error("the other one is forgotten at once")
				}
				time.Sleep(2 * time.Second)
				if p.slow.IsShared(theBucket) {
					p.Error("the other one is remembered for ever")
				}
			}, limiter.PerSecond("rps", 1000))
		})
	}
}

// A writer to a scarce bucket pauses for no longer because its clock was set.
func TestAPauseEndsAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		l := p.limiter(p.clock, limiter.Options{Trust: -1})
		p.meets(l)
		p.take(l, ask("user", "rps", int(p.available("user", "rps"))))
		p.clock.set(-time.Hour)
		start := time.Now()
		p.take(l, ask("user", "rps", 1))
		if took := time.Since(start); took > time.Second {
			p.Errorf("it paused for %v", took)
		}
	}, limiter.PerSecond("rps", 100))
}

// A bucket may be doubled again when the last doubling has had its effect.
func TestABucketIsDoubledAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		p.take(p.slow, ask("user", "rph", 1))
		double := func() bool {
			p.exhaust("user", 100_000)
			img := p.shards("user")[0]
			done, err := p.slow.Double(p.Context(), img, time.UnixMilli(img.RefilledAt))
			p.must(err)
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

// An item that has to be healed again is healed after the pause.
func TestAnItemIsHealedAgainAfterAStep(t *testing.T) {
	inWall(t, func(p *walled) {
		l := p.limiter(trusted{p.clock}, limiter.Options{})
		heals := func() bool {
			before := l.Stats().Healed
			p.take(l, ask("user", "rph", 1))
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
	}, limiter.PerHour("rph", 1000))
}
