package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Refill accrues to a new stamp, debits, and repairs, in one update. The update applies
// only if the item is still the one seen:
//
//	SET    rf; ttl; vu; st; cp, ra, rp, rsched, rsa, co, sched of changed limits; sched_tz; new limits whole;
//	       ws and wa of sessions that begin or have ended;
//	       the owner; shard_count; gc of quotas that get another share, and tu of those that
//	       carry, or that an operator tops up; soft of soft limits; bypass
//	       mode of limits in a mode; wr, wl of what one in shadow would have refused;
//	       q of a sequence
//	REMOVE disabled, disabled_until; bypass; vu, ttl, removed limits whole; soft of limits that
//	       become hard, and mode, wr, wl of those that leave it; tu of quotas that get another share; rsched, sched, gc, tu, co, rsa, ws,
//	       wa of limits that follow no such calendar any more; q of idle positions, o of lost processes
//	ADD    tk earned − debit, tc + debit, wcu alike; dn; tu and rn by an operator; o of the process; qn
//	if     rf, vu and shard_count as seen; disabled as seen, or disabled_until if it enables;
//	       bypass as seen, if the refill changes or keeps it;
//	       tk of every limit within the bounds that keep what it earned whole
//	       and its balance below the capacity; soft limits are soft; ws of a credit as seen;
//	       q of a sequence is absent or below, and created as seen; q of idle positions as seen,
//	       and so o of lost processes; o of the process is there, or is new
//
// A refill that changes parameters or the owner has further conditions: cp, ra, rp of
// every limit and the owner are as seen. A peer changes those without moving rf. A doubling
// requires the owner, too, which the shard born copies.
//
// A loose refill requires of rf only that it is not after the new one. It also requires
// that every limit has the parameters and the session seen.
//
// The balances of a bucket that is full anyway are set, not added to, without the rf
// lock:
//
//	SET    rf; ttl; tk = capacity − debit, wcu alike
//	ADD    tc + debit, wcu alike
//	if     rf is not after the instant since when it is full; tk, cp, ra, rp of
//	       every limit imply that it is; the rest as above
//
// The rf lock alone does not exclude takes and credits between image and write. They
// move tk and leave rf, hence the bounds. See [store.Change].
func (s *Store) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if w := sentBefore(ctx); w != nil {
		return w.exchange(ctx)
	}
	if err := checkRefill(r); err != nil {
		return store.Outcome{}, err
	}
	turn, err := s.prepare(ctx, r.Bucket, r.Turn)
	if err != nil {
		return store.Outcome{}, err
	}
	w := newBucketWrite(s, r.Bucket)
	w.seen = r.Seen
	describeRefill(&w.Write, r)
	turn.describe(&w.Write, r.Changes)
	describeTally(&w.Write, tally{&r.Sequence, r.Idle, r.Reserve, r.Lost}, r.Seen, turn)
	return w.send(ctx, "refill", s.refillCache(r))
}

// refillCache returns the cache for the shape of a refill. A refill that changes
// parameters or the number of shards, expects a disabled item, or removes positions or reservations, is rare and has none.
func (s *Store) refillCache(r *store.Refill) *expression.Cache {
	if isRepair(r) || r.Writes.Kind != store.KeepParams || r.ShardCount != 0 || r.Seen.Disabled || len(r.Idle)+len(r.Lost) > 0 {
		return nil
	}
	return &s.refills
}

// checkRefill validates a refill, except the names of limits.
func checkRefill(r *store.Refill) error {
	if err := checkBucket(r.Bucket); err != nil {
		return err
	}
	if err := checkCount(limitsAfter(r)); err != nil {
		return err
	}
	if r.ShardCount < 0 || r.ShardCount > schema.MaxShards {
		return &store.ValidationError{
			Field: "shard count", Value: strconv.Itoa(r.ShardCount), Reason: fmt.Sprintf("give 1 to %d, or 0 to keep it", schema.MaxShards),
		}
	}
	return nil
}

// limitsAfter is how many limits a bucket has after a refill.
func limitsAfter(r *store.Refill) int {
	n := len(r.Seen.Limits)
	for i := range r.Changes {
		switch r.Changes[i].Kind {
		case store.AddLimit:
			n++
		case store.RemoveLimit:
			n--
		case store.KeepParams, store.SetParams:
		}
	}
	return n
}

// tersely is the number of limits, removed and added ones included, above which an
// added limit's absence is checked with two operators instead of four. This way all
// limits fit one write. Such a write does not complete a limit that a peer has left
// incomplete, with parameters but without a balance.
const tersely = store.MaxLimits + 8

