package dynamo

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Refill accrues to a new stamp, debits, and repairs, in one update. The update applies
// only if the item is still the one seen:
//
//	SET    rf; ttl; cp, ra, rp of changed limits; new limits whole; the owner;
//	       shard_count
//	REMOVE vu, ttl, removed limits whole
//	ADD    tk earned − debit, tc + debit, wcu alike
//	if     rf, vu and shard_count as seen; disabled as seen;
//	       tk of every limit within the bounds that keep what it earned whole
//	       and its balance below the capacity
//
// A refill that changes parameters or the owner has further conditions: cp, ra, rp of
// every limit and the owner are as seen. A peer changes those without moving rf.
//
// A loose refill requires of rf only that it is not after the new one. It also requires
// that every limit has the parameters seen.
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
	sh, err := s.refillShape(r)
	if err != nil {
		return store.Outcome{}, err
	}
	return s.update(ctx, "refill", r.Bucket, sh, refillValues(r))
}

// refillShape validates the refill and returns its shape.
func (s *Store) refillShape(r *store.Refill) (*shape, error) {
	if err := checkBucket(r.Bucket); err != nil {
		return nil, err
	}
	if err := checkCount(limitsAfter(r)); err != nil {
		return nil, err
	}
	if r.ShardCount < 0 || r.ShardCount > schema.MaxShards {
		return nil, &store.ValidationError{
			Field: "shard count", Value: strconv.Itoa(r.ShardCount), Reason: fmt.Sprintf("give 1 to %d, or 0 to keep it", schema.MaxShards),
		}
	}
	var room [128]byte
	if key, ok := refillKey(room[:0], r); ok {
		return s.refills.get(key, func() (*shape, error) { return newRefillShape(r) })
	}
	return newRefillShape(r)
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

// refillKey distinguishes refills of different shape. A refill that changes parameters
// or the number of shards, or expects a disabled item, is rare and has no key.
func refillKey(key []byte, r *store.Refill) (_ []byte, ok bool) {
	if r.Writes.Kind != store.KeepParams || r.Owner != nil || r.ShardCount != 0 || r.Seen.Disabled {
		return nil, false
	}
	key = append(key, byte(1+boundsOf(&r.Writes)))
	flags := byte(1)
	for i, set := range [...]bool{r.Lapse, r.Seen.HasValidUntil, r.Expiry.Change, r.Expiry.At != 0, r.Seen.ShardCount == 1, r.FullSince != 0, r.Loose} {
		if set {
			flags |= 2 << i
		}
	}
	key = append(key, flags)
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Kind != store.KeepParams {
			return nil, false
		}
		key = append(append(key, c.Limit...), byte(1+boundsOf(c)))
		if c.Debit != 0 {
			key = append(key, 8)
		}
	}
	return key, true
}

// tersely is the number of limits, removed and added ones included, above which an
// added limit's absence is checked with two operators instead of four. This way all
// limits fit one write. Such a write does not complete a limit that a peer has left
// incomplete, with parameters but without a balance.
const tersely = store.MaxLimits + 8

// bounds is the form of a change's condition on the balance.
type bounds byte

const (
	pinned  bounds = iota // equal to the balance seen
	bounded               // between two bounds
	boundedAbove
	impossible // between two bounds, of which the lower is larger
)

func boundsOf(c *store.Change) bounds {
	switch {
	case c.AtLeast == c.AtMost:
		return pinned
	case c.AtLeast == math.MinInt64:
		return boundedAbove
	case c.AtLeast > c.AtMost:
		return impossible
	}
	return bounded
}

func newRefillShape(r *store.Refill) (*shape, error) {
	b := newShapeBuilder()
	b.set.part(b.name("#rf", schema.RF), "=:rf")
	switch {
	case r.FullSince != 0:
		b.condition.part("#rf <= :seen")
	case r.Loose:
		b.condition.part("#rf <= :rf")
	default:
		b.condition.part("#rf=:seen")
	}
	if r.Seen.Disabled {
		b.condition.part("attribute_exists(", b.name("#dis", schema.Disabled), ")")
	} else {
		b.condition.part("attribute_not_exists(", b.name("#dis", schema.Disabled), ")")
	}
	b.name("#vu", schema.ValidUntil)
	if r.Seen.HasValidUntil {
		b.condition.part("#vu=:vu")
	} else {
		b.condition.part("attribute_not_exists(#vu)")
	}
	if r.Lapse {
		b.remove.part("#vu")
	}
	b.shardCount(r.Seen.ShardCount)
	if r.ShardCount != 0 {
		b.set.part("#sc=:shards")
	}
	switch {
	case r.Expiry.At != 0:
		b.set.part(b.name("#ttl", schema.TTL), "=:ttl")
	case r.Expiry.Change:
		b.remove.part(b.name("#ttl", schema.TTL))
	}
	b.owner(r.Owner, r.Seen)
	repairs := isRepair(r)
	b.terse = len(r.Changes) > tersely
	change := b.change
	if r.FullSince != 0 {
		change = b.fill
	}
	change(len(r.Changes), &r.Writes)
	for i := range r.Changes {
		b.check(r.Changes[i].Limit)
		change(i, &r.Changes[i])
		switch {
		case r.Loose:
			b.pin(i, r.Changes[i].Limit)
		case repairs && r.Changes[i].Kind != store.AddLimit:
			b.pinSeen(i, r.Changes[i].Limit)
		}
	}
	return b.shape()
}

