package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A demand is a run of steady demand on one bucket, above every limit's rate.
type demand struct {
	name   string
	limits []limiter.Limit
	lasts  time.Duration
	shards int // the bucket's initial shards; 0 leaves it to the limiter
	// waits: callers ask again after their quoted wait. They must do so if a capacity of
	// one token overflows whenever no caller takes it.
	waits     bool
	followers int // aggregators
}

// demanders is the number of clients with demand.
const demanders = 8

var demands = []demand{
	{
		"a second's limit beside a day's", []limiter.Limit{
			limiter.PerSecond("rps", 1, limiter.Burst(10)), limiter.PerDay("daily", 10), limiter.Custom("odd", 7, 13*time.Second, limiter.Burst(20)),
		}, 45 * time.Minute, 0, false, 0,
	},
	{
		"an hour's limit beside a day's, for weeks", []limiter.Limit{
			limiter.PerHour("hourly", 3, limiter.Burst(9)), limiter.PerDay("daily", 10),
		}, 40 * 24 * time.Hour, 0, false, 0,
	},
}

// admit plays a demand and counts, by limit, the tokens granted to clients.
func (d demand) admit(t *testing.T, seed uint64, broken breakage) map[string]int64 {
	t.Helper()
	total := map[string]int64{}
	synctest.Test(t, func(*testing.T) {
		p := newPlay(seed, odds{skew: 5 * time.Second, followers: d.followers}, broken)
		p.ttl = time.Minute
		p.setUp()
		ctx := context.WithValue(context.Background(), callKey{}, &call{name: "steady", kind: administering, client: p.admin})
		p.set(ctx, limiter.ConfigKey{Resource: "api"}, d.limits)
		if d.shards > 0 {
			p.doubleTo(bucketKey{"solo", "api"}, d.shards, 120)
			if n := p.w.items[bucketKey{"solo", "api"}.shard(d.shards-1)]; n == nil {
				panic("there are fewer shards than were to be")
			}
		}
		unaccompanied := p.accompany()
		var wg sync.WaitGroup
		var mu sync.Mutex
		until := p.w.now() + d.lasts
		for i := range demanders {
			p.w.sleep(time.Millisecond)
			c := newClient(p.w, fmt.Sprint("c", i), p.ttl)
			p.cast = append(p.cast, c)
			for _, l := range d.limits {
				wg.Go(func() {
					n := c.demand(l, d.waits, until, p.w.dice.stream("demand", c.name, l.Name))
					mu.Lock()
					defer mu.Unlock()
					total[l.Name] += n
				})
			}
		}
		wg.Wait()
		unaccompanied()
		close(p.w.end)
		p.workers.Wait()
		for _, c := range p.cast {
			must(c.close())
		}
	})
	return total
}

// demand asks for one token at a time; all clients together ask for a third more than the
// limit earns.
func (c *client) demand(l limiter.Limit, waits bool, until time.Duration, r *rand.Rand) (admitted int64) {
	req := limiter.Request{Entity: "solo", Resource: "api", Consume: map[string]int64{l.Name: 1}}
	pause := min(l.Period*demanders*3/4/time.Duration(l.Amount), until/10)
	told := time.Duration(0)
	for n := 0; ; n++ {
		if waits {
			c.w.sleep(told)
		} else {
			c.w.sleep(span(r, pause/2, pause*3/2))
		}
		if c.w.now() > until {
			return admitted
		}
		call := &call{name: fmt.Sprintf("%s/%s#%d", c.name, l.Name, n), client: c, req: req}
		ctx := context.WithValue(context.Background(), callKey{}, call)
		_, err := c.limiter.Acquire(ctx, req)
		exceeded := (*limiter.ExceededError)(nil)
		switch told = 0; {
		case err == nil:
			admitted++
		case errors.As(err, &exceeded):
			told = exceeded.RetryAfter()
		default:
			panic(err)
		}
	}
}

// starved lists the limits whose admitted rate is off by more than 1 % and the millitoken
// by which shards may differ.
func (d demand) starved(admitted map[string]int64) (off []string) {
	for _, l := range d.limits {
		rate := float64(l.Amount) / l.Period.Seconds() * d.lasts.Seconds()
		want := rate + float64(l.Capacity)
		if got := float64(admitted[l.Name]); math.Abs(got-want) > 1+want/100+want*float64(d.shards)/float64(1000*l.Capacity) {
			off = append(off, fmt.Sprintf("%s admitted %v in %v, earned and held at first: %.1f", l.Name, got, d.lasts, want))
		}
	}
	return off
}

// TestLongNeverStarved is promise P2 in the long run: eight clients with different clocks,
// several limits of very different rates on one item, and demand somewhat above each rate.
// The limits admit what they earn.
func TestLongNeverStarved(t *testing.T) {
	t.Parallel()
	for i, d := range demands {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, off := range d.starved(d.admit(t, uint64(i+1), breakage{})) {
				t.Error("P2:", off)
			}
		})
	}
}