// describeRefill states the operations of a refill.
func describeRefill(w *expression.Write, r *store.Refill) {
	repairs := isRepair(r)
	describeItem(w, r)
	describeOwner(w, r)
	terse := len(r.Changes) > tersely
	if slices.ContainsFunc(r.Changes, func(c store.Change) bool { return c.Debit > 0 }) {
		addAcquire(w)
	}
	setZone(w, r)
	describeChange(w, w.WriteLimit(len(r.Changes)), r, &r.Writes, terse)
	for i := range r.Changes {
		c := &r.Changes[i]
		l := w.Limit(i, c.Limit)
		describeChange(w, l, r, c, terse)
		switch {
		case r.Loose:
			p := newParameters(l, &c.Params)
			p.require(w, l)
			requireSession(w, l, r.Seen, c)
			requireCalendar(w, l, r.Seen, c)
		case repairs && c.Kind != store.AddLimit:
			seen, _ := r.Seen.Limit(c.Limit)
			p := seenParameters(l, seen.Params)
			p.require(w, l)
		}
	}
}

// isRepair reports whether a refill changes parameters or the owner.
func isRepair(r *store.Refill) bool {
	return r.Owner != nil || slices.ContainsFunc(r.Changes, func(c store.Change) bool { return c.Kind != store.KeepParams })
}

// describeItem states what a refill does to the item as a whole.
func describeItem(w *expression.Write, r *store.Refill) {
	stamp := w.Number(":rf", r.RefilledAt)
	w.Set(expression.RF, stamp)
	switch {
	case r.FullSince != 0:
		w.Require(expression.RF.AtMost(w.Number(":seen", r.FullSince)))
	case r.Loose:
		w.Require(expression.RF.AtMost(stamp))
	default:
		w.Require(expression.RF.Equals(w.Number(":seen", r.Seen.RefilledAt)))
	}
	switch {
	case r.Enables:
		w.Remove(expression.Disabled)
		w.Remove(expression.DisabledUntil)
		w.Require(expression.DisabledUntil.Equals(w.Number(":ends", r.Seen.MarkedUntil)))
	case r.Seen.Disabled && r.Seen.MarkedUntil != 0:
		w.Require(expression.Disabled.Exists())
		w.Require(expression.DisabledUntil.Equals(w.Number(":ends", r.Seen.MarkedUntil)))
	case r.Seen.Disabled:
		w.Require(expression.Disabled.Exists())
		w.Require(expression.DisabledUntil.Absent())
	default:
		w.Require(expression.Disabled.Absent())
	}
	describeBypass(w, r)
	requireValidity(w, r.Seen)
	switch {
	case r.Validity.Until != 0:
		w.Set(expression.ValidUntil, w.Number(":until", r.Validity.Until))
	case r.Validity.Change:
		w.Remove(expression.ValidUntil)
	}
	if r.Validity.InStep && r.RefilledAt != r.Seen.RefilledAt {
		w.Set(expression.InStep, stamp)
	}
	requireShardCount(w, r.Seen.ShardCount)
	if r.ShardCount != 0 {
		w.Set(expression.ShardCount, w.Number(":shards", int64(r.ShardCount)))
	}
	switch {
	case r.Expiry.At != 0:
		w.Set(expression.TTL, w.Number(":ttl", r.Expiry.At))
	case r.Expiry.Change:
		w.Remove(expression.TTL)
	}
}

// describeBypass states what a refill makes of the item's bypass, if that is still as seen.
func describeBypass(w *expression.Write, r *store.Refill) {
	seen := r.Seen
	switch {
	case !r.Bypass.Change:
		return
	case !seen.Bypassed:
		w.Require(expression.Bypass.Absent())
	case seen.MarkedUntil < 0: // it is no instant
		w.Require(expression.Bypass.Exists())
	default:
		w.Require(expression.Bypass.Equals(w.Number(":bypassed", seen.MarkedUntil)))
	}
	switch {
	case r.Bypass.Until > 0 && (!seen.Bypassed || r.Bypass.Until != seen.MarkedUntil):
		w.Set(expression.Bypass, w.Number(":bypass", r.Bypass.Until))
	case r.Bypass.Until == 0 && seen.Bypassed:
		w.Remove(expression.Bypass)
	}
}

