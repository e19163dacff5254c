package plan

import (
	"cmp"
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
// settlement, Allot then debits the missing tokens evenly.
func (t *Terms) Allot(images []*store.Image, now int64, settling bool) (parts []Portion, short bool) {
	type rest struct {
		store.Amount
		total int64 // held by all shards
	}
	var needs []rest
	for _, a := range t.Amounts {
		if a.Milli <= 0 {
			continue
		}
		r := rest{Amount: a}
		for _, img := range images {
			r.total += t.Holds(img, a.Limit, now)
		}
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
		for i := range parts {
			owed := need.Milli / int64(len(parts)-i)
			need.Milli -= owed
			parts[i].owe(store.Amount{Limit: need.Limit, Milli: owed})
		}
	}
	parts = slices.DeleteFunc(parts, func(p Portion) bool { return len(p.Amounts) == 0 })
	for i := range parts {
		slices.SortFunc(parts[i].Amounts, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	}
	return parts, short
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

// Covers reports whether an item holds the amounts of the terms.
func (t *Terms) Covers(img *store.Image, now int64) bool {
	return !slices.ContainsFunc(t.Amounts, func(a store.Amount) bool { return a.Milli > 0 && t.Holds(img, a.Limit, now) < a.Milli })
}

// CoversTwice reports whether an item holds amounts twice.
func CoversTwice(img *store.Image, amounts []store.Amount, now int64) bool {
	if !img.IsEvaluable() {
		return true
	}
	return !slices.ContainsFunc(amounts, func(a store.Amount) bool {
		s, ok := img.Limit(a.Limit)
		return ok && a.Milli > 0 && ShareOf(img, &s).Balance(s.Tokens, img.RefilledAt, now)/2 < a.Milli
	})
}
