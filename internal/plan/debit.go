package plan

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Debit is what one write to a bucket item is to do. It is not changed.
type Debit struct {
	store.Bucket
	Amounts []store.Amount // by limit name
	// Repair is what the write also makes of the item, if the item differs from it.
	// Only configuration that was read after the image may repair an item; nil
	// otherwise.
	Repair *Wanted
	// Settling says that the amounts follow a decision already taken. They are debited
	// at any balance, and negative amounts are returned.
	Settling bool
	// Pressing says that the write does not wait for the hidden write limit.
	Pressing bool
	// Stamp is how the write treats the stamp of the item.
	Stamp StampRule
	// Ahead is how long the limits may still have to earn what the write debits, in
	// milliseconds (ADR 035). The balances may then fall below zero.
	Ahead int64
	// Amendment is what an operator gives the item besides; nil if nothing.
	Amendment *Amendment
	// Stamps says that the limits which the item has as soft are to be soft. A refill then
	// renews their stamps; otherwise it keeps them.
	Stamps bool
	// Bypass is the stamp that a refill gives an item which is bypassed; 0 keeps its stamp.
	Bypass int64
	// Begins are the sessions that the write begins, together with those to all other shards.
	// It is nil if the write is decided by its item alone, which may then begin one only if
	// it is the whole bucket.
	Begins *Beginning
}

// AheadOf is what a share of a limit may still have to earn of an amount, if it may take
// so many milliseconds. It is 0 if the limit is slow: if it does not earn a number of such
// amounts in that time.
func AheadOf(part bucket.Limit, amount, now, ahead int64) int64 {
	if ahead <= 0 || IsSlow(part.At(now), amount, ahead) {
		return 0
	}
	return part.Earned(now, now+ahead)
}

// EarnedTimes is how often the limits of a bucket earn amounts in a time, in milliseconds.
func EarnedTimes(img *store.Image, amounts []store.Amount, ms int64) int64 {
	least := int64(math.MaxInt64)
	for _, a := range amounts {
		if s, ok := img.Limit(a.Limit); ok && a.Milli > 0 && s.Renewal == nil && MustSuffice(img, &s) {
			least = min(least, ShareOf(img, &s).At(img.RefilledAt).Earned(0, ms)/a.Milli)
		}
	}
	return least
}

// IsSlow reports whether a share of a limit, as it is at an instant, earns too few of an
// amount in a time, in milliseconds, for several processes to take them ahead. A quota earns
// nothing.
func IsSlow(part bucket.Limit, amount, ahead int64) bool {
	const amounts = 8
	return part.Renewal != nil || part.Earned(0, ahead/amounts) < amount
}

// repairs returns what the write also makes of an item; nil if the item needs no repair.
func (d *Debit) repairs(img *store.Image, now int64) *Wanted {
	if d.Repair == nil || !d.Repair.Differs(img, now) {
		return nil
	}
	return d.Repair
}

// Take is the write that debits an item as it is.
func (d *Debit) Take(img *store.Image, now int64) *store.Take {
	t := &store.Take{Bucket: d.Bucket, Now: now, Seen: img, Turn: TurnOf(img, now), Debits: make([]store.Debit, 0, len(d.Amounts))}
	if img.IsEvaluable() {
		t.ShardCount = img.ShardCount
	}
	bypassed := img.IsBypassed(now)
	for _, a := range d.Amounts {
		debit := store.Debit{Amount: a}
		if bypassed {
			debit.Until = store.NoBalance
		} else if s, ok := img.Limit(a.Limit); ok {
			debit.Soft, debit.AtLeast = s.IsSoft(), math.MinInt64
			if mode := s.Mode(); Counts(mode, heldOf(img, &s, now), a.Milli) {
				debit.Counts, debit.Shadows = true, mode == store.Shadow
			} else if mode == store.Shadow {
				debit.AtLeast = floorOf(mode, ShareOf(img, &s)) + a.Milli
			}
			if debit.AtMost = CeilingOf(img, &s, now); img.IsEvaluable() {
				debit.Params = *s.Params
				debit.Ahead = AheadOf(ShareOf(img, &s), a.Milli, now, d.Ahead)
			}
		}
		t.Debits = append(t.Debits, debit)
	}
	return t
}