// describeOwner updates what the item copies from its entity's record, if that is still
// as seen.
func describeOwner(w *expression.Write, r *store.Refill) {
	if o := r.Owner; o != nil {
		w.Set(expression.Cascade, w.Bool(":cascade", o.Cascade))
		if o.Parent != "" {
			w.Set(expression.Parent, w.Text(":parent", o.Parent))
		} else {
			w.Remove(expression.Parent)
		}
		if o.Incarnation != "" {
			w.Set(expression.ParentGeneration, w.Number(":pgen", o.Generation))
			w.Set(expression.Incarnation, w.Text(":pinc", o.Incarnation))
		} else {
			w.Remove(expression.ParentGeneration)
			w.Remove(expression.Incarnation)
		}
	}
	if r.Owner != nil || r.KeepsOwner {
		requireOwner(w, r.Seen)
	}
}

// requireOwner requires the owner seen. Of an attribute that was not seen, it requires that the
// attribute is absent, or has the value that means the same, if there is such a value.
func requireOwner(w *expression.Write, seen *store.Image) {
	if was := w.Bool(":was_cascade", seen.Cascade); seen.Cascade {
		w.Require(expression.Cascade.Equals(was))
	} else {
		w.Require(expression.Cascade.AbsentOrEquals(was))
	}
	if seen.Parent != "" {
		w.Require(expression.Parent.Equals(w.Text(":was_parent", seen.Parent)))
	} else {
		w.Require(expression.Parent.Absent())
	}
	if was := w.Number(":was_pgen", seen.ParentGeneration); seen.ParentGeneration != 0 {
		w.Require(expression.ParentGeneration.Equals(was))
	} else {
		w.Require(expression.ParentGeneration.AbsentOrEquals(was))
	}
	if seen.Incarnation != "" {
		w.Require(expression.Incarnation.Equals(w.Text(":was_pinc", seen.Incarnation)))
	} else {
		w.Require(expression.Incarnation.Absent())
	}
}

// describeChange states what a refill does to one limit. A terse one needs fewer
// operators.
func describeChange(w *expression.Write, l expression.Limit, r *store.Refill, c *store.Change, terse bool) {
	describeGrant(w, l, r, c)
	describeSession(w, l, r, c)
	describeSoft(w, l, r, c)
	if c.Shadowed != 0 {
		noteShadow(w, l, c.Shadowed, r.RefilledAt)
	}
	switch {
	case r.FullSince != 0:
		describeFill(w, l, c)
	case c.Kind == store.RemoveLimit:
		for i := range expression.Fields {
			if l.Field(i) != l.Consumed() { // the diary still closes what it has consumed
				w.Remove(l.Field(i))
			}
		}
	case c.Kind == store.AddLimit:
		describeAddition(w, l, c, terse)
		setCalendar(w, l, r.Seen, c)
	default:
		if c.Kind == store.SetParams {
			p := newParameters(l, &c.Params)
			p.set(w, l)
			setCalendar(w, l, r.Seen, c)
		}
		w.Add(l.Tokens(), l.Number('d', c.Earned-c.Debit))
		addDebit(w, l, c)
		requireBalance(w, l, c)
	}
}

// describeGrant makes a quota's grant the share that it has after a refill, with what the
// refill tops it up by. The item says among how many shards the quota was divided, as a
// peer's do. A peer that doubles the bucket guesses it otherwise from the balance, and makes
// tokens if less than a half is left.
func describeGrant(w *expression.Write, l expression.Limit, r *store.Refill, c *store.Change) {
	was, _ := r.Seen.Limit(c.Limit)
	next := was.Renewal
	if c.Kind == store.SetParams || c.Kind == store.AddLimit {
		next = c.Params.Renewal
	}
	switch {
	case c.Kind == store.RemoveLimit:
	case next != nil && (c.Renews || was.Renewal == nil):
		w.Set(l.Grant(), l.Number('g', int64(cmp.Or(r.ShardCount, r.Seen.ShardCount))))
		switch {
		case c.TopUp != 0:
			w.Set(l.TopUp(), l.Number('y', c.TopUp))
		case !r.Loose: // a loose refill may come after a top-up that it has not seen
			w.Remove(l.TopUp())
		}
	case next != nil && c.TopUp != 0:
		w.Add(l.TopUp(), l.Number('y', c.TopUp))
	case next == nil && was.Renewal != nil:
		w.Remove(l.Grant())
		w.Remove(l.TopUp())
	}
	if c.Resets {
		w.Add(l.Resets(), l.Number('n', 1))
	}
}

