package bucket

import (
	"iter"
	"math"
	"math/bits"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A schedule cuts time into pieces, each with parameters of its own. In a piece j that has the
// capacity C and earns E, a balance b becomes min(b + E, C). Over several pieces that is
//
//	min(b + all that they earn, over every piece: its C + what later pieces earn)
//
// The naive way computes it forwards, and looks at every piece of an idle month. Backwards, the
// sum of what later pieces earn only grows, and no capacity is below zero. So once the sum has
// reached the least term so far, and the debt of b besides, no earlier piece makes another term
// that is less. The walk ends there: it looks at the pieces in which the bucket fills from b, and
// one more. For most limits these are one or two.
//
// A limit that fills slowly under a schedule that changes every minute would still have many. So
// a walk ends after MostPieces. A bucket then loses what it earned before them, which admits less,
// never more. A wait is then too short by the rest: its caller asks again. Whoever asks such a
// bucket moves its stamp in time: see [Limit.IsLong].

// MostPieces is how many pieces of a schedule a walk looks at: 17 hours if it changes every
// minute, a year if it changes on each working day at two times. A walk over all of them
// takes less than a millisecond.
const MostPieces = 1024

// Params are the parameters of a whole limit outside of all entries of its schedule.
type Params = calendar.Params

// Varying is a limit of a schedule as it is at an instant.
func Varying(schedule *calendar.Schedule, base Params, at int64) Limit {
	l := Limit{Varies: schedule, Base: base, Shards: 1}
	p := schedule.In(schedule.Piece(at), base)
	l.Capacity, l.Amount, l.Period = p.Capacity, p.Amount, p.Period
	return l
}

// At is what a limit of a schedule is in the piece that holds an instant, as if it were so
// for ever. Any other limit is always what it is. A quota keeps its top-up.
func (l Limit) At(t int64) Limit {
	if l.Varies == nil {
		return l
	}
	return l.in(l.Varies.Piece(t))
}

// in is what a limit of a schedule is in a piece: scaled first, then divided.
func (l Limit) in(p calendar.Piece) Limit { return l.of(l.Varies.In(p, l.Base)) }

// of is the shard's part of a limit with other parameters, for ever.
func (l Limit) of(is calendar.Params) Limit {
	if l.Renewal != nil {
		return l.varied(is)
	}
	return Limit{Capacity: is.Capacity, Amount: is.Amount, Period: is.Period}.Share(int(l.Shard), int(l.Shards))
}

// Changes reports whether a limit of a schedule has other parameters at to than at from, or had in
// between.
func (l Limit) Changes(from, to int64) bool {
	return l.Varies != nil && to > from && l.Varies.Piece(to).Start > from
}

// IsLong reports whether so many pieces of a schedule, or periods of a quota that carries, lie
// between two instants that a refill on the way keeps a balance exact.
func (l Limit) IsLong(from, to int64) bool {
	switch {
	case l.Renewal != nil && l.carries():
		n, _ := l.Renewal.Edges(from, to, MostPieces/2)
		return n == MostPieces/2
	case l.Renewal != nil:
		return false
	}
	if !l.Changes(from, to) {
		return false
	}
	p := l.Varies.Piece(to)
	for range MostPieces / 2 {
		if p.Start <= from {
			return false
		}
		p = l.Varies.Before(p)
	}
	return true
}

// fillThrough is fill for a limit of a schedule. A balance that passed a change counts as
// clamped: a capacity on the way may cut a larger one.
func (l Limit) fillThrough(tokens, at, now int64) (balance int64, clamped bool) {
	to := max(at, now)
	p := l.Varies.Piece(to)
	if p.Start <= at {
		return l.in(p).fill(tokens, at, now)
	}
	balance = l.in(p).Capacity
	debt, sum := distance(min(tokens, 0), 0), uint64(0)
	for n := 0; ; n++ {
		is := l.in(p)
		if sum < uint64(balance) {
			balance = int64(min(uint64(balance), uint64(is.Capacity)+sum))
		}
		sum = plus(sum, is.earned(max(at, p.Start), to))
		if p.Start <= at || sum >= uint64(balance)+debt {
			break
		}
		if n == MostPieces {
			tokens = min(tokens, l.least()) // whatever earlier pieces would have left of it
			break
		}
		to, p = p.Start, l.Varies.Before(p)
	}
	if tokens < balance && sum < distance(tokens, balance) {
		balance = int64(uint64(tokens) + sum)
	}
	return balance, true
}

// least is the smallest capacity that any piece has.
func (l Limit) least() int64 {
	least := int64(math.MaxInt64)
	for p := range l.Pieces() {
		least = min(least, p.Capacity)
	}
	return least
}

// Most is the most that a limit ever holds.
func (l Limit) Most() (most int64) {
	for p := range l.Pieces() {
		most = max(most, p.Capacity, p.Renewed+p.Rollover)
	}
	return most
}

// Until is the end of the piece that holds an instant, math.MaxInt64 if there is none. A period
// of a quota that carries is a piece, and one of a quota that varies consists of pieces.
func (l Limit) Until(t int64) int64 {
	end := int64(math.MaxInt64)
	if l.Renewal != nil && (l.carries() || l.Varies != nil && !l.Renews(t, t)) {
		end = l.Renewal.End(l.Opened, t)
	}
	if l.Varies == nil {
		return end
	}
	if p := l.Varies.Piece(t); !p.IsLast() {
		end = min(end, p.End)
	}
	return end
}

// Pieces yields what a limit of a schedule can be: outside of all entries, and in each. It
// yields any other limit.
func (l Limit) Pieces() iter.Seq[Limit] {
	return func(yield func(Limit) bool) {
		if l.Varies == nil {
			yield(l)
			return
		}
		for p := range l.Varies.All(l.Base) {
			if !yield(l.of(p)) {
				return
			}
		}
	}
}

// earnedThrough is earned for a limit of a schedule.
func (l Limit) earnedThrough(from, to int64) (sum uint64) {
	if to <= from {
		return 0
	}
	p := l.Varies.Piece(to)
	for range MostPieces {
		sum = plus(sum, l.in(p).earned(max(from, p.Start), to))
		if p.Start <= from {
			break
		}
		to, p = p.Start, l.Varies.Before(p)
	}
	return sum
}

// plus adds, and stops at math.MaxUint64.
func plus(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// waitThrough is Wait for a limit of a schedule: it walks forwards from now, or from at if that is
// later. Capacities fall and rise on the way.
func (l Limit) waitThrough(tokens, at, now, need int64) (ms int64, ok bool) {
	balance := l.Balance(tokens, at, now)
	if balance >= need {
		return 0, true
	}
	if need > l.Most() {
		return 0, false
	}
	from := max(at, now)
	p := l.Varies.Piece(from)
	for range MostPieces {
		is := l.in(p)
		if balance = min(balance, is.Capacity); balance >= need {
			return waitUntil(from, now)
		}
		if need <= is.Capacity {
			ms, comes := is.Wait(balance, from, now, need)
			if comes && uint64(ms) < distance(now, p.End) { //nolint:gosec // not negative
				return ms, true
			}
			ok = true
		}
		if p.IsLast() {
			return 0, false
		}
		balance = is.Balance(balance, from, p.End)
		from, p = p.End, l.Varies.After(p)
	}
	if !ok {
		return 0, false
	}
	return waitUntil(from, now)
}
