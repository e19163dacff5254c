package limiter

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// writeCost is the debit of every write to a bucket item from its hidden write limit,
// in millitokens.
const writeCost = milli

// writeParams are the parameters of the hidden write limit: 1,000 writes a second,
// which one DynamoDB partition sustains. They are never divided by the number of
// shards, because each shard has its own partition.
var writeParams = store.Params{Capacity: 1000 * milli, Amount: 1000 * milli, Period: 1000}

// A claim is what a request wants of one bucket: the entity's, or its parent's.
type claim struct {
	Bucket
	acct  *account       // what is remembered of the bucket and all its shards
	asked []store.Amount // by limit name
	// amounts are the asked amounts of the limits that the bucket is to have. If those
	// limits are not known yet, amounts are all that were asked.
	amounts []store.Amount
	// fallback are the limits that hold where no level configures any, by name; none
	// for a parent.
	fallback []Limit
	// configured is what was last read of the bucket's configuration, and want is what
	// the bucket is to be for this claim; nil if nothing is known yet. See
	// [claim.adopt].
	configured, want *wanted
	// sure says that want was read after the current image, so that a write may repair
	// the item.
	sure bool
	// asIs says that nobody could find out whether the item is as wanted: the claim
	// uses the item as it is.
	asIs bool
	// settling says that the amounts follow a decision already taken. They are debited
	// at any balance, and negative amounts are returned.
	settling bool
	// pressing says that the claim does not wait for the hidden write limit.
	pressing bool
	// stamp is how the claim's write treats the stamp of the item.
	stamp stampRule
	// optional says that a bucket without limits does not refuse the claim: a parent's.
	optional bool

	// The outcome.
	image    *store.Image   // the item after the debit, or the item that refused; nil if there is none
	images   []*store.Image // all shards of the bucket, if the limiter looked at several
	portions []portion      // the debit of each shard, if several were debited
	behind   []int64        // for each amount, what later callers took in the same write
	at       int64          // the instant of image, in milliseconds
	granted  bool           // the amounts are debited
	refused  bool           // the bucket cannot serve the amounts
	short    bool           // the shard cannot serve the amounts, others may
	statuses []Status       // if refused without a bucket
	unknown  []string       // limits the bucket does not have and is not configured to have
	parent   string         // the parent to which the entity cascades
}

// A step is the next action on a claim.
type step uint8

const (
	stepRead     step = iota // read a bucket that is not fully known
	stepTake                 // debit the bucket as it is
	stepRefill               // accrue, debit and repair in one write
	stepRepair               // repair, then look again: the claim cannot be served now
	stepVerify               // find out whether the bucket needs a repair
	stepCreate               // make the bucket
	stepWait                 // let the hidden write limit earn a token
	stepRefuse               // the bucket cannot serve the claim
	stepDisabled             // an operator has disabled the bucket
	stepForeign              // this version cannot evaluate the item
	stepDone                 // there is nothing to do
)

// plan decides the next step from the last image of the bucket and an instant. A fresh
// image has just refused a write. Any other image may be behind: if it cannot serve the
// claim, plan tries a take nevertheless.
//
// plan is a pure function, without a clock or a store.
func (c *claim) plan(img *store.Image, fresh bool, now, multiplier int64) (step, *store.Refill, time.Duration) {
	if img == nil {
		if fresh {
			return stepCreate, nil, 0
		}
		return stepRead, nil, 0
	}
	mismatch := c.want != nil && c.want.differs(img) && !c.asIs
	switch {
	case img.Disabled && fresh:
		return stepDisabled, nil, 0
	case img.Disabled:
		return stepTake, nil, 0
	case c.want == nil:
		return stepRead, nil, 0
	case mismatch && !c.sure:
		return stepVerify, nil, 0
	case len(c.amounts) == 0 && !mismatch:
		return stepDone, nil, 0
	}
	if !mismatch && !c.lacks(img) && (c.servedAsIs(img, now) || c.takeAtStamp(img, fresh, now) != nil) {
		return stepTake, nil, 0
	}
	if img.Foreign != "" || c.lacks(img) && !mismatch {
		if fresh {
			return stepForeign, nil, 0
		}
		return stepTake, nil, 0
	}
	r, wait, short := c.refill(img, now, multiplier)
	switch {
	case wait > 0 && (fresh || len(c.amounts) == 0):
		return stepWait, nil, wait
	case wait > 0:
		return stepTake, nil, 0
	case !short:
		return stepRefill, r, 0
	case mismatch:
		repair := &claim{Bucket: c.Bucket, want: c.want, sure: true, pressing: c.pressing}
		r, _, _ = repair.refill(img, now, multiplier)
		return stepRepair, r, 0
	case fresh:
		return stepRefuse, nil, 0
	}
	return stepTake, nil, 0
}

