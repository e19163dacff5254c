package sim_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// mergers is the number of clients that merge buckets at the same time.
const mergers = 2

// merge merges the shards of hot buckets while they are used, lost, and doubled.
func (p *play) merge(i int, stop <-chan struct{}) {
	name := "merger" + strconv.Itoa(i)
	c := newClient(p.w, name, p.ttl)
	p.mu.Lock()
	p.cast = append(p.cast, c)
	p.mu.Unlock()
	r := p.w.dice.stream(name)
	for round := range rounds {
		p.sleepUntil(p.start[round])
		for n := range 6 {
			p.w.sleep(span(r, time.Millisecond, time.Second))
			select {
			case <-stop:
				return
			default:
			}
			if c.standsStill() {
				return
			}
			key := pick(r, p.spots[round], p.spots[round], p.spots[round], pick(r, spots...))
			k := &call{name: name + "#" + strconv.Itoa(round) + "." + strconv.Itoa(n), kind: administering, client: c}
			c.halve(context.WithValue(context.Background(), callKey{}, k), key)
		}
	}
}

// halve merges a bucket once. If that fails, the next call tries again.
func (c *client) halve(ctx context.Context, key bucketKey) {
	images, err := c.keeper.Shards(ctx, limiter.Bucket{Entity: key.entity, Resource: key.resource})
	if err != nil || c.standsStill() {
		return
	}
	_, _ = c.keeper.Merge(ctx, images)
}

// retires reports whether a write deletes a shard that was merged into another. merges
// reports whether it is the other shard's write.
func (w *write) retires() bool { return w.other != nil && w.after == nil }
func (w *write) merges() bool  { return w.other != nil && w.other.retires() }

// marry links the two halves of a merge: the deleted shard, and the shard half as many
// numbers below it.
func marry(joint []*write) {
	for _, gone := range joint {
		if !gone.joint || gone.before == nil || gone.after != nil {
			continue
		}
		heir := gone.id.whole().shard(gone.id.number() - gone.before.count/2)
		for _, r := range joint {
			if r.id == heir {
				gone.other, r.other = r, gone
			}
		}
	}
}

// legalMerge: a shard takes over the balance of another, halves its number of shards, and
// the same transaction deletes the other shard. Both have earned, up to the new stamp, what
// the grid gives to their own shares, and nothing is created. The only loss is what others
// may have taken from them since they were read, and the same again for the deleted shard.
func (c *checker) legalMerge(r *write, bad func(string, ...any)) {
	a, b, gone, id := r.before, r.after, r.other.before, r.other.id
	if gone.count != a.count || b.count != a.count/2 || id.number() != r.id.number()+b.count {
		bad("one of %d shards takes over %v of %d and is one of %d", a.count, id, gone.count, b.count)
		return
	}
	if b.rf < a.rf || b.rf < gone.rf {
		bad("merged at %d what had accrued to %d and %d", b.rf, a.rf, gone.rf)
	}
	c.heirs[lived{id, gone.life}] = r
	from := r.sent - storeTimeout
	for _, name := range names(a, gone) {
		was, had := a.share(r.id, name)
		other, gave := gone.share(id, name)
		is, has := b.share(r.id, name)
		switch {
		case !had || !gave || !has:
			bad("%s is not on both", name)
		case name == hidden:
			legalHidden(was, is, a.rf, b.rf, 1000, bad)
		case !a.levels[name].sameParams(b.levels[name]) || !a.levels[name].sameParams(gone.levels[name]):
			bad("%s got other parameters by a merge", name)
		case was.tc != is.tc:
			bad("%s: a merge consumed %d", name, is.tc-was.tc)
		default:
			most := was.balance(a.rf, b.rf) + other.balance(gone.rf, b.rf)
			ofSurvivor, _ := c.moved(r.id, name, from, r.at)
			ofRetired, _ := c.moved(id, name, from, r.at)
			least := most - ofSurvivor - 2*ofRetired
			if is.tk > most || is.tk < least {
				bad("%s: %d and %d, of %v, are %d at %d after a merge, must be %d to %d", name, was.tk, other.tk, id, is.tk, b.rf, least, most)
			}
		}
	}
}

// moved returns what was taken from an item's limit, and what was returned to it, between
// two instants.
func (c *checker) moved(id bucketID, name string, from, to time.Duration) (taken, credited int64) {
	for _, r := range c.buckets[id] {
		if r.at < from || r.at >= to || r.before == nil || r.after == nil {
			continue
		}
		was, _ := r.before.level(name)
		is, _ := r.after.level(name)
		taken += max(0, is.tc-was.tc)
		credited += max(0, was.tc-is.tc)
	}
	return taken, credited
}

// A lived names one of several items that had the same key one after another.
type lived struct {
	id   bucketID
	life int
}

// outlives reports whether a limit of an item still exists, on the item itself or on the
// item that it was merged into.
func (c *checker) outlives(at lived, name string, life int) bool {
	for r := c.heirs[at]; r != nil; r = c.heirs[at] {
		at, life = lived{r.id, r.after.life}, r.after.levels[name].life
	}
	s := c.items[at.id]
	l, ok := s.level(name)
	return ok && s.life == at.life && l.life == life
}

// marriages changes merges on their way to the store.
type marriages struct {
	limiter.Store

	change func(*store.Pair)
}

func (s marriages) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	for _, p := range pairs {
		s.change(p)
	}
	return s.Store.Merge(ctx, pairs)
}

// bigamist lets the survivors take over, but does not delete the other shards.
type bigamist struct{ limiter.Store }

func (s bigamist) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	var rs []*store.Refill
	for _, p := range pairs {
		rs = append(rs, p.Survivor)
	}
	return s.Gather(ctx, rs)
}

// TestLongestBrokenMergesAreSeen: each check of merges fails when its subject is broken.
func TestLongestBrokenMergesAreSeen(t *testing.T) {
	t.Parallel()
	o := odds{hot: true, merged: true}
	with := func(f func(*store.Pair)) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store { return marriages{s, f} }}
	}
	each := func(f func(*store.Change)) breakage {
		return with(func(p *store.Pair) {
			for i := range p.Survivor.Changes {
				f(&p.Survivor.Changes[i])
			}
		})
	}
	for name, broken := range map[string]breakage{
		"a millitoken is made":                       each(func(ch *store.Change) { ch.Earned++ }),
		"a millitoken is lost":                       each(func(ch *store.Change) { ch.Earned-- }),
		"what was consumed is added to the survivor": each(func(ch *store.Change) { ch.Debit, ch.Earned = 1, ch.Earned+1 }),
		"nothing is deleted":                         {store: func(s limiter.Store) limiter.Store { return bigamist{s} }},
		"what was taken of the retired is minted": with(func(p *store.Pair) {
			for i := range p.AtLeast {
				p.AtLeast[i] -= 1_000_000
			}
		}),
		"the survivor keeps its stamp": with(func(p *store.Pair) { p.Survivor.RefilledAt = p.Survivor.Seen.RefilledAt }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen(t, "bucket", o, broken)
		})
	}
}
