package limiter

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

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
	configured, want *plan.Wanted
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
	mismatch := c.want != nil && c.want.Differs(img) && !c.asIs
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
	if img.Writes.Tokens < plan.WriteCost {
		return false
	}
	for _, a := range c.amounts {
		if s, _ := img.Limit(a.Limit); a.Milli > 0 && (s.Tokens < a.Milli || img.Foreign == "" && plan.Overflows(img, &s, now)) {
			return false
		}
	}
	return true
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
	r.Writes, wait = plan.WritesChange(img, at, c.settling || c.pressing)
	if plan.IsFrozen(img, now) {
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
		expires = repair.Expires
		short = c.add(img, repair, r) || short
		if repair.Owner != plan.OwnerOf(img) {
			r.Owner = &repair.Owner
		}
	}
	r.Expiry = plan.RefillExpiry(r, expires, now, multiplier)
	plan.AsFull(r, now)
	return r, 0, short && !c.settling
}

// change is what the refill does to a limit of the item.
func (c *claim) change(img *store.Image, s *store.LimitState, repair *plan.Wanted, now int64) store.Change {
	ch := store.Change{Limit: s.Name, Debit: c.amount(s.Name)}
	next := s.Params
	if repair != nil {
		switch l := repair.Find(s.Name); {
		case l != nil && l.Params() != s.Params:
			next = l.Params()
			ch.Kind, ch.Params = store.SetParams, next
		case l == nil && repair.IsWhole():
			ch.Kind = store.RemoveLimit
			return ch
		}
	}
	// The item has earned at the old rate up to now.
	old := plan.ShareOf(img, s.Params)
	delta, clamped := old.Refill(s.Tokens, img.RefilledAt, now)
	capacity := min(old.Capacity, plan.ShareOf(img, next).Capacity)
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
		ch.Earned += max(0, ch.Debit-max(0, s.Tokens+delta+plan.MaxDebt))
	}
	switch {
	case clamped && s.Tokens < -plan.MaxDebt:
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
func (c *claim) add(img *store.Image, repair *plan.Wanted, r *store.Refill) (short bool) {
	for _, l := range repair.Limits {
		if _, ok := img.Limit(l.Name); ok {
			continue
		}
		ch := store.Change{
			Limit: l.Name, Kind: store.AddLimit, Params: l.Params(),
			Earned: plan.Share(l.Params(), img.Shard, img.ShardCount).Capacity,
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