// isRepair reports whether a refill changes parameters or the owner.
func isRepair(r *store.Refill) bool {
	return r.Owner != nil || slices.ContainsFunc(r.Changes, func(c store.Change) bool { return c.Kind != store.KeepParams })
}

// shardCount pins the number of shards, on which every share depends.
func (b *shapeBuilder) shardCount(n int) {
	b.name("#sc", schema.ShardCount)
	if n == 1 {
		b.condition.part("(attribute_not_exists(#sc) OR #sc = :sc)")
		return
	}
	b.condition.part("#sc=:sc")
}

// owner updates what the item copies from its entity's record, if that is still as
// seen.
func (b *shapeBuilder) owner(o *store.Owner, seen *store.Image) {
	if o == nil {
		return
	}
	cascade, parent := b.name("#cascade", schema.Cascade), b.name("#parent", schema.ParentID)
	pgen, pinc := b.name("#pgen", schema.PGen), b.name("#pinc", schema.PInc)
	b.set.part(cascade, "=:cascade")
	b.setOrRemove(parent, ":parent", o.Parent != "")
	b.setOrRemove(pgen, ":pgen", o.Incarnation != "")
	b.setOrRemove(pinc, ":pinc", o.Incarnation != "")
	b.was(cascade, ":was_cascade", seen.Cascade, true)
	b.was(parent, ":was_parent", seen.Parent != "", false)
	b.was(pgen, ":was_pgen", seen.ParentGeneration != 0, true)
	b.was(pinc, ":was_pinc", seen.Incarnation != "", false)
}

func (b *shapeBuilder) setOrRemove(attr, value string, set bool) {
	if set {
		b.set.part(attr, "=", value)
	} else {
		b.remove.part(attr)
	}
}

// was requires that an attribute has the value seen. If none was seen, the attribute
// must be absent, or have the value that means the same, if there is such a value.
func (b *shapeBuilder) was(attr, value string, seen, hasZero bool) {
	switch {
	case seen:
		b.condition.part(attr, "=", value)
	case hasZero:
		b.condition.part("(attribute_not_exists(", attr, ") OR ", attr, "=", value, ")")
	default:
		b.condition.part("attribute_not_exists(", attr, ")")
	}
}

// change adds the change of limit number i.
func (b *shapeBuilder) change(i int, c *store.Change) {
	if c.Kind == store.RemoveLimit {
		for _, f := range schema.LimitFields {
			b.remove.part(b.field(i, c.Limit, f))
		}
		return
	}
	tokens := b.field(i, c.Limit, schema.FieldTokens)
	if c.Kind == store.SetParams || c.Kind == store.AddLimit {
		b.set.part(b.field(i, c.Limit, schema.FieldCapacity), "=", alias('p', i))
		b.set.part(b.field(i, c.Limit, schema.FieldAmount), "=", alias('q', i))
		b.set.part(b.field(i, c.Limit, schema.FieldPeriod), "=", alias('r', i))
	}
	if c.Kind == store.AddLimit {
		b.set.part(tokens, "=", alias('d', i))
		b.set.part(b.field(i, c.Limit, schema.FieldConsumed), "=", alias('a', i))
		if capacity := b.field(i, c.Limit, schema.FieldCapacity); b.terse {
			b.condition.part("attribute_not_exists(", capacity, ")")
		} else {
			b.condition.part("(attribute_not_exists(", tokens, ") OR attribute_not_exists(", capacity, "))")
		}
		return
	}
	b.add.part(tokens, " ", alias('d', i))
	if c.Debit != 0 {
		b.add.part(b.field(i, c.Limit, schema.FieldConsumed), " ", alias('a', i))
	}
	switch boundsOf(c) {
	case pinned:
		b.condition.part(tokens, "=", alias('l', i))
	case bounded:
		b.within(tokens, alias('l', i), alias('h', i))
	case boundedAbove:
		b.condition.part(tokens, " <= ", alias('h', i))
	case impossible:
		b.condition.part(tokens, " >= ", alias('l', i))
		b.condition.part(tokens, " <= ", alias('h', i))
	}
}

// fill adds the change of limit number i of a bucket that is full anyway.
func (b *shapeBuilder) fill(i int, c *store.Change) {
	tokens := b.field(i, c.Limit, schema.FieldTokens)
	b.set.part(tokens, "=", alias('d', i))
	if c.Debit != 0 {
		b.add.part(b.field(i, c.Limit, schema.FieldConsumed), " ", alias('a', i))
	}
	b.condition.part(tokens, " >= ", alias('l', i))
	b.pin(i, c.Limit)
}

