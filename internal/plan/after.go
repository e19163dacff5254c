package plan

import (
	"cmp"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// ImageOf returns the item that the create would make, if it has room for its position and its reservations.
func ImageOf(n *store.Create) *store.Image {
	img := &store.Image{
		Bucket: n.Bucket, ShardCount: n.ShardCount, RefilledAt: n.Stamp(), CreatedAt: n.Now, ExpiresAt: n.ExpiresAt, Hour: diary.HourOf(n.Now),
		Cascade: n.Owner.Cascade, Parent: n.Owner.Parent,
		ParentGeneration: n.Owner.Generation, Incarnation: n.Owner.Incarnation,
		ValidUntil: n.ValidUntil, HasValidUntil: n.ValidUntil != 0, InStep: n.InStep,
		Disabled: n.Disabled, Bypassed: n.Bypassed, MarkedUntil: n.MarkedUntil,
		Writes: stateOf(&n.Writes),
	}
	for i := range n.Limits {
		img.Limits = append(img.Limits, stateOf(&n.Limits[i]))
	}
	if len(n.Reserved) > 0 {
		img.Reserved = &n.Reserved
	}
	if n.Position.Name != "" {
		img.Positions = []store.Position{n.Position}
	}
	return img
}

// DebitNew debits a new item, opens the sessions that the debit uses, and says until when the
// item is valid. A bypassed item only counts.
func DebitNew(n *store.Create, amounts []store.Amount) {
	for i := range n.Limits {
		l := &n.Limits[i]
		l.Consumed = AmountOf(amounts, l.Limit)
		if n.Bypassed {
			continue
		}
		if Counts(l.Mode, l.Tokens, l.Consumed) {
			if l.Mode == store.Shadow {
				l.Shadowed, l.ShadowedAt = l.Consumed, n.Now
			}
			l.Opened = openedBy(l.Renewal, 0, n.Now, n.ShardCount)
			continue
		}
		l.Tokens -= l.Consumed
		l.Opened = openedBy(l.Renewal, l.Consumed, n.Now, n.ShardCount)
	}
	n.InStep = slices.ContainsFunc(n.Limits, func(l store.NewLimit) bool { return isVaried(&l.Params) })
	n.ValidUntil = store.ValidUntil(n.Now, n.Limits, func(l *store.NewLimit) (store.Params, int64) { return l.Params, l.Opened })
}

func stateOf(l *store.NewLimit) store.LimitState {
	s := store.LimitState{Name: l.Limit, Tokens: l.Tokens, Consumed: l.Consumed, Params: new(l.Params)}
	s.SetExtra(store.Extra{Granted: store.Granted{TopUp: l.TopUp}, Opened: l.Opened, SoftUntil: l.SoftUntil, Observed: l.Observed})
	return s
}

// Debited returns an image as it would be once it had accrued and amounts had been
// debited.
func Debited(i *store.Image, amounts []store.Amount, now int64) *store.Image {
	img := *i
	img.RefilledAt = max(now, i.RefilledAt)
	img.Limits = slices.Clone(i.Limits)
	if i.Bypassed {
		amounts = nil // they are counted only
	}
	img.InStep = isAllInStep(i, img.RefilledAt)
	for k := range img.Limits {
		s := &img.Limits[k]
		s.Tokens = ShareOf(i, s).Balance(s.Tokens, i.RefilledAt, now)
		if Renewed(i, s, now) {
			carried := store.Granted{TopUp: max(0, s.Tokens-Share(*s.Params, i.Shard, i.ShardCount, now).Renewed)}
			s.SetExtra(store.Extra{Granted: carried, Opened: (*Beginning)(nil).opened(i, s, s.Renewal, AmountOf(amounts, s.Name), now), SoftUntil: s.SoftUntil(), Observed: s.Observed()})
		}
		for _, a := range amounts {
			if a.Limit == s.Name && !Counts(s.Mode(), s.Tokens, a.Milli) {
				s.Tokens -= a.Milli
			}
		}
	}
	return &img
}

// EarnedAt is the instant, from now on, at which a bucket has earned what was debited from
// an image: no balance of the amounts is below zero any more. behind, if not nil, is what
// later callers took of each amount in the same write. The debit took ahead by at most so
// many milliseconds. A stamp that is later than now counts as now.
func EarnedAt(img *store.Image, amounts []store.Amount, behind []int64, now, ahead int64) int64 {
	at := now
	if ahead <= 0 || !img.IsEvaluable() {
		return at
	}
	for i, a := range amounts {
		s, ok := img.Limit(a.Limit)
		if !ok || a.Milli <= 0 {
			continue
		}
		tokens := s.Tokens
		if behind != nil {
			tokens += behind[i]
		}
		if s.Renewal != nil || !MustSuffice(img, &s) {
			continue // nothing is taken ahead of a quota, and nobody waits for a soft limit
		}
		if ms, ok := ShareOf(img, &s).Wait(tokens+1, img.RefilledAt, max(now, img.RefilledAt), 1); ok {
			at = max(at, now+min(ms, ahead))
		}
	}
	return at
}

// AfterRefill is the item as a refill leaves it, if no other client has written since
// the image. If the refill turned, or changed which limits there are, the diary is unread: it says
// what is left of removed ones.
func AfterRefill(r *store.Refill) *store.Image {
	img := *r.Seen
	img.RefilledAt = r.RefilledAt
	if r.ShardCount != 0 {
		img.ShardCount = r.ShardCount
	}
	if r.Expiry.Change {
		img.ExpiresAt = r.Expiry.At
	}
	if r.Validity.Change {
		img.HasValidUntil, img.ValidUntil = r.Validity.Until != 0, r.Validity.Until
	}
	img.InStep = r.Validity.InStep || img.InStep && r.RefilledAt == r.Seen.RefilledAt
	if r.Enables {
		img.Disabled, img.MarkedUntil = false, 0
	}
	if r.Bypass.Change && !img.Disabled {
		img.Bypassed, img.MarkedUntil = r.Bypass.Until != 0, r.Bypass.Until
	}
	img.Reserved = reservedAfter(r)
	if o := r.Owner; o != nil {
		img.Cascade, img.Parent, img.ParentGeneration, img.Incarnation = o.Cascade, o.Parent, o.Generation, o.Incarnation
	}
	if r.Turn != nil {
		img.Hour = r.Turn.Hour
	}
	if r.Turn != nil || slices.ContainsFunc(r.Changes, addsOrRemoves) {
		img.Diary = &store.Diary{Unread: true}
	}
	img.Writes = afterChange(&r.Writes, img.Writes, r.FullSince != 0, r.RefilledAt)
	img.Limits = make([]store.LimitState, 0, len(r.Changes))
	for i := range r.Changes {
		ch := &r.Changes[i]
		if s, ok := r.Seen.Limit(ch.Limit); (ok || ch.Kind == store.AddLimit) && ch.Kind != store.RemoveLimit {
			img.Limits = append(img.Limits, afterChange(ch, s, r.FullSince != 0, r.RefilledAt))
		}
	}
	for i := range r.Seen.Limits {
		s := r.Seen.Limits[i]
		if !slices.ContainsFunc(r.Changes, func(ch store.Change) bool { return ch.Limit == s.Name }) {
			img.Limits = append(img.Limits, s)
		}
	}
	slices.SortFunc(img.Limits, func(a, b store.LimitState) int { return cmp.Compare(a.Name, b.Name) })
	return &img
}

// reservedAfter is what is left of the reservations of an item. What the refill reserves itself is not in it.
func reservedAfter(r *store.Refill) *[]store.Reservation {
	if len(r.Lost) == 0 {
		return r.Seen.Reserved
	}
	left := slices.DeleteFunc(slices.Clone(r.Seen.Reservations()), func(is store.Reservation) bool { return slices.Contains(r.Lost, is) })
	return &left
}

func addsOrRemoves(ch store.Change) bool {
	return ch.Kind == store.AddLimit || ch.Kind == store.RemoveLimit
}

func afterChange(ch *store.Change, s store.LimitState, set bool, at int64) store.LimitState {
	if set || ch.Kind == store.AddLimit {
		s.Tokens = 0
	}
	if ch.Kind == store.AddLimit {
		s.Consumed = 0
	}
	extra := store.Extra{Granted: s.Granted(), Opened: cmp.Or(ch.Opened, s.Opened()), Told: s.Told(), SoftUntil: cmp.Or(ch.SoftUntil, s.SoftUntil()), Observed: s.Observed()}
	if ch.Renews {
		extra.Granted = store.Granted{}
	}
	extra.TopUp += ch.TopUp
	if ch.Kind == store.AddLimit || ch.Kind == store.SetParams {
		s.Params, extra.SoftUntil = new(ch.Params), ch.SoftUntil
		if extra.Mode = ch.Mode; ch.Mode == store.Enforce {
			extra.Observed = store.Observed{}
		}
	}
	if !IsSession(s.Renewal) {
		extra.Opened = 0
	}
	if extra.Opened == 0 || ch.Opened != 0 {
		extra.Told = store.Told{}
	}
	if ch.Shadowed != 0 {
		extra.Shadowed, extra.ShadowedAt = extra.Shadowed+ch.Shadowed, at
	}
	s.SetExtra(extra)
	s.Name = ch.Limit
	moved := ch.Earned - ch.Debit
	if moved < 0 {
		s.Tokens = max(s.Tokens, leastBalance-moved) // as a store gives it
	}
	s.Tokens += moved
	s.Consumed += ch.Debit
	return s
}
