package limiter

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// writeCost is what every write to a bucket item debits from its hidden write
// limit, in millitokens.
const writeCost = milli

// writeParams are the hidden write limit's: 1,000 writes a second, what one
// DynamoDB partition sustains. Never divided by the number of shards, because
// each shard has a partition of its own.
var writeParams = Params{Capacity: 1000 * milli, Amount: 1000 * milli, Period: 1000}

// A claim is what a request wants of one bucket: the entity's, or its parent's.
type claim struct {
	Bucket
	acct    *account // what is remembered of the bucket, whatever the shard
	amounts []Amount // by limit name
	// want, if not nil, is what the bucket is to be brought to.
	want *wanted
	// fits, if not nil, is what the last image was found not to differ from.
	fits *wanted
	// override says that want came with the request.
	override bool
	// settling says that the amounts follow a decision that was already taken:
	// they are debited whatever the balance is, and negative ones are returned.
	settling bool
	// pressing says that it does not wait for the hidden write limit.
	pressing bool
	// haste is what it is told about the stamp of the item.
	haste haste
	// optional says that a bucket without limits is no obstacle: a parent's.
	optional bool

	// What came of it.
	image    *Image    // the item after the debit, or the one that refused; nil if there is none
	images   []*Image  // all shards of the bucket, if several had to be looked at
	portions []portion // what each of several shards was debited, if several were
	behind   []int64   // of each amount, what later callers took in the same write
	at       int64     // the instant of image, in milliseconds
	granted  bool      // the amounts are debited
	refused  bool      // the bucket cannot serve them
	short    bool      // the shard cannot serve them, others may
	statuses []Status  // if refused without a bucket
	unknown  []string  // limits the bucket does not have and is not configured to have
	parent   string    // whom the entity cascades to
}

// wanted are parameters that a bucket should have.
type wanted struct {
	limits []Limit // by name
	// whole says that limits are all of them and others go; otherwise others
	// stay as they are.
	whole bool
	// expires is whether a bucket with these limits expires when idle, if
	// whole.
	expires bool
	owner   *Owner // what the item should copy of its entity's record; nil is as it is
	read    int64  // when the configuration was read that it is from, in milliseconds
	epoch   uint64 // the limiter's configuration epoch then
}

// A step is what to do next about a claim.
type step uint8

const (
	stepRead      step = iota // look at a bucket that was never seen
	stepTake                  // debit the bucket as it is
	stepRefill                // accrue, debit and repair in one write
	stepRepair                // repair, then look again: the claim cannot be served now
	stepCreate                // make the bucket
	stepConfigure             // find out whether the limits it lacks are configured
	stepWait                  // let the hidden write limit earn a token
	stepRefuse                // the bucket cannot serve the claim
	stepDisabled              // an operator says no
	stepForeign               // this version cannot tell
	stepDone                  // there is nothing to do
)

// plan decides the next step from the last image of the bucket and an instant.
// A fresh image has just refused a write; one that is not may be behind, and
// whatever cannot be done according to it is tried all the same.
//
// It is a pure function: no clock, no store.
func (c *claim) plan(img *Image, fresh bool, now, multiplier int64) (step, *Refill, time.Duration) {
	if img == nil {
		switch {
		case len(c.amounts) == 0:
			return stepDone, nil, 0
		case fresh:
			return stepCreate, nil, 0
		}
		return stepRead, nil, 0
	}
	if fresh && img.Disabled {
		return stepDisabled, nil, 0
	}
	mismatch := c.want != nil && c.want.differs(img)
	if len(c.amounts) == 0 && !mismatch {
		return stepDone, nil, 0
	}
	if c.lacks(img) {
		return stepConfigure, nil, 0
	}
	if !mismatch && (c.servedAsIs(img, now) || c.takeInHaste(img, fresh, now) != nil) {
		return stepTake, nil, 0
	}
	if img.Foreign != "" {
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
		repair := &claim{Bucket: c.Bucket, want: c.want, pressing: c.pressing}
		r, _, _ = repair.refill(img, now, multiplier)
		return stepRepair, r, 0
	case fresh:
		return stepRefuse, nil, 0
	}
	return stepTake, nil, 0
}

// lacks reports whether the claim names a limit that the bucket lacks and that
// is not about to be added, or that is about to be taken off.
func (c *claim) lacks(img *Image) bool {
	return slices.ContainsFunc(c.amounts, func(a Amount) bool {
		if c.want != nil && (c.want.whole || c.want.has(a.Limit)) {
			return !c.want.has(a.Limit)
		}
		_, ok := img.Limit(a.Limit)
		return !ok
	})
}

func (w *wanted) has(name string) bool { return w.find(name) != nil }

func (w *wanted) find(name string) *Limit {
	for i := range w.limits {
		if w.limits[i].Name == name {
			return &w.limits[i]
		}
	}
	return nil
}