// servedAsIs reports whether the item would admit a plain take.
func (d *Debit) servedAsIs(img *store.Image, now int64) bool {
	switch {
	case img.ExpiresAt != 0 && img.ExpiresAt <= now/store.Milli || img.Writes.Tokens < WriteCost || HasLost(img, now):
		return false
	case img.IsBypassed(now):
		return true
	case img.HasValidUntil && img.ValidUntil <= now:
		return false
	}
	for _, a := range d.Amounts {
		s, _ := img.Limit(a.Limit)
		if Counts(s.Mode(), heldOf(img, &s, now), a.Milli) {
			continue
		}
		suffices := s.Tokens >= a.Milli || s.IsSoft() && s.Mode() == store.Enforce && s.Tokens >= -MaxDebt
		if a.Milli > 0 && (!suffices || img.IsEvaluable() && Overflows(img, &s, now)) {
			return false
		}
	}
	return takesSoftly(img, d.Amounts, now)
}

// stamp is the stamp that a refill gives an item, which it also repairs unless repair is nil.
func (d *Debit) stamp(img *store.Image, repair *Wanted, now int64) int64 {
	at := max(now, img.RefilledAt)
	if repair != nil || d.Settling || d.Amendment != nil {
		// The stamp must move. Otherwise clients with an earlier image do not notice
		// the changed parameters, the debt, or what an operator gave.
		at = max(now, img.RefilledAt+1)
	}
	if at = stampOf(img, at); repair != nil && at == img.ValidUntil-1 {
		at = stampOf(img, img.ValidUntil) // no instant is left to which a new schedule could move it
	}
	return at
}

// Refill works out the write that accrues img to now, debits, and repairs the bucket.
// short says that the balances do not cover the amounts even so. wait, if not 0,
// is how long until the hidden write limit has a token.
func (d *Debit) Refill(img *store.Image, now, multiplier int64) (r *store.Refill, wait time.Duration, short bool) {
	repair := d.repairs(img, now)
	at := d.stamp(img, repair, now)
	bypass := d.bypass(img, repair, now)
	lost, amounts, returns := d.reclaims(img, at)
	if bypass.Until != 0 {
		amounts = AllCounted(amounts)
	}
	r = &store.Refill{
		Bucket: img.Bucket, Seen: img, Turn: TurnOf(img, now),
		RefilledAt: at, Bypass: bypass, Lost: lost,
		Changes: make([]store.Change, 0, len(img.Limits)+1),
	}
	r.Writes, wait = WritesChange(img, at, d.Settling || d.Pressing)
	if IsFrozen(img, now) {
		r.Writes.AtLeast, wait = math.MinInt64, 0
	}
	if wait > 0 && !d.Settling && !d.Pressing {
		return nil, wait, false
	}
	short = d.Begins.mustBegin(img, amounts, at) // the stamp may lie past the end of a session that goes on now
	for i := range img.Limits {
		s := &img.Limits[i]
		ch := d.change(img, s, amounts, repair, at)
		if ch.Kind != store.RemoveLimit && ch.Debit > 0 && ch.SoftUntil == 0 && !isCounted(amounts, s.Name) && s.Tokens+ch.Earned+AheadOf(ShareOf(img, s), ch.Debit, at, d.Ahead) < ch.Debit {
			short = true
		}
		r.Changes = append(r.Changes, ch)
	}
	expires := img.ExpiresAt != 0
	if repair != nil {
		expires = repair.Expires
		short = d.add(img, amounts, repair, r) || short
		if repair.Owner != img.Owner() {
			r.Owner = &repair.Owner
		}
	}
	if slices.ContainsFunc(r.Changes, func(c store.Change) bool { return c.Kind == store.AddLimit }) {
		r.Turn = nil // a limit that comes back is still in the diary; the next write turns
	}
	r.Expiry, r.Validity = RefillExpiry(r, expires, now, multiplier), validityOf(r)
	countInRefill(r, returns)
	AsFull(r, now)
	return r, 0, short && !d.Settling
}

