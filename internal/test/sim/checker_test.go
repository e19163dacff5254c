package sim_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A violation is a broken promise.
type violation struct {
	promise string
	at      time.Duration
	id      *bucketID // nil if it concerns no single bucket
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

// excerpt is the history of the violation's bucket, up to the violation.
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

// A checker checks the record of a run against the promises.
type checker struct {
	*world
	play    *play
	buckets map[bucketID][]*write // applied writes, in order
	whole   map[bucketKey][]*write
	sharded map[bucketKey]bool  // buckets that ever had several shards
	alive   map[bucketID]*state // current items, while writes are checked in order
	heirs   map[lived]*write    // the merge of each retired item
	waived  map[bucketID]int64  // expiries that the item's debts do not violate
	byCall  map[*call][]*write  // including refused writes
	settled map[*call][]*call
	decided map[decision]decided
	// byClient has the calls that write.
	byClient map[*client][]*call
}

// read reads the record of a run, and checks that each write is legal for a bucket.
func read(p *play) *checker {
	c := &checker{
		world: p.w, play: p,
		buckets: map[bucketID][]*write{}, whole: map[bucketKey][]*write{}, alive: map[bucketID]*state{}, heirs: map[lived]*write{}, waived: map[bucketID]int64{},
		sharded: map[bucketKey]bool{}, byClient: map[*client][]*call{}, byCall: map[*call][]*write{}, settled: map[*call][]*call{}, decided: map[decision]decided{},
	}
	for _, r := range c.log {
		if r.call != nil {
			c.byCall[r.call] = append(c.byCall[r.call], r)
		}
		if !r.failed {
			c.buckets[r.id] = append(c.buckets[r.id], r)
			c.whole[r.id.whole()] = append(c.whole[r.id.whole()], r)
			r.noteBypass()
			c.noteModes(r)
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
		if k.kind.takes() && c.attributable(k) {
			c.allOrNothing(k)
		}
		switch k.kind {
		case acquiring, extending:
			if k.with == nil {
				c.refusedForAReason(k)
				c.toldOfModes(k)
			}
		case waiting:
			c.waited(k)
		case releasing, committing, returning, asking, administering:
		}
		c.explained(k)
		c.plumbing(k)
	}
	c.sumsUp()
	c.grantedOnce()
	c.keptTime()
	c.emptyLines()
	c.diarized()
}

// plumbing is promise P6: no answer contains the hidden limit and no request can name it.
func (c *checker) plumbing(k *call) {
	if !k.answered {
		return
	}
	statuses := k.statuses
	if e := k.refusal(); e != nil {
		statuses = append(slices.Clone(statuses), e.Statuses...)
	}
	seen := slices.ContainsFunc(statuses, func(st limiter.Status) bool { return st.Limit.Name == hidden })
	if _, asked := cmp.Or(k.with, k).req.Consume[hidden]; asked {
		seen = class(k.err) != limiter.ErrInvalid.Error() && class(k.err) != limiter.ErrNotConfigured.Error()
	} else if k.err != nil {
		seen = seen || strings.Contains(strings.ReplaceAll(k.err.Error(), c.ns, ""), hidden) // the namespace's ID is random
	}
	if k.lease != nil && k.kind.takes() {
		_, held := k.lease.Consumed()[hidden]
		seen = seen || held
	}
	if seen {
		c.violate("P6", k.end, nil, "%s: %v", k, k.err)
	}
}

// explained: an error has a cause in the run. Without faults, the only causes are the
// request itself, its caller's leaving, and time.
func (c *checker) explained(k *call) {
	if !k.answered || k.err == nil && !k.degraded() {
		return
	}
	faults, kind := c.odds.faulty(), class(k.err)
	switch kind {
	case limiter.ErrExceeded.Error(), limiter.ErrInvalid.Error(), limiter.ErrNotConfigured.Error():
		return
	case limiter.ErrLeaseClosed.Error():
		faults = c.closedMeanwhile(k)
	case context.Canceled.Error():
		faults = k.leaves != 0
	case context.DeadlineExceeded.Error():
		faults = k.deadline != 0
	case limiter.ErrUnavailable.Error(), "<nil>":
		faults = faults || c.odds.slow > 0 || k.deadline != 0
	case limiter.ErrThrottled.Error():
	case limiter.ErrConflict.Error():
		faults = faults || k.grant != nil // others came first each time
	case limiter.ErrNotFound.Error():
		faults = k.grant != nil
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

// asStored: the link's record agrees with the engine.
func (c *checker) asStored(id bucketID) {
	got, want := readState(c.fetch(context.Background(), id)), c.items[id]
	if (got == nil) != (want == nil) || got != nil && (got.rf != want.rf || got.ttl != want.ttl) {
		c.violate("record", c.now(), &id, "the engine holds %v, recorded is %v", got, want)
	}
}

// stateAt returns the item as of an instant.
func (c *checker) stateAt(id bucketID, at time.Duration) *state {
	log := c.buckets[id]
	i := sort.Search(len(log), func(i int) bool { return log[i].at > at })
	if i == 0 {
		return nil
	}
	return log[i-1].after
}

// during returns the applied writes to a bucket between two instants.
func (c *checker) during(key bucketKey, from, to time.Duration) []*write {
	log := c.whole[key]
	i := sort.Search(len(log), func(i int) bool { return log[i].at >= from })
	j := sort.Search(len(log), func(i int) bool { return log[i].at > to })
	return log[i:max(i, j)]
}

const (
	storeTimeout = limiter.DefaultTimeout
	// After its end a call may still complete its debits, then those that it shares, and
	// then the return of each.
	worst = 3 * storeTimeout
)

// inTime: every call returns by its context's deadline, and within the limiter's
// timeout.
func (c *checker) inTime(k *call) {
	if !k.answered || k.kind == administering {
		return
	}
	latest, why := k.start+storeTimeout, "the limiter's timeout"
	if k.kind == waiting {
		latest, why = math.MaxInt64, "" // its caller's context alone bounds it
	}
	if k.deadline != 0 && k.deadline < latest {
		latest, why = k.deadline, "its deadline"
	}
	if k.leaves != 0 && k.leaves < latest && (k.kind.takes() || k.kind == asking) {
		latest, why = k.leaves, "its caller's leaving"
	}
	if k.end > latest {
		c.violate("P9", k.end, nil, "%s returned %v after %s", k, k.end-latest, why)
	}
}