// differs reports whether the item has to be written to become what is wanted.
func (w *wanted) differs(img *Image) bool {
	found := 0
	for i := range img.Limits {
		s := &img.Limits[i]
		l := w.find(s.Name)
		switch {
		case l == nil && w.whole:
			return true
		case l == nil:
		case l.params() != s.Params:
			return true
		default:
			found++
		}
	}
	return found < len(w.limits) ||
		w.whole && w.expires != (img.ExpiresAt != 0) ||
		w.owner != nil && *w.owner != ownerOf(img)
}

func ownerOf(img *Image) Owner {
	return Owner{
		Cascade: img.Cascade, Parent: img.Parent,
		Generation: img.ParentGeneration, Incarnation: img.Incarnation,
	}
}

// servedAsIs reports whether a plain take would be admitted.
func (c *claim) servedAsIs(img *Image, now int64) bool {
	if img.ExpiresAt != 0 && img.ExpiresAt <= now/milli || img.HasValidUntil && img.ValidUntil <= now {
		return false
	}
	if img.Writes.Tokens < writeCost {
		return false
	}
	for _, a := range c.amounts {
		if s, _ := img.Limit(a.Limit); a.Milli > 0 && (s.Tokens < a.Milli || img.Foreign == "" && img.overflows(&s, now)) {
			return false
		}
	}
	return true
}

// overflows reports whether a balance has, by now, accrued past its capacity.
func (i *Image) overflows(s *LimitState, now int64) bool {
	_, clamped := i.share(s.Params).Refill(s.Tokens, i.RefilledAt, now)
	return clamped
}

// ceiling is the highest balance of a limit, at the image's stamp or a later
// one, that has not accrued past the capacity by now.
func (i *Image) ceiling(s *LimitState, now int64) int64 {
	if i.Foreign != "" {
		return math.MaxInt64 // what the capacity is, this version cannot tell
	}
	l := i.share(s.Params)
	return l.Capacity - min(l.Capacity, l.Earned(i.RefilledAt, now))
}

// whole is a limit that is not divided among shards.
func (s *LimitState) whole() bucket.Limit { return share(s.Params, 0, 1) }

// share is the image's part of a limit.
func (i *Image) share(p Params) bucket.Limit { return share(p, i.Shard, i.ShardCount) }

// share is the part of a limit that falls to one of n shards.
func share(p Params, shard, n int) bucket.Limit {
	return bucket.Limit{Capacity: p.Capacity, Amount: p.Amount, Period: p.Period}.Share(shard, n)
}

// refill works out the write that accrues img to now, debits the claim, and
// makes of the bucket what is wanted. short says that the balances do not
// cover the claim even so; wait, if not 0, is how long until the hidden write
// limit has a token.
func (c *claim) refill(img *Image, now, multiplier int64) (r *Refill, wait time.Duration, short bool) {
	at := max(now, img.RefilledAt)
	if c.want != nil && c.want.differs(img) {
		// Parameters change under the lock only if the stamp moves.
		at = max(now, img.RefilledAt+1)
	}
	r = &Refill{
		Bucket: img.Bucket, Seen: img,
		RefilledAt: at,
		Lapse:      img.HasValidUntil && img.ValidUntil <= now,
		Changes:    make([]Change, 0, len(img.Limits)+1),
	}
	if r.Writes, wait = c.writesChange(img, at); wait > 0 && !c.settling && !c.pressing {
		return nil, wait, false
	}
	for i := range img.Limits {
		s := &img.Limits[i]
		ch := c.change(img, s, at)
		if ch.Kind != RemoveLimit && ch.Debit > 0 && s.Tokens+ch.Earned < ch.Debit {
			short = true
		}
		r.Changes = append(r.Changes, ch)
	}
	if c.want != nil {
		short = c.add(img, r) || short
		if c.want.owner != nil && *c.want.owner != ownerOf(img) {
			r.Owner = c.want.owner
		}
	}
	r.Expiry = c.expiry(img, now, multiplier)
	asFull(r, now)
	return r, 0, short && !c.settling
}

// writesChange accrues the hidden write limit and debits the refill itself; it
// tells how long until there is a token for it.
func (c *claim) writesChange(img *Image, now int64) (ch Change, wait time.Duration) {
	if img.Writes.Name == "" {
		return Change{
			Limit: reservedLimit, Kind: AddLimit, Params: writeParams,
			Earned: writeParams.Capacity, Debit: writeCost,
		}, 0
	}
	writes := img.Writes.whole()
	if ms, ok := writes.Wait(img.Writes.Tokens, img.RefilledAt, now, writeCost); !ok || ms > 0 {
		wait = time.Duration(max(1, ms)) * time.Millisecond
	}
	// Not pinned when clamped: a take that lands in between counts as landing
	// after the refill, and what is lost is only part of an estimate of writes.
	delta, _ := writes.Refill(img.Writes.Tokens, img.RefilledAt, now)
	ch = Change{
		Limit: reservedLimit, Earned: delta, Debit: writeCost,
		AtLeast: writeCost - delta, AtMost: writes.Capacity - delta,
	}
	if c.settling || c.pressing {
		ch.AtLeast = math.MinInt64
	}
	return ch, wait
}