// lacks reports whether the claim names a limit that an item does not have.
func (c *claim) lacks(img *store.Image) bool {
	return slices.ContainsFunc(c.amounts, func(a store.Amount) bool {
		_, ok := img.Limit(a.Limit)
		return !ok
	})
}

// servedAsIs reports whether the item would admit a plain take.
func (c *claim) servedAsIs(img *store.Image, now int64) bool {
	if img.ExpiresAt != 0 && img.ExpiresAt <= now/milli || img.HasValidUntil && img.ValidUntil <= now {
		return false
	}
	if img.Writes.Tokens < writeCost {
		return false
	}
	for _, a := range c.amounts {
		if s, _ := img.Limit(a.Limit); a.Milli > 0 && (s.Tokens < a.Milli || img.Foreign == "" && overflows(img, &s, now)) {
			return false
		}
	}
	return true
}

// overflows reports whether a balance has, by now, accrued past its capacity.
func overflows(i *store.Image, s *store.LimitState, now int64) bool {
	_, clamped := shareOf(i, s.Params).Refill(s.Tokens, i.RefilledAt, now)
	return clamped
}

// ceilingOf is the highest balance of a limit, at the image's stamp or a later one,
// that has not accrued past the capacity by now.
func ceilingOf(i *store.Image, s *store.LimitState, now int64) int64 {
	if i.Foreign != "" {
		return math.MaxInt64 // this version does not know the capacity
	}
	l := shareOf(i, s.Params)
	return l.Capacity - min(l.Capacity, l.Earned(i.RefilledAt, now))
}

// wholeOf is a limit that is not divided among shards.
func wholeOf(s *store.LimitState) bucket.Limit { return share(s.Params, 0, 1) }

// shareOf is the image's share of a limit.
func shareOf(i *store.Image, p store.Params) bucket.Limit { return share(p, i.Shard, i.ShardCount) }

// share is the share of a limit that falls to one of n shards.
func share(p store.Params, shard, n int) bucket.Limit {
	return bucket.Limit{Capacity: p.Capacity, Amount: p.Amount, Period: p.Period}.Share(shard, n)
}

// refill works out the write that accrues img to now, debits the claim, and repairs the
// bucket. short says that the balances do not cover the claim even so. wait, if not 0,
// is how long until the hidden write limit has a token.
func (c *claim) refill(img *store.Image, now, multiplier int64) (r *store.Refill, wait time.Duration, short bool) {
	at, repair := max(now, img.RefilledAt), c.repair(img)
	if repair != nil || c.settling {
		// The stamp must move. Otherwise clients with an earlier image do not notice
		// the changed parameters or the debt.
		at = max(now, img.RefilledAt+1)
	}
	r = &store.Refill{
		Bucket: img.Bucket, Seen: img,
		RefilledAt: at,
		Lapse:      img.HasValidUntil && img.ValidUntil <= now,
		Changes:    make([]store.Change, 0, len(img.Limits)+1),
	}
	r.Writes, wait = c.writesChange(img, at)
	if isFrozen(img, now) {
		r.Writes.AtLeast, wait = math.MinInt64, 0
	}
	if wait > 0 && !c.settling && !c.pressing {
		return nil, wait, false
	}
	for i := range img.Limits {
		s := &img.Limits[i]
		ch := c.change(img, s, repair, at)
		if ch.Kind != store.RemoveLimit && ch.Debit > 0 && s.Tokens+ch.Earned < ch.Debit {
			short = true
		}
		r.Changes = append(r.Changes, ch)
	}
	expires := img.ExpiresAt != 0
	if repair != nil {
		expires = repair.expires
		short = c.add(img, repair, r) || short
		if repair.owner != ownerOf(img) {
			r.Owner = &repair.owner
		}
	}
	r.Expiry = refillExpiry(r, expires, now, multiplier)
	asFull(r, now)
	return r, 0, short && !c.settling
}

