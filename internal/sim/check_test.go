package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// A violation is a promise that was not kept.
type violation struct {
	promise string
	at      time.Duration
	id      *bucketID // nil if it is about no one bucket
	text    string
}

func (v violation) String() string { return fmt.Sprintf("%s at %v: %s", v.promise, v.at, v.text) }

// violate reports a broken promise.
func (w *world) violate(promise string, at time.Duration, id *bucketID, format string, args ...any) {
	v := violation{promise, at, id, fmt.Sprintf(format, args...)}
	if id != nil {
		v.text = id.String() + ": " + v.text
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, v)
}

// excerpt is the history of the bucket that a violation is about, up to it.
func (w *world) excerpt(v violation) string {
	const lines = 14
	var all []string
	for _, r := range w.log {
		if (v.id == nil || r.id.whole() == v.id.whole()) && r.at <= v.at+time.Millisecond {
			all = append(all, r.String())
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// A checker holds the record of a run against the promises.
type checker struct {
	*world
	play    *play
	buckets map[bucketID][]*write // what was applied, in order
	whole   map[bucketKey][]*write
	sharded map[bucketKey]bool  // whether there ever were several shards
	alive   map[bucketID]*state // items as they are, while writes are checked in order
	heirs   map[lived]*write    // of items that were merged into others, the others' writes
	waived  map[bucketID]int64  // expiries that are not held against what the item owes
	byCall  map[*call][]*write  // refused writes too
	settled map[*call][]*call
	// byClient has the calls that write.
	byClient map[*client][]*call
}

// read takes in the record of a run, and holds each write against what a bucket may do.
func read(p *play) *checker {
	c := &checker{
		world: p.w, play: p,
		buckets: map[bucketID][]*write{}, whole: map[bucketKey][]*write{}, alive: map[bucketID]*state{}, heirs: map[lived]*write{}, waived: map[bucketID]int64{},
		sharded: map[bucketKey]bool{}, byClient: map[*client][]*call{}, byCall: map[*call][]*write{}, settled: map[*call][]*call{},
	}
	for _, r := range c.log {
		if r.call != nil {
			c.byCall[r.call] = append(c.byCall[r.call], r)
		}
		if !r.failed {
			c.buckets[r.id] = append(c.buckets[r.id], r)
			c.whole[r.id.whole()] = append(c.whole[r.id.whole()], r)
			c.legal(r)
			c.tends(r)
			c.outlasts(r)
			c.swept(r)
			c.alive[r.id] = r.after
			if r.after != nil && r.after.count > 1 {
				c.sharded[r.id.whole()] = true
			}
		}
	}
	for _, k := range c.calls {
		if k.kind != asking && k.kind != administering {
			c.byClient[k.client] = append(c.byClient[k.client], k)
		}
		if k.of != nil {
			c.settled[k.of] = append(c.settled[k.of], k)
		}
	}
	return c
}

func check(p *play) {
	c := read(p)
	for _, id := range c.ids() {
		if id.shard == "0" {
			c.neverOver(id.whole())
		}
		c.asStored(id)
	}
	for _, k := range c.calls {
		c.inTime(k)
		if k.kind == acquiring {
			if c.attributable(k) {
				c.allOrNothing(k)
			}
			c.refusedForAReason(k)
		}
		c.explained(k)
		c.plumbing(k)
	}
	c.sumsUp()
	c.keptTime()
	if len(p.followers) > 0 {
		c.balanced()
	}
}

// plumbing is promise P6: the hidden limit appears in no answer and nobody can
// ask for it.
func (c *checker) plumbing(k *call) {
	if !k.answered {
		return
	}
	statuses := k.statuses
	if e := k.refusal(); e != nil {
		statuses = append(slices.Clone(statuses), e.Statuses...)
	}
	seen := slices.ContainsFunc(statuses, func(st limiter.Status) bool { return st.Limit.Name == hidden })
	if _, asked := k.req.Consume[hidden]; asked {
		seen = class(k.err) != limiter.ErrInvalid.Error()
	} else if k.err != nil {
		seen = seen || strings.Contains(strings.ReplaceAll(k.err.Error(), c.ns, ""), hidden) // the namespace's ID is random
	}
	if k.lease != nil && k.kind == acquiring {
		_, held := k.lease.Consumed()[hidden]
		seen = seen || held
	}
	if seen {
		c.violate("P6", k.end, nil, "%s: %v", k, k.err)
	}
}

// explained: an error has a cause in the run. Without faults there is only the
// request itself, its caller's leaving, and time.
func (c *checker) explained(k *call) {
	if !k.answered || k.err == nil && !k.degraded() {
		return
	}
	faults, kind := c.odds.faulty(), class(k.err)
	switch kind {
	case limiter.ErrExceeded.Error(), limiter.ErrInvalid.Error():
		return
	case context.Canceled.Error():
		faults = k.leaves != 0
	case context.DeadlineExceeded.Error():
		faults = k.deadline != 0
	case limiter.ErrUnavailable.Error(), "<nil>":
		faults = faults || c.odds.slow > 0 || k.deadline != 0
	case limiter.ErrThrottled.Error(), limiter.ErrConflict.Error():
	default:
		faults = false
	}
	if !faults || k.degraded() && k.req.OnUnavailable != limiter.Allow {
		c.violate("errors", k.end, nil, "%s: %v", k, k.err)
	}
}

func (c *checker) ids() []bucketID {
	var ids []bucketID
	for id := range c.buckets {
		ids = append(ids, id)
	}
	return sortedBuckets(ids)
}

// asStored: what the link recorded is what the engine holds.
func (c *checker) asStored(id bucketID) {
	got, want := readState(c.fetch(context.Background(), id)), c.items[id]
	if (got == nil) != (want == nil) || got != nil && (got.rf != want.rf || got.ttl != want.ttl) {
		c.violate("record", c.now(), &id, "the engine holds %v, recorded is %v", got, want)
	}
}

// stateAt is the item as it stood at an instant.
func (c *checker) stateAt(id bucketID, at time.Duration) *state {
	log := c.buckets[id]
	i := sort.Search(len(log), func(i int) bool { return log[i].at > at })
	if i == 0 {
		return nil
	}
	return log[i-1].after
}

// during are the applied writes to a bucket between two instants.
func (c *checker) during(key bucketKey, from, to time.Duration) []*write {
	log := c.whole[key]
	i := sort.Search(len(log), func(i int) bool { return log[i].at >= from })
	j := sort.Search(len(log), func(i int) bool { return log[i].at > to })
	return log[i:max(i, j)]
}

const (
	storeTimeout = limiter.DefaultTimeout
	// After its end a call may go on with its debits, with those it shares, and then
	// with the return of each.
	worst = 3 * storeTimeout
)

// inTime: every call returns by its context's deadline, and within the limiter's
// timeout.
func (c *checker) inTime(k *call) {
	if !k.answered || k.kind == administering {
		return
	}
	latest, why := k.start+storeTimeout, "the limiter's timeout"
	if k.deadline != 0 && k.deadline < latest {
		latest, why = k.deadline, "its deadline"
	}
	if k.leaves != 0 && k.leaves < latest && (k.kind == acquiring || k.kind == asking) {
		latest, why = k.leaves, "its caller's leaving"
	}
	if k.end > latest {
		c.violate("P9", k.end, nil, "%s returned %v after %s", k, k.end-latest, why)
	}
}
