package sim_test

import (
	"context"
	"fmt"
	"math"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A week is one in which a caller always waits exactly as long as it is told, in a zone whose
// clocks change meanwhile. Some of its limits are quotas, some follow timetables, and
// requests name several of them.
type week struct {
	zone, day string // the day before the change
	shards    int
}

var weeks = []week{
	{"Europe/Berlin", "2000-03-25", 1},
	{"Europe/Berlin", "2000-10-28", 4},
	{"America/Sao_Paulo", "2000-10-07", 4},
	{"America/Sao_Paulo", "2000-02-26", 1},
}

// TestAWeekOfWaits is promise P4 over a week: at each refusal, the wait ends at the first
// millisecond at which the shards hold the request, as the checker's own arithmetic finds
// minute by minute. Then the request is admitted.
func TestAWeekOfWaits(t *testing.T) {
	t.Parallel()
	for _, w := range weeks {
		t.Run(fmt.Sprintf("%s, %s, %d shards", w.zone, w.day, w.shards), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, w.pass)
		})
	}
}

// limits are those of a week.
func (w week) limits() []limiter.Limit {
	rate := func(l limiter.Limit, code string) limiter.Limit {
		if code != "" {
			l.Varies = timetableOf(code, w.zone).varies
		}
		return l
	}
	return []limiter.Limit{
		limiter.Quota("daily", 300, recurrenceOf("1m30h2", w.zone).renews),
		limiter.Quota("hourly", 40, recurrenceOf("1m0", w.zone).renews),
		rate(limiter.PerMinute("rpm", 7, limiter.Burst(12)), "1m30-59c2"),
		rate(limiter.PerHour("tph", 90, limiter.Burst(50)), "1h2-17s500"),
		rate(limiter.PerHour("plain", 60, limiter.Burst(20)), ""),
	}
}

func (w week) pass(t *testing.T) {
	before, err := time.Parse(time.DateOnly, w.day)
	must(err)
	time.Sleep(time.Until(before.AddDate(0, 0, -3)))
	p := newPlay(1, odds{}, breakage{})
	p.ttl = time.Minute
	p.setUp()
	key, limits := bucketKey{"solo", "api"}, w.limits()
	p.set(context.WithValue(context.Background(), callKey{}, &call{name: "week", kind: administering, client: p.admin}), limiter.ConfigKey{Entity: key.entity, Resource: key.resource}, limits)
	p.doubleTo(key, w.shards, 20)
	c := newClient(p.w, "waiter", p.ttl)
	p.cast = append(p.cast, c)
	p.w.sleep(time.Minute)
	now := p.w.now()
	p.w.calm.Store(&now)
	r := p.w.dice.stream("week")
	admitted, waits, late := 0, 0, 0
	for end := time.Now().AddDate(0, 0, 7); time.Now().Before(end); {
		req := limiter.Request{Entity: key.entity, Resource: key.resource, Consume: map[string]int64{}}
		for range 1 + r.IntN(3) {
			l := pick(r, limits...)
			req.Consume[l.Name] = 1 + r.Int64N(min(12, l.Capacity))
		}
		k := p.probe(c, req)
		if k.admitted() {
			admitted++
			continue
		}
		e := k.refusal()
		if e == nil || e.RetryAfter() == limiter.Never {
			t.Fatalf("%v: %v", k, k.err)
		}
		at := time.Now().UnixMilli()
		waits++
		if want := p.w.earliest([]bucketKey{key}, req, at, math.MaxInt64) - at; want != e.RetryAfter().Milliseconds() {
			t.Fatalf("at %v, %v: the wait is to be %v", time.Now(), k, time.Duration(want)*time.Millisecond)
		}
		time.Sleep(time.Until(time.UnixMilli(at+e.RetryAfter().Milliseconds())) + 1)
		if e.RetryAfter() > longestOf(e) {
			late++
		}
		if then := p.probe(c, req); !then.admitted() {
			t.Fatalf("at %v: after %v, %v", time.Now(), k, then)
		}
		admitted++
	}
	close(p.w.end)
	for _, c := range p.cast {
		must(c.close())
	}
	p.w.late.Wait()
	if waits < 150 || late == 0 {
		t.Errorf("%d admitted after %d waits, of which %d were longer than that of any limit: that shows little", admitted, waits, late)
	}
	if n := p.w.items[key.shard(0)].count; n != w.shards {
		t.Errorf("the bucket has %d shards", n)
	}
}

// longestOf is the longest wait of a limit on its own.
func longestOf(e *limiter.ExceededError) (longest time.Duration) {
	for _, st := range e.Statuses {
		longest = max(longest, st.RetryAfter)
	}
	return longest
}

// earliest is the first millisecond from an instant on at which the shards of all buckets
// hold a request; the last one if none before it is. Within a minute they only earn. A bucket
// that does not exist holds everything, and one without a limit, or with a soft one, holds
// what it is asked of that.
func (w *world) earliest(keys []bucketKey, req limiter.Request, from, last int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	holds := func(at int64) bool {
		for name, tokens := range req.Consume {
			for _, key := range keys {
				if sum, ok := w.holdsLocked(key, name, at); ok && sum < tokens*1000 {
					return false
				}
			}
		}
		return true
	}
	for lo := from; lo < last; {
		hi := lo/minute*minute + minute - 1
		if holds(hi) {
			return lo + int64(sort.Search(int(hi-lo), func(ms int) bool { return holds(lo + int64(ms)) }))
		}
		lo = hi + 1
	}
	return last
}

// holdsLocked is what the shards of a bucket hold of a limit at an instant; false if the
// bucket has none, or only counts it.
func (w *world) holdsLocked(key bucketKey, name string, at int64) (sum int64, ok bool) {
	for i := range mostShards {
		id := key.shard(i)
		if l, has := w.items[id].share(id, name); has && !l.isSoft() {
			sum, ok = sum+max(0, l.balance(w.items[id].rf, at)), true
		}
	}
	return sum, ok
}
