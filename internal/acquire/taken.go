package acquire

import (
	"cmp"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Taken is what a request took of one bucket, shard by shard. A caller changes the
// totals of its entries, and then settles it: the store is told the difference, once.
//
// The naive way tells the store each change as it comes: a request that adjusts ten times
// and rolls back costs eleven writes. And if one of them is lost, nobody knows any more what
// the store has debited. Here the store is told only the sum that is missing:
//
//	request   takes 10 ──── adjusts +5 ── adjusts −8 ──── commits
//	Total         10            15            7               7
//	written       10            10           10          10 ──▶ a write of −3 ──▶ 7
//
// Invariant: for each entry, what the parts have written is what the store has debited for
// this request, whatever calls failed before. A settlement writes Total minus that. So to
// settle again after an outage makes up for what failed. An amount whose answer was lost
// counts as written: a credit that is sent again might be applied twice, and would admit
// more than the limit.
type Taken struct {
	Claim   *Claim // as it was decided; nil if nothing was taken yet
	Entries []Entry

	counted []store.Amount // to be counted as consumed besides, of no balance, see [Owed]
	parts   []part         // one for each shard that was written to, first by the request, then by adjustments
	lost    error          // why nobody can tell what became of a settlement; nil if that is known
	room    struct {       // for one shard and two limits, as most requests take
		parts   [1]part
		entries [2]Entry
		written [2]int64
	}
}

// An Entry is one limit of what a request took, in millitokens.
type Entry struct {
	Limit string
	Total int64 // what the request is to have taken in the end
	Due   int64 // what a settlement that leaves the lease open is to leave debited
}

// A part is what a request took of one shard, in one period of each of its quotas, and of the same
// balances.
type part struct {
	image   *store.Image // the shard as last written or seen
	written []int64      // for each entry, the amount debited in the store, in millitokens
	counted plan.Counted // of which limits it moved no balance: settling those moves none, either
	// entry is where reserved goes back if this process is lost (ADR 071); nil if nothing does. reserved is by limit.
	entry    *ledger.Entry
	reserved []store.Amount
	// held is what a lease that was written down says of the part, see [Restore]; otherwise nil.
	// The image then says no more than which shard it is of.
	held []store.Amount
}

// until is the end of the period in which the part was taken of a limit.
func (p *part) until(limit string) int64 {
	if p.counted.Has(limit) {
		return store.NoBalance
	}
	for _, a := range p.held {
		if a.Limit == limit {
			return a.Until
		}
	}
	return plan.PeriodEnd(p.image, limit)
}

// Init records what a granted claim has taken, in a zero Taken. up is the uptime by now. The
// Taken must not be copied afterwards.
func (t *Taken) Init(up time.Duration, c *Claim) {
	if c.image.ShardCount > 1 {
		c.images = c.Shards(up) // as they are now
	}
	t.Claim = c
	t.Absorb(c)
}

// Absorb adds what another granted claim has taken of the same bucket.
func (t *Taken) Absorb(c *Claim) {
	t.raise(c.Terms.Amounts)
	portions := c.portions
	if len(portions) == 0 {
		portions = []plan.Portion{{Image: cmp.Or(c.landed, c.image), Amounts: c.Terms.Amounts}}
	}
	for i := range portions {
		counted := c.counted
		if len(c.portions) > 0 {
			counted = plan.CountedOf(portions[i].Amounts)
		}
		p := t.of(portions[i].Image, counted, c.entry)
		p.image = portions[i].Image
		if c.entry != nil {
			of := plan.Terms{Target: c.Terms.Target, Amounts: portions[i].Amounts}
			p.reserved = addTo(p.reserved, of.Returns(counted))
		}
		for k := range t.Entries {
			p.written[k] += plan.AmountOf(portions[i].Amounts, t.Entries[k].Limit)
		}
	}
}

// of returns the part of a shard, and makes it if nothing was taken of the shard yet.
func (t *Taken) of(img *store.Image, counted plan.Counted, entry *ledger.Entry) *part {
	i := t.find(img, counted, entry)
	if i == len(t.parts) {
		t.add(img)
		t.parts[i].counted, t.parts[i].entry = counted, entry
	}
	return &t.parts[i]
}

// find returns the number of the part of a shard, in the periods of its quotas; the number of
// parts if there is none. An amount of another period is another part: it must not be
// returned to this one. So is one of no balance, and one of another entry.
func (t *Taken) find(img *store.Image, counted plan.Counted, entry *ledger.Entry) int {
	for i := range t.parts {
		if p := t.parts[i].image; p.Shard == img.Shard && t.parts[i].entry == entry && t.parts[i].counted.Equals(counted) && plan.AreOfSamePeriods(p, img) {
			return i
		}
	}
	return len(t.parts)
}

// add makes a part.
func (t *Taken) add(img *store.Image) {
	p := part{image: img}
	if t.parts == nil {
		t.parts, p.written = t.room.parts[:0], t.room.written[:0]
	}
	p.written = append(p.written, make([]int64, len(t.Entries))...)
	t.parts = append(t.parts, p)
}

// Assume records what a request would take, in tokens by limit name, if the store could
// be reached.
func (t *Taken) Assume(consume map[string]int64) {
	t.Raise(consume)
	t.add(nil)
	for i := range t.Entries {
		t.parts[0].written[i] = t.Entries[i].Total
	}
}

// Wrote records that the target of each entry is what the request has taken, without the store.
func (t *Taken) Wrote(target func(*Entry) int64) {
	for i := range t.Entries {
		t.parts[0].written[i] = target(&t.Entries[i])
	}
}

// Raise adds what a request would take, in tokens by limit name, if the store could be
// reached.
func (t *Taken) Raise(consume map[string]int64) {
	t.raise(appendAmounts(make([]store.Amount, 0, len(consume)), consume))
}

// Presume records that more was taken of the first shard than a request that took nothing has, in
// tokens by limit name: by somebody else, whose tokens a rollback then returns.
func (t *Taken) Presume(taken map[string]int64) {
	for i := range t.Entries {
		t.parts[0].written[i] += taken[t.Entries[i].Limit] * store.Milli
	}
}

// raise adds amounts to the entries, which stay ordered by limit name.
func (t *Taken) raise(amounts []store.Amount) {
	if t.Entries == nil {
		t.Entries = t.room.entries[:0]
	}
	t.Entries = slices.Grow(t.Entries, len(amounts))
	for _, a := range amounts {
		i, found := slices.BinarySearchFunc(t.Entries, a.Limit, func(e Entry, name string) int { return cmp.Compare(e.Limit, name) })
		if !found {
			t.Entries = slices.Insert(t.Entries, i, Entry{Limit: a.Limit})
			for j := range t.parts {
				t.parts[j].written = slices.Insert(t.parts[j].written, i, 0)
			}
		}
		t.Entries[i].Total += a.Milli
	}
}

// written is the amount of an entry that is debited in the store.
func (t *Taken) written(i int) (sum int64) {
	for j := range t.parts {
		sum += t.parts[j].written[i]
	}
	return sum
}

// due is the difference between the target of each entry and what the store has debited: what is to
// be taken besides, and what each part returns.
func (t *Taken) due(target func(*Entry) int64) (more []store.Amount, deltas [][]store.Amount) {
	deltas = make([][]store.Amount, len(t.parts), len(t.parts)+1)
	for i := range t.Entries {
		diff := target(&t.Entries[i]) - t.written(i)
		if diff > 0 {
			more = append(more, store.Amount{Limit: t.Entries[i].Limit, Milli: diff})
		}
		for j := 0; diff < 0 && j < len(t.parts); j++ {
			if back := min(-diff, max(0, t.parts[j].written[i])); back > 0 {
				deltas[j] = append(deltas[j], store.Amount{Limit: t.Entries[i].Limit, Milli: -back, Until: t.parts[j].until(t.Entries[i].Limit)})
				diff += back
			}
		}
	}
	return more, deltas
}

// divide divides what is to be taken besides into amounts that count only, and those of a balance. An
// amount counts only if all did that were taken of its limit, returned ones included. If none was taken, that
// is so of a limit which an image has as off (ADR 062).
func (t *Taken) divide(more []store.Amount, img *store.Image) (only, debits []store.Amount) {
	for _, a := range more {
		i := slices.IndexFunc(t.Entries, func(e Entry) bool { return e.Limit == a.Limit })
		s, _ := img.Limit(a.Limit)
		counts, pays := t.parts[0].counted.All || s.Mode() == store.Off, false
		for j := range t.parts {
			if p := &t.parts[j]; p.counted.Has(a.Limit) {
				counts = true
			} else if p.written[i] > 0 {
				pays = true
			}
		}
		if counts && !pays {
			a.Until = store.NoBalance
			only = append(only, a)
		} else {
			debits = append(debits, a)
		}
	}
	return only, debits
}

// counting is the number of a part of whose amounts of a limit none moves a balance. The first part
// becomes one if none is, as nothing was taken of the limit.
func (t *Taken) counting(limit string) int {
	j := slices.IndexFunc(t.parts, func(p part) bool { return p.counted.Has(limit) })
	if j < 0 {
		j = 0
		t.parts[0].counted.Limits = append(slices.Clone(t.parts[0].counted.Limits), limit)
	}
	return j
}

// paying is the number of the part of a portion's shard, in the periods of its quotas, of which the
// balances pay for the portion; the number of parts if there is none.
func (t *Taken) paying(of plan.Portion) int {
	j := slices.IndexFunc(t.parts, func(p part) bool {
		return p.image.Shard == of.Image.Shard && plan.AreOfSamePeriods(p.image, of.Image) &&
			!slices.ContainsFunc(of.Amounts, func(a store.Amount) bool { return p.counted.Has(a.Limit) })
	})
	if j < 0 {
		return len(t.parts)
	}
	return j
}

// IsSettled reports whether the store has debited exactly the target of each entry.
func (t *Taken) IsSettled(target func(*Entry) int64) bool {
	for i := range t.Entries {
		if target(&t.Entries[i]) != t.written(i) {
			return false
		}
	}
	return true
}

// Unsettled returns the difference between the target of each entry and what the store has
// debited, where there is any.
func (t *Taken) Unsettled(target func(*Entry) int64) (deltas []store.Amount) {
	for i := range t.Entries {
		if diff := target(&t.Entries[i]) - t.written(i); diff != 0 {
			deltas = append(deltas, store.Amount{Limit: t.Entries[i].Limit, Milli: diff})
		}
	}
	return deltas
}