// isFrozen reports whether the item's stamp lies so far ahead that the hidden write
// limit would have filled by then. Nothing accrues to that limit until then, and its
// balance does not show how much the item is written to.
func isFrozen(i *store.Image, now int64) bool { return i.RefilledAt-now > writeParams.Period }

// writesLeft is the balance of the hidden write limit. If the item is frozen, the
// balance is unknown and counts as full.
func writesLeft(i *store.Image, now int64) int64 {
	if w := wholeOf(&i.Writes); !isFrozen(i, now) {
		return w.Balance(i.Writes.Tokens, i.RefilledAt, now)
	}
	return i.Writes.Capacity
}

// writesChange accrues the hidden write limit and debits the refill itself. wait is how
// long until that limit has a token for it.
func (c *claim) writesChange(img *store.Image, now int64) (ch store.Change, wait time.Duration) {
	if img.Writes.Name == "" {
		return store.Change{
			Limit: store.WriteLimit, Kind: store.AddLimit, Params: writeParams,
			Earned: writeParams.Capacity, Debit: writeCost,
		}, 0
	}
	writes := wholeOf(&img.Writes)
	if ms, ok := writes.Wait(img.Writes.Tokens, img.RefilledAt, now, writeCost); !ok || ms > 0 {
		wait = time.Duration(max(1, ms)) * time.Millisecond
	}
	// Not pinned when clamped: a take that lands in between counts as one after the
	// refill. The loss is only a part of an estimate of writes.
	delta, _ := writes.Refill(img.Writes.Tokens, img.RefilledAt, now)
	ch = store.Change{
		Limit: store.WriteLimit, Earned: delta, Debit: writeCost,
		AtLeast: writeCost - delta, AtMost: writes.Capacity - delta,
	}
	if c.settling || c.pressing {
		ch.AtLeast = math.MinInt64
	}
	return ch, wait
}

// change is what the refill does to a limit of the item.
func (c *claim) change(img *store.Image, s *store.LimitState, repair *wanted, now int64) store.Change {
	ch := store.Change{Limit: s.Name, Debit: c.amount(s.Name)}
	next := s.Params
	if repair != nil {
		switch l := repair.find(s.Name); {
		case l != nil && l.Params() != s.Params:
			next = l.Params()
			ch.Kind, ch.Params = store.SetParams, next
		case l == nil && repair.isWhole():
			ch.Kind = store.RemoveLimit
			return ch
		}
	}
	// The item has earned at the old rate up to now.
	old := shareOf(img, s.Params)
	delta, clamped := old.Refill(s.Tokens, img.RefilledAt, now)
	capacity := min(old.Capacity, shareOf(img, next).Capacity)
	if s.Tokens+delta > capacity {
		delta, clamped = capacity-s.Tokens, true
	}
	credit := max(0, -ch.Debit)
	if room := capacity - s.Tokens - delta; credit > room {
		delta, clamped = delta-(credit-room), true
	}
	ch.Earned = delta
	ch.AtLeast, ch.AtMost = math.MinInt64, capacity-delta-credit
	if c.settling && ch.Debit > 0 {
		// A debt ends at maxDebt: the part beyond it counts as consumed, but the item
		// does not owe it.
		ch.Earned += max(0, ch.Debit-max(0, s.Tokens+delta+maxDebt))
	}
	switch {
	case clamped && s.Tokens < -maxDebt:
		// The item may owe more than the image says. It then loses what it earns beyond
		// that.
		ch.AtMost = s.Tokens
	case clamped:
		ch.AtLeast, ch.AtMost = s.Tokens, s.Tokens
	case ch.Debit > 0 && !c.settling:
		ch.AtLeast = ch.Debit - delta
	}
	return ch
}

