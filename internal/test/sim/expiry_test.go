package sim_test

import (
	"context"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// expires reports whether an item expires within a century.
func (s *state) expires() bool {
	const century = 100 * 365 * 24 * 3600
	return s.ttl != 0 && s.ttl-s.rf/1000 < century
}

// outlasts: expiry forgives no debt. An item stays until it has paid its debts and is full
// again, so that its full replacement gives nothing away. What a soft limit owes goes with
// it. A peer that syncs parameters sets an expiry by its own rules.
func (c *checker) outlasts(r *write) {
	a, b := r.before, r.after
	byPeer := r.op == patches || r.client != nil && r.client.aggregator
	if byPeer && b != nil && (a == nil || a.ttl != b.ttl || a.count != b.count) {
		c.waived[r.id] = b.ttl
	}
	if byPeer || b == nil || !b.expires() || c.waived[r.id] == b.ttl || c.isFarAhead(b, r.at) {
		return
	}
	if a := r.expiring(); a != nil && a.ttl == b.ttl && a.ttl*1000 < c.trueMS(r.at)-ceilMS(c.spread()) {
		c.waived[r.id] = b.ttl // it had expired, full: it may be shared out, but not used
		return
	}
	if r.other != nil && r.before != nil && r.other.before == nil {
		c.waived[r.id] = b.ttl // what a donor loses at its expiry, its siblings do not restore
		return
	}
	by := b.ttl*1000 + ceilMS(c.spread())
	for _, name := range names(b, nil) {
		l, _ := b.share(r.id, name)
		if got, full := l.afterIdling(b.rf, by); name != hidden && !l.isSoft() && got < full {
			c.violate("expiry", r.at, &r.id, "%s holds %d of %d when the item expires, %d s after it was stamped", name, got, full, b.ttl-b.rf/1000)
		}
		if l.carry.most > 0 {
			c.violate("expiry", r.at, &r.id, "the item expires, and %s rolls over what is left", name)
		}
		if l.renews != nil && (l.end(b.rf) > by || l.opened == 0 && l.renews.next(l.renews.next(b.rf)) > by) {
			c.violate("expiry", r.at, &r.id, "the item expires before the next period of %s ends", name)
		}
	}
}

// afterIdling is what a limit holds at an instant, and what a new one would hold. A limit
// that varies need only have earned that since its stamp: the bound of P1 does not count what
// small capacities cut in between.
func (l level) afterIdling(rf, at int64) (held, full int64) {
	is := l.in(at)
	if l.varies != nil {
		return l.tk + l.earned(rf, at), is.cp
	}
	return l.balance(rf, at), min(is.cp, is.full)
}

// expiring is the item whose expiry a write keeps: for a birth, that of the shard's donor.
func (w *write) expiring() *state {
	if w.before == nil && w.other != nil {
		return w.other.before
	}
	return w.before
}

// swept: an item is full when its expiry sweeps it, except for soft limits.
func (c *checker) swept(r *write) {
	if r.op != "sweep" || r.before == nil || r.after != nil || c.waived[r.id] == r.before.ttl || c.isFarAhead(r.before, r.at) {
		return
	}
	for _, name := range names(r.before, nil) {
		l, _ := r.before.share(r.id, name)
		if got, full := l.afterIdling(r.before.rf, c.trueMS(r.at)+ceilMS(c.spread())); name != hidden && !l.isSoft() && got < full {
			c.violate("expiry", r.at, &r.id, "%s is swept with %d of %d", name, got, full)
		}
	}
}

// forgiving sets an item's expiry by its limits alone, whatever it owes.
type forgiving struct{ limiter.Store }

func (s forgiving) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	const multiplier = 7
	if !r.Expiry.Change || r.Expiry.At == 0 {
		return s.Store.Refill(ctx, r)
	}
	early := *r
	var fill int64
	for _, l := range r.Seen.Limits {
		fill = max(fill, l.Capacity*l.Period/l.Amount)
	}
	early.Expiry.At = r.RefilledAt/1000 + multiplier*fill/1000
	return s.Store.Refill(ctx, &early)
}

// brief makes every item expire within two seconds.
type brief struct{ limiter.Store }

func (s brief) Create(ctx context.Context, n *store.Create) (store.Outcome, error) {
	early := *n
	if n.ExpiresAt != 0 {
		early.ExpiresAt = n.Now/1000 + 2
	}
	return s.Store.Create(ctx, &early)
}

func (s brief) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	early := *r
	if r.Expiry.At != 0 {
		early.Expiry.At = r.RefilledAt/1000 + 2
	}
	return s.Store.Refill(ctx, &early)
}

// TestDebtsThatExpireAreSeen: the checker reports an item that would be swept before it has
// paid, and an item that is swept so.
func TestDebtsThatExpireAreSeen(t *testing.T) {
	t.Parallel()
	for text, store := range map[string]func(limiter.Store) limiter.Store{
		"when the item expires": func(s limiter.Store) limiter.Store { return forgiving{s} },
		"is swept with":         func(s limiter.Store) limiter.Store { return brief{s} },
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			const tries = 60
			for seed := uint64(1); seed <= tries; seed++ {
				if says(simulate(t, seed, odds{}, breakage{store: store}), text) {
					return
				}
			}
			t.Errorf("%d seeds did not report it", tries)
		})
	}
}