// describeSession begins or ends the session of a limit, or makes the limit one.
//
// The stamp does not lock that: by a clock behind it, it stays, and healing moves it back, maybe to where
// it was before another session. So a write that begins or ends a session, or returns to one, requires the
// last one, as seen (ADR 051). Of a loose one, [requireSession] does.
func describeSession(w *expression.Write, l expression.Limit, r *store.Refill, c *store.Change) {
	was, _ := r.Seen.Limit(c.Limit)
	next := was.Renewal
	switch c.Kind {
	case store.KeepParams:
	case store.RemoveLimit:
		return
	case store.SetParams, store.AddLimit:
		next = c.Params.Renewal
		switch seconds := schema.SessionSeconds(next); {
		case seconds != 0 && seconds != schema.SessionSeconds(was.Renewal):
			w.Set(l.Session(), l.Number('e', seconds))
		case seconds == 0 && schema.SessionSeconds(was.Renewal) != 0:
			w.Remove(l.Session())
			w.Remove(l.SessionOpened())
			w.Remove(l.SessionApplied())
		}
	}
	returns, moves := c.Debit < 0 && was.Told().Opened == 0, c.Opened != 0 && !r.Loose
	switch last := cmp.Or(was.Told().Opened, was.Opened()); {
	case schema.SessionSeconds(was.Renewal) == 0:
	case (returns || moves) && last > store.NoSession:
		w.Require(l.SessionOpened().Equals(l.Number('i', last)))
	case moves:
		w.Require(l.SessionOpened().AbsentOrBelow(l.Number('i', store.NoSession+1)))
	}
	if c.Opened != 0 && schema.SessionSeconds(next) != 0 {
		at := l.Number('o', c.Opened)
		w.Set(l.SessionOpened(), at)
		w.Set(l.SessionApplied(), at)
	}
}

// requireSession requires of a quota that is refilled loosely the session seen, or that it is
// none. Of a rate, the parameters say that: those of a quota earn nothing.
func requireSession(w *expression.Write, l expression.Limit, seen *store.Image, c *store.Change) {
	switch seconds := schema.SessionSeconds(c.Params.Renewal); {
	case c.Params.Renewal == nil:
	case seconds == 0:
		w.Require(l.Session().Absent())
	default:
		was, _ := seen.Limit(c.Limit)
		w.Require(l.Session().Equals(l.Number('e', seconds)))
		w.Require(l.SessionOpened().Equals(l.Number('i', was.Opened())))
	}
}

// requireCalendar requires of a quota that is refilled loosely that it begins its periods, and
// carries into them, as seen: a shard that is born beside it does so. A session says that itself.
func requireCalendar(w *expression.Write, l expression.Limit, seen *store.Image, c *store.Change) {
	if c.Params.Renewal == nil || schema.SessionSeconds(c.Params.Renewal) != 0 {
		return
	}
	if !seen.RenewsByDefault {
		code, _ := schema.EncodeRenewal(c.Params.Renewal)
		w.Require(l.Renewal().Equals(l.Text('z', code)))
	}
	if c.Params.Carries == (store.Carry{}) {
		w.Require(l.Carry().Absent())
	} else {
		w.Require(l.Carry().Equals(l.Text('c', schema.EncodeCarried(&c.Params))))
	}
}

// describeSoft stamps a soft limit, if it still is one, or makes a limit hard. A repair follows
// what levels say, whatever the limit was. A loose refill of too many soft limits takes nothing of
// them, and cannot require them.
func describeSoft(w *expression.Write, l expression.Limit, r *store.Refill, c *store.Change) {
	was, _ := r.Seen.Limit(c.Limit)
	switch {
	case c.Kind == store.RemoveLimit:
	case c.SoftUntil != 0:
		if !isRepair(r) && (!r.Loose || countSoft(r) <= store.MaxSoftTake) {
			w.Require(l.Soft().Exists())
		}
		if c.SoftUntil != was.SoftUntil() { // one that is kept may be later by now
			w.Set(l.Soft(), l.Number('k', c.SoftUntil))
		}
	case c.Kind != store.KeepParams && was.IsSoft():
		w.Remove(l.Soft())
	}
	if c.Kind == store.SetParams || c.Kind == store.AddLimit {
		setMode(w, l, was.Mode(), c)
	}
}

// setMode gives a limit the mode that a refill gives it. The note of what it would have refused begins anew.
func setMode(w *expression.Write, l expression.Limit, was store.Mode, c *store.Change) {
	if c.Mode == was {
		return
	}
	if c.Mode != store.Enforce {
		w.Set(l.Mode(), l.Text('j', c.Mode.String()))
	} else {
		w.Remove(l.Mode())
	}
	if was == store.Shadow {
		w.Remove(l.Shadowed())
		w.Remove(l.ShadowedAt())
	}
}