// add gives the item the wanted limits that it lacks, full.
func (c *claim) add(img *store.Image, repair *wanted, r *store.Refill) (short bool) {
	for _, l := range repair.limits {
		if _, ok := img.Limit(l.Name); ok {
			continue
		}
		ch := store.Change{
			Limit: l.Name, Kind: store.AddLimit, Params: l.Params(),
			Earned: share(l.Params(), img.Shard, img.ShardCount).Capacity,
			Debit:  c.amount(l.Name),
		}
		short = short || ch.Debit > ch.Earned
		r.Changes = append(r.Changes, ch)
	}
	return short
}

// amount is what the claim takes of a limit, 0 if it does not name the limit.
func (c *claim) amount(limit string) int64 {
	for _, a := range c.amounts {
		if a.Limit == limit {
			return a.Milli
		}
	}
	return 0
}

// refillExpiry renews the item's expiry, by the limits that the write leaves on it and
// their debts. It also switches the expiry on or off.
func refillExpiry(r *store.Refill, expires bool, now, multiplier int64) store.Expiry {
	switch {
	case !expires && r.Seen.ExpiresAt == 0:
		return store.Expiry{}
	case !expires:
		return store.Expiry{Change: true}
	}
	count := r.ShardCount
	if count == 0 {
		count = r.Seen.ShardCount
	}
	var life int64
	for i := range r.Changes {
		ch := &r.Changes[i]
		if ch.Kind == store.RemoveLimit {
			continue
		}
		s, _ := r.Seen.Limit(ch.Limit)
		if s = afterChange(ch, s, false); ch.Kind == store.AddLimit {
			s.Tokens = 0
		}
		life = max(life, lifeOf(&s, r.Shard, count, multiplier))
	}
	return store.Expiry{Change: true, At: expiresAt(life, now, multiplier)}
}

// lifeOf is how long one limit keeps a shard, one of count, in milliseconds. It is the
// time to earn what the shard owes, plus the time to fill, several times over.
func lifeOf(s *store.LimitState, shard, count int, multiplier int64) int64 {
	const most = math.MaxInt64 / milli
	debt, pays := share(s.Params, shard, count).Wait(min(0, s.Tokens), 0, 0, min(1, s.Capacity))
	if s.Tokens >= 0 {
		debt, pays = 0, true
	}
	fill, fills := wholeOf(s).Wait(0, 0, 0, s.Capacity)
	if !pays || !fills || fill > most/max(1, multiplier) {
		return most
	}
	return min(most, debt) + fill*multiplier
}

// expiresAt is when the sweep may delete a bucket that is last written now. It is kept
// for life, but at least for the life of the hidden write limit. It is 0, never, if
// multiplier is negative.
func expiresAt(life, now, multiplier int64) int64 {
	if multiplier < 0 {
		return 0
	}
	return now/milli + max(life, writeParams.Period*multiplier)/milli
}

// retryAfter is the exact wait for an amount, in whole milliseconds.
func retryAfter(l bucket.Limit, tokens, at, now, need int64) time.Duration {
	ms, ok := l.Wait(tokens, at, now, need)
	if !ok || ms > math.MaxInt64/int64(time.Millisecond) {
		return Never
	}
	return time.Duration(ms) * time.Millisecond
}

// limitOf is p as users see it: whole tokens, and whole seconds where the stored values
// are whole.
func limitOf(p store.Params, name string) Limit {
	return Limit{
		Name: name, Capacity: max(1, p.Capacity/milli), Amount: p.Amount / milli,
		Period: time.Duration(p.Period) * time.Millisecond,
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// claimAmounts returns a request's amounts by limit name, in millitokens.
func claimAmounts(consume map[string]int64) []store.Amount {
	amounts := make([]store.Amount, 0, len(consume))
	for name, tokens := range consume {
		i := len(amounts)
		amounts = append(amounts, store.Amount{})
		for ; i > 0 && strings.Compare(amounts[i-1].Limit, name) > 0; i-- {
			amounts[i] = amounts[i-1]
		}
		amounts[i] = store.Amount{Limit: name, Milli: tokens * milli}
	}
	return amounts
}

// isWide reports whether an item has more limits than one write can carry; only a peer
// makes such an item. Its callers share no writes, and write only the limits that they
// name.
func isWide(i *store.Image) bool { return i != nil && len(i.Limits) > MaxLimits }