// edited is what a limit of an item is at an instant under other parameters, or under its own: the
// shard's part, the most that the balance may then be, and what changes the balance.
//
// The item has earned by its old parameters until then. Tokens consumed of a quota in its
// period are consumed of the quota that replaces it: no sequence of edits gives anything back.
// So the difference of the two shares is added or taken, whatever a peer granted. A quota
// that shrinks below what was consumed is owed the rest.
func edited(img *store.Image, s *store.LimitState, next store.Params, now int64) (part bucket.Limit, capacity, delta int64, clamped bool) {
	delta, clamped = ShareOf(img, s).Refill(s.Tokens, img.RefilledAt, now)
	old, after := shareAt(img, s, now), *s
	if Renewed(img, s, now) {
		carried := carriedInto(img, s, now)
		old.Capacity = old.Renewed + carried
		after.SetExtra(store.Extra{Granted: store.Granted{TopUp: carried}})
	}
	after.Params = &next
	if IsSession(next.Renewal) && !IsSession(s.Renewal) {
		after.SetExtra(store.Extra{Granted: after.Granted(), Opened: now}) // a session that replaces another limit begins with what that has left
	}
	part = shareAt(img, &after, now)
	part.InStep = isInStep(img, s, &next, now)
	if s.Renewal != nil && next.Renewal != nil {
		more := part.Renewed - old.Renewed
		if isVaried(s.Params) && !isInStep(img, s, s.Params, now) {
			more = min(more, 0) // what was cut before would come back
		}
		return part, part.Capacity, delta + more, clamped
	}
	return part, min(part.Capacity, old.Capacity), delta, clamped
}

// stampOf is the stamp of a soft limit after the refill.
func (d *Debit) stampOf(s *store.LimitState, kind store.ChangeKind, now int64) int64 {
	if d.Stamps || kind == store.SetParams {
		return store.StampUntil(now)
	}
	return s.SoftUntil()
}

// change is what the refill does to a limit of the item, with the amounts of the debit.
func (d *Debit) change(img *store.Image, s *store.LimitState, amounts []store.Amount, repair *Wanted, now int64) store.Change {
	ch := store.Change{Limit: s.Name, Debit: AmountOf(amounts, s.Name)}
	next, soft, mode := *s.Params, s.IsSoft(), s.Mode()
	switch l, kind := repair.kindOf(s); kind {
	case store.RemoveLimit:
		ch.Kind = kind
		return ch
	case store.SetParams:
		next, soft, mode = l.Params(), !l.Refuses(), l.Mode
		ch.Kind, ch.Params, ch.Mode = kind, next, mode
	default:
	}
	if soft {
		ch.SoftUntil = d.stampOf(s, ch.Kind, now)
	}
	part, capacity, delta, clamped := edited(img, s, next, now)
	ch.Renews = isGranted(s) && (next.Renewal == nil || Renewed(img, s, now))
	begin(&ch, img, s, next.Renewal, now)
	uses := ch.Debit
	counted := uses > 0 && isCounted(amounts, s.Name)
	if ch.Counts = counted; !counted && !d.Settling && Counts(mode, s.Tokens+min(delta, capacity-s.Tokens), uses) {
		counted = true
		count(&ch, mode)
	}
	if counted {
		uses = 0 // it begins no session
	}
	if ch.Opened = d.Begins.opened(img, s, next.Renewal, uses, now); ch.Opened == s.Told().Opened {
		delta -= s.Told().Consumed
	}
	if s.Tokens+delta > capacity {
		delta, clamped = capacity-s.Tokens, true
	}
	if owes := forgiven(s, mode, soft, part, s.Tokens+delta); owes > 0 {
		delta, clamped = delta+owes, true
	}
	credit := max(0, -ch.Debit)
	if isElsewhere(amounts, img, s) {
		delta -= credit
	}
	if room := capacity - s.Tokens - delta; credit > room {
		delta, clamped = delta-(credit-room), true
	}
	ch.Earned = delta
	switch {
	case counted:
		ch.Earned += ch.Debit
	case (d.Settling || soft) && ch.Debit > 0:
		// A debt ends at maxDebt: the part beyond it counts as consumed, but the item
		// does not owe it.
		ch.Earned += max(0, ch.Debit-max(0, s.Tokens+delta-floorOf(mode, part)))
	}
	ch.AtLeast, ch.AtMost = boundsOf(s, clamped, capacity-delta-credit)
	switch takes := ch.Debit > 0 && !clamped && !counted && !d.Settling; {
	case takes && !soft:
		ch.AtLeast = ch.Debit - delta - AheadOf(ShareOf(img, s), ch.Debit, now, d.Ahead)
	case takes && mode == store.Shadow: // others may have debited since
		ch.AtLeast = floorOf(mode, part) + ch.Debit - delta
	}
	ch.AtLeast = max(ch.AtLeast, leastBefore(s, soft, delta))
	d.Amendment.amend(&ch, img, s, next, part, now)
	return ch
}

