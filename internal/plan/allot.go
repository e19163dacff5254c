package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Portion is what one shard contributes to terms.
type Portion struct {
	Image   *store.Image
	Amounts []store.Amount // by limit name
}

// Allot divides the amounts among shards, the fullest first, so that it writes
// to few of them. short says that all shards together do not hold enough. For a
// settlement, Allot then debits the missing tokens evenly. Those missing of a soft limit it
// debits from a shard that it writes to anyway.
func (t *Terms) Allot(images []*store.Image, now int64, settling bool) (parts []Portion, short bool) {
	type rest struct {
		store.Amount
		total int64 // held by all shards; of a soft limit, enough
		soft  bool
	}
	var needs []rest
	for _, a := range t.Amounts {
		if a.Milli <= 0 {
			continue
		}
		r := rest{Amount: a}
		r.total, r.soft = t.heldBy(images, a.Limit, now)
		short = short || r.total < a.Milli
		needs = append(needs, r)
	}
	if short && !settling {
		return nil, true
	}
	// The scarcest limit decides which shard is the fullest.
	slices.SortStableFunc(needs, func(a, b rest) int { return cmp.Compare(a.total-a.Milli, b.total-b.Milli) })
	order := slices.Clone(images)
	if len(needs) > 0 {
		slices.SortStableFunc(order, func(a, b *store.Image) int {
			return cmp.Compare(t.Holds(b, needs[0].Limit, now), t.Holds(a, needs[0].Limit, now))
		})
	}
	for _, img := range order {
		p := Portion{Image: img}
		for i := range needs {
			if take := min(needs[i].Milli, t.Holds(img, needs[i].Limit, now)); take > 0 {
				needs[i].Milli -= take
				p.Amounts = append(p.Amounts, store.Amount{Limit: needs[i].Limit, Milli: take})
			}
		}
		parts = append(parts, p)
	}
	for _, need := range needs {
		owing := parts
		if need.soft {
			first := max(0, slices.IndexFunc(parts, func(p Portion) bool { return len(p.Amounts) > 0 }))
			owing = parts[first : first+1]
		}
		for i := range owing {
			owed := need.Milli / int64(len(owing)-i)
			need.Milli -= owed
			owing[i].owe(store.Amount{Limit: need.Limit, Milli: owed})
		}
	}
	parts = slices.DeleteFunc(parts, func(p Portion) bool { return len(p.Amounts) == 0 })
	for i := range parts {
		slices.SortFunc(parts[i].Amounts, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	}
	return parts, short
}

// heldBy is what all shards hold together of a limit; enough, if it need not suffice.
func (t *Terms) heldBy(images []*store.Image, limit string, now int64) (total int64, enough bool) {
	for _, img := range images {
		if h, _, _ := t.Holding(img, limit, now); !h.mustSuffice() {
			return math.MaxInt64, true
		}
		total += t.Holds(img, limit, now)
	}
	return total, false
}

// owe adds an amount to what a shard contributes.
func (p *Portion) owe(a store.Amount) {
	if a.Milli == 0 {
		return
	}
	for i := range p.Amounts {
		if p.Amounts[i].Limit == a.Limit {
			p.Amounts[i].Milli += a.Milli
			return
		}
	}
	p.Amounts = append(p.Amounts, a)
}

// Holds returns what a shard can contribute of a limit.
func (t *Terms) Holds(img *store.Image, limit string, now int64) int64 {
	h, _, ok := t.Holding(img, limit, now)
	if !ok {
		return 0
	}
	return max(0, h.Balance(h.Tokens, h.At, now))
}

// Covers reports whether an item holds the amounts of the terms, as far as they must be held.
func (t *Terms) Covers(img *store.Image, now int64) bool {
	return !slices.ContainsFunc(t.Amounts, func(a store.Amount) bool { return a.Milli > 0 && !t.Suffices(img, a, now) })
}

// Suffices reports whether a shard holds an amount, or need not hold it.
func (t *Terms) Suffices(img *store.Image, a store.Amount, now int64) bool {
	h, _, ok := t.Holding(img, a.Limit, now)
	return ok && (!h.mustSuffice() || h.Balance(h.Tokens, h.At, now) >= a.Milli)
}

// CoversTwice reports whether an item holds amounts twice.
func CoversTwice(img *store.Image, amounts []store.Amount, now int64) bool {
	if !img.IsEvaluable() {
		return true
	}
	return !slices.ContainsFunc(amounts, func(a store.Amount) bool {
		s, ok := img.Limit(a.Limit)
		return ok && a.Milli > 0 && MustSuffice(img, &s) && ShareOf(img, &s).Balance(s.Tokens, img.RefilledAt, now)/2 < a.Milli
	})
}