// change is what the refill does to a limit of the item.
func (c *claim) change(img *Image, s *LimitState, now int64) Change {
	ch := Change{Limit: s.Name, Debit: c.amount(s.Name)}
	next := s.Params
	if c.want != nil {
		switch l := c.want.find(s.Name); {
		case l != nil && l.params() != s.Params:
			next = l.params()
			ch.Kind, ch.Params = SetParams, next
		case l == nil && c.want.whole:
			ch.Kind = RemoveLimit
			return ch
		}
	}
	// What was earned up to now was earned at the old rate.
	old := img.share(s.Params)
	delta, clamped := old.Refill(s.Tokens, img.RefilledAt, now)
	capacity := min(old.Capacity, img.share(next).Capacity)
	if s.Tokens+delta > capacity {
		delta, clamped = capacity-s.Tokens, true
	}
	credit := max(0, -ch.Debit)
	if room := capacity - s.Tokens - delta; credit > room {
		delta, clamped = delta-(credit-room), true
	}
	ch.Earned = delta
	ch.AtLeast, ch.AtMost = math.MinInt64, capacity-delta-credit
	switch {
	case clamped && s.Tokens < -maxDebt:
		// The item may owe more than the image says. What it earns beyond that is lost.
		ch.AtMost = s.Tokens
	case clamped:
		ch.AtLeast, ch.AtMost = s.Tokens, s.Tokens
	case ch.Debit > 0 && !c.settling:
		ch.AtLeast = ch.Debit - delta
	}
	return ch
}

// add gives the item the wanted limits that it lacks, full.
func (c *claim) add(img *Image, r *Refill) (short bool) {
	for _, l := range c.want.limits {
		if _, ok := img.Limit(l.Name); ok {
			continue
		}
		ch := Change{
			Limit: l.Name, Kind: AddLimit, Params: l.params(),
			Earned: share(l.params(), img.Shard, img.ShardCount).Capacity,
			Debit:  c.amount(l.Name),
		}
		short = short || ch.Debit > ch.Earned
		r.Changes = append(r.Changes, ch)
	}
	return short
}

// amount is what the claim takes of a limit, 0 if it does not name it.
func (c *claim) amount(limit string) int64 {
	for _, a := range c.amounts {
		if a.Limit == limit {
			return a.Milli
		}
	}
	return 0
}

// expiry renews when the item expires, or changes whether it does.
func (c *claim) expiry(img *Image, now, multiplier int64) Expiry {
	expires := img.ExpiresAt != 0
	limits := make([]Params, 0, len(img.Limits))
	if c.want != nil && c.want.whole {
		expires = c.want.expires
		for _, l := range c.want.limits {
			limits = append(limits, l.params())
		}
	} else {
		for i := range img.Limits {
			limits = append(limits, img.Limits[i].Params)
		}
	}
	switch {
	case !expires && img.ExpiresAt == 0:
		return Expiry{}
	case !expires:
		return Expiry{Change: true}
	}
	return Expiry{Change: true, At: expiresAt(limits, now, multiplier)}
}

// expiresAt is when a bucket with these limits, last written now, may be swept:
// after the longest time it takes one of them to fill, several times over. 0,
// never, if multiplier is negative.
func expiresAt(limits []Params, now, multiplier int64) int64 {
	if multiplier < 0 {
		return 0
	}
	var longest int64
	for _, p := range limits {
		ms, ok := share(p, 0, 1).Wait(0, 0, 0, p.Capacity)
		if !ok {
			ms = math.MaxInt64
		}
		longest = max(longest, ms)
	}
	longest = min(longest, math.MaxInt64/milli/max(1, multiplier))
	return now/milli + longest*multiplier/milli
}

// retryAfter is the exact wait for an amount, in whole milliseconds.
func retryAfter(l bucket.Limit, tokens, at, now, need int64) time.Duration {
	ms, ok := l.Wait(tokens, at, now, need)
	if !ok || ms > math.MaxInt64/int64(time.Millisecond) {
		return Never
	}
	return time.Duration(ms) * time.Millisecond
}

// limit is p as users see it: whole tokens, and whole seconds where the stored
// figures are whole.
func (p Params) limit(name string) Limit {
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

// claimAmounts are a request's amounts by limit name, in millitokens.
func claimAmounts(consume map[string]int64) []Amount {
	amounts := make([]Amount, 0, len(consume))
	for name, tokens := range consume {
		i := len(amounts)
		amounts = append(amounts, Amount{})
		for ; i > 0 && strings.Compare(amounts[i-1].Limit, name) > 0; i-- {
			amounts[i] = amounts[i-1]
		}
		amounts[i] = Amount{Limit: name, Milli: tokens * milli}
	}
	return amounts
}
