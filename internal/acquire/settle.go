package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Taken is what a request took of one bucket, shard by shard. A caller changes the
// totals of its entries, and then settles it: the store is told the difference, once.
//
// Invariant: for each entry, what the parts have written is what the store has debited for
// this request, whatever calls failed before. A settlement writes Total minus that. So to
// settle again after an outage makes up for what failed. An amount whose answer was lost
// counts as written: a credit that is sent again might be applied twice, and would admit
// more than the limit.
type Taken struct {
	Claim   *Claim // as it was decided; nil if nothing was taken yet
	Entries []Entry

	parts []part // one for each shard that was written to, first by the request, then by adjustments
	room  [1]part
}

// An Entry is one limit of what a request took, in millitokens.
type Entry struct {
	Limit string
	Total int64 // what the request is to have taken in the end
	Due   int64 // what a settlement that leaves the lease open is to leave debited
}

// A part is what a request took of one shard.
type part struct {
	image   *store.Image // the shard as last written or seen
	written []int64      // for each entry, the amount debited in the store, in millitokens
}

// Init records what a granted claim has taken, in a zero Taken. The Taken must not be
// copied afterwards.
func (t *Taken) Init(d *Driver, c *Claim) {
	if c.image.ShardCount > 1 {
		c.images = c.Shards(d.Uptime()) // as they are now
	}
	t.Claim = c
	t.expect(c.Terms.Amounts)
	t.parts = t.room[:0]
	if len(c.portions) == 0 {
		t.add(c.image, c.Terms.Amounts)
		return
	}
	for _, p := range c.portions {
		t.add(p.Image, p.Amounts)
	}
}

// Assume records what a request would take, in tokens by limit name, if the store could
// be reached.
func (t *Taken) Assume(consume map[string]int64) {
	amounts := claimAmounts(consume)
	t.expect(amounts)
	t.parts = t.room[:0]
	t.add(nil, amounts)
}

// expect makes the entries.
func (t *Taken) expect(amounts []store.Amount) {
	t.Entries = make([]Entry, 0, len(amounts))
	for _, a := range amounts {
		t.Entries = append(t.Entries, Entry{Limit: a.Limit, Total: a.Milli})
	}
}

// add records that amounts were debited from a shard.
func (t *Taken) add(img *store.Image, amounts []store.Amount) {
	p := part{image: img, written: make([]int64, len(t.Entries))}
	for i := range t.Entries {
		for _, a := range amounts {
			if a.Limit == t.Entries[i].Limit {
				p.written[i] = a.Milli
			}
		}
	}
	t.parts = append(t.parts, p)
}

// Absorb adds what another granted claim has taken of the same bucket.
func (t *Taken) Absorb(c *Claim) {
	t.raise(c.Terms.Amounts)
	for _, p := range c.parts() {
		j := slices.IndexFunc(t.parts, func(q part) bool { return q.image.Shard == p.Image.Shard })
		if j < 0 {
			t.add(p.Image, p.Amounts)
			continue
		}
		t.parts[j].image = p.Image
		for i := range t.Entries {
			t.parts[j].written[i] += plan.AmountOf(p.Amounts, t.Entries[i].Limit)
		}
	}
}

// Raise adds what a request would take, in tokens by limit name, if the store could be
// reached.
func (t *Taken) Raise(consume map[string]int64) { t.raise(claimAmounts(consume)) }

// raise adds amounts to the entries, which stay ordered by limit name.
func (t *Taken) raise(amounts []store.Amount) {
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

// Settle makes the store debit exactly the target of each entry. It returns tokens to
// the shards from which they were taken. If more is to be taken, it debits whichever
// shards hold it. If an error says that nothing was applied, Settle may be called again.
func (d *Driver) Settle(ctx context.Context, t *Taken, target func(*Entry) int64) error {
	var more []store.Amount
	deltas := make([][]store.Amount, len(t.parts), len(t.parts)+1)
	for i := range t.Entries {
		diff := target(&t.Entries[i]) - t.written(i)
		if diff > 0 {
			more = append(more, store.Amount{Limit: t.Entries[i].Limit, Milli: diff})
		}
		for j := 0; diff < 0 && j < len(t.parts); j++ {
			if back := min(-diff, max(0, t.parts[j].written[i])); back > 0 {
				deltas[j] = append(deltas[j], store.Amount{Limit: t.Entries[i].Limit, Milli: -back})
				diff += back
			}
		}
	}
	if len(more) > 0 {
		for _, p := range d.allotDebits(ctx, t.parts[0].image, more) {
			j := slices.IndexFunc(t.parts, func(q part) bool { return q.image.Shard == p.Image.Shard })
			if j < 0 {
				j = len(t.parts)
				t.add(p.Image, nil)
				deltas = append(deltas, nil)
			}
			deltas[j] = append(deltas[j], p.Amounts...)
		}
	}
	return d.settleParts(ctx, t, deltas)
}

// settleParts adjusts the shards concurrently. Then it passes on the credits that exceed
// a shard's capacity.
func (d *Driver) settleParts(ctx context.Context, t *Taken, deltas [][]store.Amount) error {
	errs, spare := make([]error, len(deltas), len(deltas)+1), make([][]store.Amount, len(deltas))
	d.AtOnce(len(deltas), func(j int) { spare[j], errs[j] = d.settlePart(ctx, t, &t.parts[j], deltas[j]) })
	errs = append(errs, d.passOn(ctx, t.parts[0].image, total(spare)))
	return errors.Join(errs...)
}

// settlePart adjusts one shard. It returns the credits that exceed the shard's
// capacity.
func (d *Driver) settlePart(ctx context.Context, t *Taken, p *part, deltas []store.Amount) (over []store.Amount, err error) {
	if len(deltas) == 0 {
		return nil, nil
	}
	slices.SortFunc(deltas, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	over, err = d.adjust(ctx, p.image, deltas)
	if err != nil {
		err = fmt.Errorf("adjust %s of %s: %w", p.image.Resource, p.image.Entity, err)
		if process.IsTurnedAway(err) {
			return nil, err
		}
	}
	for _, delta := range deltas {
		for i := range t.Entries {
			if t.Entries[i].Limit == delta.Limit {
				p.written[i] += delta.Milli
			}
		}
	}
	return over, err
}

// adjust debits (positive deltas) or credits (negative ones) a shard. It returns the
// tokens that exceed the shard's capacity, for [Driver.passOn].
func (d *Driver) adjust(ctx context.Context, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	acct := d.account(img.Entity, img.Resource)
	if plan.IsWide(img) {
		return d.adjustAlone(ctx, acct, img, deltas)
	}
	return d.sharing.adjust(ctx, acct, img, deltas)
}
