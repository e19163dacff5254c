package plan

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// Lateness is how late a debit of an overflowing bucket may be, in milliseconds.
	Lateness = 50
	// stampAge is the age up to which writers leave a stamp alone, in milliseconds. From
	// half of that age on, one of them moves it. The hidden write limit nearly always
	// overflows, and is wrong by what it earns in this time.
	stampAge = 1_000
	// staleMillis is how long ago a process saw a stamp that others have probably moved.
	staleMillis = 100
)

// A StampRule says how a write to an item treats its stamp (ADR 017).
type StampRule struct {
	Leave  bool    // other writes that count on the stamp may be under way
	Late   bool    // others move the stamp so often that this process debits an overflowing bucket late
	Moving bool    // a write of this process is moving the stamp
	SeenAt int64   // when the stamp was last seen, in milliseconds by the store's clock
	Shared bool    // other processes write, too
	Others float64 // if shared, the writes a second that the item takes
	Luck   float64 // if shared, a random number from 0 to 1
}

// moves reports whether this write moves a stamp that is older than age, in
// milliseconds. Of the writes since the stamp reached that age, one does on average.
func (r StampRule) moves(img *store.Image, age, now int64) bool {
	old := img.RefilledAt + age
	return !r.Moving && now >= old && r.Luck*r.Others*float64(now-max(r.SeenAt, old)) < store.Milli
}

// TakeAtStamp returns the take that debits an item without moving its stamp, or nil if
// that cannot be done, as far as the image tells.
//
// If a balance has not accrued to its capacity, the take debits the balance stored at
// the stamp. The stored balance may fall below zero if earnings since the stamp make
// up for it. This is as exact as a refill, but such takes do not refuse each other.
//
// A balance that overflows would first have to be cut. The take then decides as of an
// instant up to Lateness ago, and requires a stamp no older than that.
func (d *Debit) TakeAtStamp(img *store.Image, fresh bool, now int64) *store.Take {
	if !d.Stamp.Leave && !d.Stamp.Late || !img.IsEvaluable() || !IsPlain(img, now) || img.Bypassed || HasLost(img, now) || !takesSoftly(img, d.Amounts, now) {
		return nil
	}
	age, t := now-img.RefilledAt, d.Take(img, now)
	full := slices.ContainsFunc(d.Amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > 0 && !Counts(s.Mode(), heldOf(img, &s, now), a.Milli) && Overflows(img, &s, now)
	})
	oldest := int64(stampAge)
	if full {
		oldest = Lateness
	}
	// A process that takes ahead has mostly waited since it saw the stamp. Others may have
	// moved it.
	stale := !full && !fresh && d.Ahead > 0 && now-d.Stamp.SeenAt > staleMillis
	writes := WritesOf(img)
	moves := d.Stamp.moves(img, oldest/2, now) && !stale
	if full {
		// Processes that share an overflowing bucket leave its stamp to one of them.
		moves = !d.Stamp.Late || moves && !d.Stamp.Shared
	}
	if stale {
		oldest += 2 * d.Ahead
	}
	switch {
	case moves:
		return nil
	case !full && age <= oldest && writes.Admits(img.Writes.Tokens, img.RefilledAt, now, WriteCost):
		t.Stamp = img.RefilledAt
		t.Earned = writes.Earned(img.RefilledAt, now)
		if stale {
			t.Since = max(t.Stamp, d.Stamp.SeenAt-Lateness)
		}
	case full && (age <= Lateness || !fresh) && img.Writes.Tokens >= WriteCost:
		t.Since = now - Lateness
	default:
		return nil
	}
	if !boundAtStamp(t, img, now) && fresh {
		return nil
	}
	return t
}

// boundAtStamp gives the debits of a take that leaves the stamp what the limits have earned
// since, and their bounds. It reports whether the item covers the debits.
func boundAtStamp(t *store.Take, img *store.Image, now int64) (covers bool) {
	covers = true
	for i := range t.Debits {
		debit := &t.Debits[i]
		s, _ := img.Limit(debit.Limit)
		l := ShareOf(img, &s)
		if debit.AtMost = l.Capacity; t.Stamp != 0 {
			debit.Earned = l.Earned(t.Stamp, now)
			debit.AtMostAtStamp = l.Capacity - debit.Earned
			debit.AtMost -= l.Earned(max(t.Stamp, t.Since), now)
		}
		soft := debit.Soft && s.Mode() == store.Enforce && s.Tokens >= -MaxDebt
		covers = covers && (debit.Counts || debit.Milli <= s.Tokens+debit.Earned+debit.Ahead || soft)
	}
	return covers
}

// RefillAtStamp is [Debit.TakeAtStamp] for an item that is debited together with
// others: a refill that keeps the stamp seen.
func (d *Debit) RefillAtStamp(img *store.Image, now int64) *store.Refill {
	t := d.TakeAtStamp(img, true, now)
	if t == nil || t.Stamp == 0 {
		return nil
	}
	r := &store.Refill{
		Bucket: img.Bucket, Seen: img, Turn: t.Turn, RefilledAt: img.RefilledAt,
		Writes:  store.Change{Limit: store.WriteLimit, Debit: WriteCost, AtLeast: WriteCost - t.Earned, AtMost: math.MaxInt64},
		Changes: make([]store.Change, 0, len(t.Debits)),
	}
	for _, debit := range t.Debits {
		ch := store.Change{Limit: debit.Limit, Debit: debit.Milli, AtLeast: debit.Milli - debit.Earned, AtMost: debit.AtMostAtStamp}
		s, _ := img.Limit(debit.Limit)
		if debit.Soft {
			ch.AtLeast, ch.SoftUntil = debit.AtLeast, s.SoftUntil()
			if debit.AtLeast != math.MinInt64 {
				ch.AtLeast -= debit.Earned
			}
		}
		if debit.Counts {
			ch.Earned, ch.AtMost = debit.Milli, math.MaxInt64
			count(&ch, s.Mode())
		}
		r.Changes = append(r.Changes, ch)
	}
	return r
}