// countSoft is how many limits a refill stamps.
func countSoft(r *store.Refill) (n int) {
	for i := range r.Changes {
		if r.Changes[i].SoftUntil != 0 {
			n++
		}
	}
	return n
}

// setZone sets the time zone of the calendars that a refill adds or changes. An item has one zone,
// and so have the limits of a level.
func setZone(w *expression.Write, r *store.Refill) {
	for i := range r.Changes {
		c := &r.Changes[i]
		if zone := c.Params.Zone(); zone != "" && (c.Kind == store.AddLimit || c.Kind == store.SetParams) {
			w.Set(expression.Zone, w.Text(":tz", zone))
			return
		}
	}
}

// setCalendar makes a limit follow the calendars that it is to follow, and no others.
func setCalendar(w *expression.Write, l expression.Limit, seen *store.Image, c *store.Change) {
	was, _ := seen.Limit(c.Limit)
	isNew := c.Kind == store.AddLimit
	if next := c.Params.Renewal; isNew || next != was.Renewal {
		code, _ := schema.EncodeRenewal(next)
		before, _ := schema.EncodeRenewal(was.Renewal)
		setCode(w, l.Renewal(), l, 'z', code, seen.RenewsByDefault, before != "")
	}
	if next := c.Params.Varies; isNew || next != was.Varies {
		code, _ := schema.EncodeSchedule(next)
		setCode(w, l.Schedule(), l, 'v', code, seen.VariesByDefault, was.Varies != nil)
	}
	if next := c.Params.Carries; isNew || next != was.Carries {
		setCode(w, l.Carry(), l, 'c', schema.EncodeCarried(&c.Params), false, was.Carries != store.Carry{})
	}
}

// setCode sets the attribute of a limit's calendar to a code, or removes it if there is none.
// Where a peer has written a default for all limits of an item, a limit without a calendar
// says so.
func setCode(w *expression.Write, attr expression.Attr, l expression.Limit, letter byte, code string, byDefault, was bool) {
	switch {
	case code != "":
		w.Set(attr, l.Text(letter, code))
	case byDefault:
		w.Set(attr, l.Text(letter, schema.NoSchedule))
	case was:
		w.Remove(attr)
	}
}

// describeAddition states how a refill adds a limit that the item does not have yet.
func describeAddition(w *expression.Write, l expression.Limit, c *store.Change, terse bool) {
	p := newParameters(l, &c.Params)
	p.set(w, l)
	w.Set(l.Tokens(), l.Number('d', c.Earned-c.Debit))
	w.Add(l.Consumed(), l.Number('a', c.Debit)) // it may have been on the item before
	if terse {
		w.Require(l.Capacity().Absent())
	} else {
		w.Require(expression.EitherAbsent(l.Tokens(), l.Capacity()))
	}
}

// describeFill states the change of a limit of a bucket that is full anyway.
func describeFill(w *expression.Write, l expression.Limit, c *store.Change) {
	w.Set(l.Tokens(), l.Number('d', c.Earned-c.Debit))
	addDebit(w, l, c)
	w.Require(l.Tokens().AtLeast(l.Number('l', c.AtLeast)))
	p := newParameters(l, &c.Params)
	p.require(w, l)
}

// addDebit adds a change's debit to the count of consumed tokens.
func addDebit(w *expression.Write, l expression.Limit, c *store.Change) {
	if c.Debit != 0 {
		w.Add(l.Consumed(), l.Number('a', c.Debit))
	}
}

// requireBalance requires that the balance lies within the bounds of a change.
func requireBalance(w *expression.Write, l expression.Limit, c *store.Change) {
	balance := l.Tokens()
	switch {
	case c.AtLeast == c.AtMost:
		w.Require(balance.Equals(l.Number('l', c.AtLeast)))
	case c.AtLeast == math.MinInt64:
		w.Require(balance.AtMost(l.Number('h', c.AtMost)))
	case c.AtLeast > c.AtMost: // impossible
		w.Require(balance.AtLeast(l.Number('l', c.AtLeast)))
		w.Require(balance.AtMost(l.Number('h', c.AtMost)))
	default:
		w.Require(balance.Between(l.Number('l', c.AtLeast), l.Number('h', c.AtMost)))
	}
}
