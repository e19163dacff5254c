package plan

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// Kind is what a [Step] does.
type Kind uint8

// The kinds of [Step].
const (
	Read        Kind = iota // read a bucket that is not fully known
	Take                    // debit the bucket as it is
	Refill                  // accrue, debit and repair in one write
	Repair                  // repair, then look again: the terms cannot be served now
	Verify                  // find out whether the bucket needs a repair
	Create                  // make the bucket
	Wait                    // let the hidden write limit earn a token
	Refuse                  // the bucket cannot serve the terms
	Disabled                // an operator has disabled the bucket
	Unsupported             // this version cannot evaluate the item
	OtherZone               // a repair would move other quotas of the item to another time zone
	Done                    // there is nothing to do
)

// A Step is the next action for terms on an item.
type Step struct {
	Kind   Kind
	Take   *store.Take   // for Take
	Refill *store.Refill // for Refill and Repair
	Create *store.Create // for Create: the caller works it out, from what it reads first
	Wait   time.Duration // for Wait
}

// Seen is the image on which the write of a step was worked out: for a creation, the item that it makes.
func (s *Step) Seen() *store.Image {
	switch {
	case s.Create != nil:
		return ImageOf(s.Create)
	case s.Take != nil:
		return s.Take.Seen
	}
	return s.Refill.Seen
}

// After is the item in whose periods the write of a step debits.
func (s *Step) After() *store.Image {
	if s.Refill != nil {
		return AfterRefill(s.Refill)
	}
	return s.Seen()
}

// Number gives the write of a step a sequence. A refill with one also removes idle positions.
func (s *Step) Number(q store.Sequence, now int64) {
	switch {
	case s.Create != nil:
		s.Create.Position = store.Position{Name: q.Position, Number: q.Number}
	case s.Take != nil:
		s.Take.Sequence = q
	default:
		NumberRefill(s.Refill, q, now)
	}
}

// Reserve makes the write of a step change reservations. A refill also removes those that are spent.
func (s *Step) Reserve(adds []store.ReserveAdd, spent []store.Reservation) {
	switch {
	case s.Create != nil:
		for i := range adds {
			s.Create.Reserved = append(s.Create.Reserved, adds[i].Reservation)
		}
	case s.Take != nil:
		s.Take.Reserve = adds
	default:
		s.Refill.Reserve, s.Refill.Lost = adds, append(slices.Clip(s.Refill.Lost), spent...)
	}
}

// Lost are the reservations that the write of a step removes.
func (s *Step) Lost() []store.Reservation {
	if s.Refill == nil {
		return nil
	}
	return s.Refill.Lost
}

// A Situation is what is known of an item at an instant, and what is to be debited.
type Situation struct {
	Debit

	Terms *Terms
	Sure  bool         // the terms' target was read after the image, so that a write may repair the item
	Image *store.Image // the last image; nil if there is none
	// Fresh says that the image has just refused a write. Any other image may be
	// behind: if it cannot serve the terms, a take is tried nevertheless.
	Fresh      bool
	Now        int64 // in milliseconds
	Multiplier int64 // see [RefillExpiry]
}

// Next decides the next step. A bucket that was never seen is read first (ADR 007).
//
// The order of the questions is the order of what may make a write wrong:
//
//  1. Does the item exist? A guess that it does costs a refused write; a guess that it does
//     not, and a full bucket beside it, would admit what was consumed already.
//  2. Is it disabled? An image that is not fresh may be from before an operator enabled the
//     item, so the item is asked.
//  3. Does it have the parameters that it is to have? If not, they are read again first: the
//     memory of the configuration may be the older one, and would undo a change.
//  4. Does it hold enough at its stamp? A take moves no stamp, so takes of several processes
//     do not refuse each other.
//  5. Would it hold enough by now? A refill moves the stamp, and so refuses every other
//     write that was worked out from the old one. It is the last resort, not the first.
//     A stamp from before too many changes of a schedule is moved even so, or what the bucket has
//     earned since would be forgotten.
//
// Only a fresh image may end a claim: any other one may be too low as well as too high. But a
// shard whose session has ended sends the claim on to all shards together.
func Next(s *Situation) Step {
	img, target := s.Image, s.Terms.Target
	if img == nil {
		if s.Fresh {
			return Step{Kind: Create}
		}
		return Step{Kind: Read}
	}
	mismatch := target != nil && target.Differs(img, s.Now) && s.Terms.AsIs == nil
	switch {
	case img.Disabled && s.Fresh:
		return Step{Kind: Disabled}
	case img.Disabled:
		return s.take(s.TakeAtStamp(img, s.Fresh, s.Now))
	case target == nil:
		return Step{Kind: Read}
	case mismatch && !s.Sure:
		return Step{Kind: Verify}
	case mismatch && target.OtherZone(img) != nil:
		return Step{Kind: OtherZone}
	case len(s.Amounts) == 0 && !mismatch:
		return Step{Kind: Done}
	}
	atStamp, lacks := s.TakeAtStamp(img, s.Fresh, s.Now), Lacks(img, s.Amounts)
	if !mismatch && !lacks && (atStamp != nil || s.servedAsIs(img, s.Now)) {
		return s.take(atStamp)
	}
	if !img.IsEvaluable() || lacks && !mismatch {
		if s.Fresh {
			return Step{Kind: Unsupported}
		}
		return s.take(atStamp)
	}
	r, wait, short := s.Refill(img, s.Now, s.Multiplier)
	switch {
	case wait > 0 && (s.Fresh || len(s.Amounts) == 0):
		return Step{Kind: Wait, Wait: wait}
	case wait > 0:
		return s.take(atStamp)
	case !short:
		return Step{Kind: Refill, Refill: r}
	case mismatch:
		repair := Debit{Bucket: s.Bucket, Repair: target, Pressing: s.Pressing}
		r, _, _ = repair.Refill(img, s.Now, s.Multiplier)
		return Step{Kind: Repair, Refill: r}
	case s.mayRefuse(img):
		return s.refuse(img)
	}
	return s.take(atStamp)
}

// mayRefuse reports whether an image may end terms that it cannot serve: it is fresh, or one
// shard of several, which cannot begin a session, however old the image is.
func (s *Situation) mayRefuse(img *store.Image) bool {
	return s.Fresh || s.Begins == nil && NeedsBeginning(img, s.Amounts, s.Now)
}

// refuse is the step for terms that an item cannot serve.
func (s *Situation) refuse(img *store.Image) Step {
	if !isLong(img, s.Now) {
		return Step{Kind: Refuse}
	}
	keep := Debit{Bucket: s.Bucket, Pressing: true}
	r, _, _ := keep.Refill(img, s.Now, s.Multiplier)
	return Step{Kind: Repair, Refill: r}
}

// take is the step that debits the item as it is, at its stamp if that can be done.
func (s *Situation) take(atStamp *store.Take) Step {
	if atStamp != nil {
		return Step{Kind: Take, Take: atStamp}
	}
	return Step{Kind: Take, Take: s.Take(s.Image, s.Now)}
}