// pin requires that limit number i has the parameters from which the write was
// calculated.
func (b *shapeBuilder) pin(i int, limit string) {
	b.condition.part(b.field(i, limit, schema.FieldCapacity), "=", alias('p', i))
	b.condition.part(b.field(i, limit, schema.FieldAmount), "=", alias('q', i))
	b.condition.part(b.field(i, limit, schema.FieldPeriod), "=", alias('r', i))
}

// pinSeen requires that limit number i has the parameters seen. The write may be about
// to change them.
func (b *shapeBuilder) pinSeen(i int, limit string) {
	b.condition.part(b.field(i, limit, schema.FieldCapacity), "=", alias('s', i))
	b.condition.part(b.field(i, limit, schema.FieldAmount), "=", alias('t', i))
	b.condition.part(b.field(i, limit, schema.FieldPeriod), "=", alias('u', i))
}

func refillValues(r *store.Refill) values {
	repairs := isRepair(r)
	perLimit := 4
	if repairs || r.Loose {
		perLimit = 9 // the parameters seen, and the new ones
	}
	var v numbers
	v.start(10 + perLimit*(len(r.Changes)+1))
	v.put(":rf", r.RefilledAt)
	switch {
	case r.FullSince != 0:
		v.put(":seen", r.FullSince)
	case !r.Loose:
		v.put(":seen", r.Seen.RefilledAt)
	}
	v.put(":sc", int64(r.Seen.ShardCount))
	if r.ShardCount != 0 {
		v.put(":shards", int64(r.ShardCount))
	}
	if r.Seen.HasValidUntil {
		v.put(":vu", r.Seen.ValidUntil)
	}
	if r.Expiry.At != 0 {
		v.put(":ttl", r.Expiry.At)
	}
	v.owner(r.Owner, r.Seen)
	full := r.FullSince != 0
	v.change(len(r.Changes), &r.Writes, full)
	for i := range r.Changes {
		v.change(i, &r.Changes[i], full)
		switch {
		case r.Loose:
			v.params(i, &r.Changes[i].Params)
		case repairs && r.Changes[i].Kind != store.AddLimit:
			seen, _ := r.Seen.Limit(r.Changes[i].Limit)
			v.put(alias('s', i), seen.Capacity)
			v.put(alias('t', i), seen.Amount)
			v.put(alias('u', i), seen.Period)
		}
	}
	return v.done()
}

// owner adds the values of [shapeBuilder.owner].
func (s *numbers) owner(o *store.Owner, seen *store.Image) {
	if o == nil {
		return
	}
	s.values[":cascade"], s.values[":was_cascade"] = schema.Bool(o.Cascade), schema.Bool(seen.Cascade)
	s.put(":was_pgen", seen.ParentGeneration)
	if seen.Parent != "" {
		s.values[":was_parent"] = schema.S(seen.Parent)
	}
	if seen.Incarnation != "" {
		s.values[":was_pinc"] = schema.S(seen.Incarnation)
	}
	if o.Parent != "" {
		s.values[":parent"] = schema.S(o.Parent)
	}
	if o.Incarnation != "" {
		s.put(":pgen", o.Generation)
		s.values[":pinc"] = schema.S(o.Incarnation)
	}
}

// change adds the values of [shapeBuilder.change], or of [shapeBuilder.fill].
func (s *numbers) change(i int, c *store.Change, full bool) {
	switch {
	case full:
		s.fill(i, c)
		return
	case c.Kind == store.RemoveLimit:
		return
	}
	s.put(alias('d', i), c.Earned-c.Debit)
	if c.Debit != 0 || c.Kind == store.AddLimit {
		s.put(alias('a', i), c.Debit)
	}
	if c.Kind == store.SetParams || c.Kind == store.AddLimit {
		s.params(i, &c.Params)
	}
	if c.Kind == store.AddLimit {
		return
	}
	switch boundsOf(c) {
	case pinned:
		s.put(alias('l', i), c.AtLeast)
	case bounded, impossible:
		s.put(alias('l', i), c.AtLeast)
		s.put(alias('h', i), c.AtMost)
	case boundedAbove:
		s.put(alias('h', i), c.AtMost)
	}
}

func (s *numbers) fill(i int, c *store.Change) {
	s.put(alias('d', i), c.Earned-c.Debit)
	s.put(alias('l', i), c.AtLeast)
	if c.Debit != 0 {
		s.put(alias('a', i), c.Debit)
	}
	s.params(i, &c.Params)
}

func (s *numbers) params(i int, p *store.Params) {
	s.put(alias('p', i), p.Capacity)
	s.put(alias('q', i), p.Amount)
	s.put(alias('r', i), p.Period)
}