// kindOf is what a repair makes of the parameters of a limit, with the limit that it is to be. nil
// repairs nothing.
func (w *Wanted) kindOf(s *store.LimitState) (*store.Limit, store.ChangeKind) {
	if w == nil {
		return nil, store.KeepParams
	}
	switch l := w.Find(s.Name); {
	case l != nil && !isAs(s, l):
		return l, store.SetParams
	case l == nil && w.IsWhole():
		return nil, store.RemoveLimit
	default:
		return l, store.KeepParams
	}
}

// boundsOf are the balances at which a change may be applied that leaves room for so much. One that is
// clamped to the balance seen requires that.
func boundsOf(s *store.LimitState, clamped bool, room int64) (least, most int64) {
	switch {
	case clamped && s.Tokens < -MaxDebt:
		// The item may owe more than the image says. It then loses what it earns beyond
		// that.
		return math.MinInt64, s.Tokens
	case clamped:
		return s.Tokens, s.Tokens
	}
	return math.MinInt64, room
}

// add gives the item the wanted limits that it lacks, full, less the amounts of the debit.
func (d *Debit) add(img *store.Image, amounts []store.Amount, repair *Wanted, r *store.Refill) (short bool) {
	for _, l := range repair.Limits {
		if _, ok := img.Limit(l.Name); ok {
			continue
		}
		ch := store.Change{
			Limit: l.Name, Kind: store.AddLimit, Params: l.Params(),
			Earned: Share(l.Params(), img.Shard, img.ShardCount, r.RefilledAt).Capacity,
			Debit:  AmountOf(amounts, l.Name),
		}
		counted := isCounted(amounts, l.Name)
		if !counted && Counts(l.Mode, ch.Earned, ch.Debit) {
			counted = true
			count(&ch, l.Mode)
		}
		if counted {
			ch.Earned += ch.Debit
		}
		if a := d.Amendment.of(l.Name); a != nil && l.Renews != nil && !d.Amendment.Resets {
			ch.Earned, ch.TopUp = ch.Earned+a.Milli, a.Milli
		}
		ch.Opened = openedBy(l.Renews, max(ch.Debit, ch.TopUp), r.RefilledAt, img.ShardCount)
		ch.SoftUntil, ch.Mode = StampOf(&l, r.RefilledAt), l.Mode
		short = short || l.Refuses() && ch.Debit > ch.Earned
		r.Changes = append(r.Changes, ch)
	}
	return short
}
