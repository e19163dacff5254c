// Package bucket is the arithmetic of a token bucket: pure integers, no clock,
// no I/O. Tokens are counted in millitokens and time in milliseconds since the
// Unix epoch; every product is taken in 128 bits and every division floors.
//
// # The accrual grid
//
// Between the instants a and b a limit earns (ADR 001)
//
//	⌊b·Amount/Period⌋ − ⌊a·Amount/Period⌋
//
// millitokens: what it earns is the number of grid lines passed, and the grid
// is fixed to the epoch, not to the last refill. The sum telescopes, so any
// sequence of refills between two instants earns the same in total. Nothing is
// lost to rounding and there is no remainder to store, however often one
// shared stamp is moved for some other limit's sake.
//
// # Quotas
//
// A limit with a Renewal is a quota: it earns nothing until its period ends, and is full
// from then on, however much it owed. The stamp says of which period the balance is. So all
// methods have for a quota the meaning that they have for other limits: of whatever lies
// between two instants, one end of a period or many, the bucket is full once.
//
// Of a session, Opened says of which period the balance is, and not the stamp. A session
// that has ended is full until somebody uses it, however far the stamp moves meanwhile.
//
// A quota that carries is not simply full: see carry.go.
//
// # Schedules
//
// A limit that Varies has other parameters at other times. Between two instants it earns what it
// earns in each piece of its schedule, on the grid of that piece, and where a piece begins the
// balance is cut to its capacity. So a sum over pieces differs from the integral of the rate by
// less than a millitoken for each change, to either side. See schedule.go; and varied.go for a
// quota of a schedule.
//
// # State
//
// A bucket is two numbers that the caller keeps: tokens, which may be negative
// (debt), and at, the instant up to which they are accounted for. A refill adds
// what [Limit.Refill] says and moves at to the later of at and now. A clock
// behind at earns nothing and must not move it.
//
// # Bounds
//
// Results are exact for capacities and amounts up to 10^18 millitokens, periods
// up to 3.2·10^13 ms (10^9 s over 32 shards) and balances down to −9·10^18;
// where a result could leave an int64 its method says what happens. No argument
// panics. A limit whose Amount or Period is not positive earns nothing, unless it is a quota.
package bucket

import (
	"math"
	"math/bits"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A Limit is what one shard of a bucket may hold and earn.
type Limit struct {
	Capacity int64 // millitokens, at least 1
	Amount   int64 // millitokens earned every Period; 0 earns nothing
	Period   int64 // milliseconds, at least 1
	// Renewal, if not nil, makes the limit a quota, which has neither Amount nor Period.
	// Renewed is what the quota gets at the end of the period; Capacity is the most that
	// it holds until then. Opened is when the session began that the balance is of, if the
	// quota is one.
	Renewal *calendar.Renewal
	Renewed int64
	Opened  int64
	// Rollover is the most of what is left that a quota of a calendar takes into its next period.
	// CarriesDebt says that it takes a debt there, too. Otherwise the debt ends with the period.
	Rollover    int64
	CarriesDebt bool
	// Varies, if not nil, makes the limit one of a schedule. Capacity, Amount and Period, or
	// Capacity and Renewed of a quota, are then those of one piece; all methods but Room find
	// those of other pieces. Base are the parameters of the whole limit outside of all entries.
	// The limit is shard Shard of Shards.
	Varies        *calendar.Schedule
	Base          Params
	Shard, Shards int32
	// Of a quota that varies, until its period ends: TopUp is the part of Capacity that is above
	// the share, and GrantShards is among how many shards the quota is divided for Capacity, if
	// that is not Shards. InStep says that the balance has followed all changes of the period.
	TopUp       int64
	GrantShards int32
	InStep      bool
}

// Share returns what one shard of a limit divided among shards may hold and
// earn: shard i holds those of the millitokens 0 to Capacity−1 that are i modulo
// shards. So the shares sum to the limit, and the share of shard i of n is the sum
// of those of shards i and i+n of 2n. A longer period divides the rate, which
// rounds nothing away. One shard or fewer is the limit itself.
//
// All shares pass their grid lines at the same instants, every shards-th line
// of the whole limit. Since the epoch they have therefore never earned more than
// the whole. Over any interval they differ from it by less than shards
// millitokens, to either side.
func (l Limit) Share(shard, shards int) Limit {
	if shards <= 1 {
		return l
	}
	n, share := int64(shards), l
	share.Capacity, share.Renewed, share.Period = part(l.Capacity, int64(shard), n), part(l.Renewed, int64(shard), n), math.MaxInt64
	share.Rollover = part(l.Rollover, int64(shard), n)
	if l.Period <= math.MaxInt64/n {
		share.Period = l.Period * n
	}
	if l.Varies != nil {
		share.Shard, share.Shards = int32(shard), int32(shards) //nolint:gosec // few
	}
	return share
}

// part is how many of the numbers 0 to whole−1 are shard modulo shards.
func part(whole, shard, shards int64) int64 {
	if shard < whole%shards {
		return whole/shards + 1
	}
	return whole / shards
}

// Earned is the number of millitokens that accrue after from and up to to:
// never negative, 0 unless to is later than from, math.MaxInt64 if there are
// more than that. Of a quota that renews in between it is math.MaxInt64: as much as
// any balance lacks, unless a debt is carried. A higher amount that begins in between is earned.
func (l Limit) Earned(from, to int64) int64 {
	if l.Varies != nil && l.Renewal == nil {
		return int64(min(l.earnedThrough(from, to), math.MaxInt64))
	}
	return int64(min(l.earned(from, to), math.MaxInt64))
}

// Balance is what tokens, accounted for up to at, have become at now: never
// above Capacity, so a surplus is trimmed even when nothing was earned.
func (l Limit) Balance(tokens, at, now int64) int64 {
	balance, _ := l.fill(tokens, at, now)
	return balance
}

// Refill is the change that brings tokens, accounted for up to at, to their
// [Limit.Balance] at now: negative when it trims a surplus. It is clamped when
// it is not simply what was earned. A clamped change is right for exactly these
// tokens; any other is right for every balance that it leaves at or below
// Capacity.
//
// A change that an int64 cannot hold, possible only out of a debt of nearly
// that size, is cut to math.MaxInt64 and reported as clamped.
func (l Limit) Refill(tokens, at, now int64) (delta int64, clamped bool) {
	balance, clamped := l.fill(tokens, at, now)
	delta = balance - tokens
	if (balance < tokens) != (delta < 0) { // the subtraction overflowed
		if balance < tokens {
			return math.MinInt64, true
		}
		return math.MaxInt64, true
	}
	return delta, clamped
}

// Admits reports whether the balance at now covers need. A need of 0 or less
// takes nothing and is always admitted, in debt too.
func (l Limit) Admits(tokens, at, now, need int64) bool {
	return need <= 0 || l.Balance(tokens, at, now) >= need
}

// Wait is the fewest milliseconds after now until the balance covers need if
// nobody else takes any: [Limit.Admits] says yes at now+ms and, unless ms is 0,
// no at now+ms−1.
//
// It is not ok when that never comes: need exceeds Capacity, or that of every piece of a
// schedule; nothing is being earned and the balance is short, or the wait or the instant at
// its end does not fit an int64. Up to there a wait may be longer than a [time.Duration] can
// say, which ends at 292 years.
func (l Limit) Wait(tokens, at, now, need int64) (ms int64, ok bool) {
	switch {
	case need <= 0:
		return 0, true
	case l.Renewal != nil && l.Varies != nil:
		return l.waitForVaried(tokens, at, now, need)
	case l.Renewal != nil:
		return l.waitForRenewal(tokens, at, now, need)
	case l.Varies != nil:
		return l.waitThrough(tokens, at, now, need)
	case need > l.Capacity:
		return 0, false
	case tokens >= need:
		return 0, true
	case l.Amount <= 0 || l.Period <= 0:
		return 0, false
	}
	// With at already r/Period of the way to its next grid line, the deficit is
	// earned after the least e with e·Amount + r ≥ deficit·Period. The product
	// stays below 2^127 and, the deficit being positive, above r.
	amount := uint64(l.Amount)
	hi, lo := bits.Mul64(distance(tokens, need), uint64(l.Period))
	lo, borrow := bits.Sub64(lo, l.phase(at), 0)
	hi -= borrow
	lo, carry := bits.Add64(lo, amount-1, 0)
	hi += carry
	if hi >= amount {
		return 0, false
	}
	e, _ := bits.Div64(hi, lo, amount)
	if e > distance(at, math.MaxInt64) {
		return 0, false
	}
	return waitUntil(int64(uint64(at)+e), now)
}

// waitUntil is the wait for an instant; not ok if it does not fit an int64.
func waitUntil(end, now int64) (ms int64, ok bool) {
	if end <= now {
		return 0, true
	}
	if ms = end - now; ms < 0 { // overflowed: now lies far before the epoch
		return 0, false
	}
	return ms, true
}

// Room is how much of a credit fits below Capacity: from 0 to credit.
func (l Limit) Room(tokens, credit int64) int64 {
	if credit <= 0 || tokens >= l.Capacity {
		return 0
	}
	return int64(min(uint64(credit), distance(tokens, l.Capacity)))
}

// fill is Balance, and whether the balance is other than tokens plus what was
// earned.
func (l Limit) fill(tokens, at, now int64) (balance int64, clamped bool) {
	if l.Renews(at, now) {
		return l.renewed(tokens, at, now), true
	}
	switch {
	case l.Varies != nil && l.Renewal != nil:
		return l.fillVaried(tokens, at, now)
	case l.Varies != nil:
		return l.fillThrough(tokens, at, now)
	}
	if tokens > l.Capacity {
		return l.Capacity, true
	}
	earned := l.earned(at, now)
	if earned > distance(tokens, l.Capacity) {
		return l.Capacity, true
	}
	return int64(uint64(tokens) + earned), false
}

// earned is Earned, cut at math.MaxUint64: enough to tell that any two int64
// balances are bridged.
func (l Limit) earned(from, to int64) uint64 {
	switch {
	case to <= from:
		return 0
	case l.Renews(from, to):
		return math.MaxUint64
	case l.Renewal != nil:
		return l.raised(from, to)
	case l.Amount <= 0 || l.Period <= 0:
		return 0
	}
	// ⌊to·ra/P⌋ − ⌊from·ra/P⌋ = ⌊((to−from)·ra + from·ra mod P) / P⌋: unlike the
	// two quotients, the elapsed product stays below 2^127.
	hi, lo := bits.Mul64(distance(from, to), uint64(l.Amount))
	lo, carry := bits.Add64(lo, l.phase(from), 0)
	hi += carry
	period := uint64(l.Period)
	if hi >= period {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(hi, lo, period)
	return quotient
}

// Renews reports whether the limit is a quota, and the period that a balance of an instant is
// of has ended by now. A session has, whatever that instant is.
func (l Limit) Renews(at, now int64) bool {
	return l.Renewal != nil && (now > at || l.Renewal.Session() != 0) && l.Renewal.End(l.Opened, at) <= now
}

// phase is at·Amount mod Period, from 0 to Period−1 before the epoch too: how
// far past its last grid line the limit is. Amount and Period are positive.
func (l Limit) phase(at int64) uint64 {
	period := uint64(l.Period)
	if at < 0 {
		hi, lo := bits.Mul64(distance(at, 0), uint64(l.Amount))
		if past := bits.Rem64(hi, lo, period); past != 0 {
			return period - past
		}
		return 0
	}
	hi, lo := bits.Mul64(uint64(at), uint64(l.Amount))
	return bits.Rem64(hi, lo, period)
}

// distance is to − from, for to ≥ from; it always fits.
func distance(from, to int64) uint64 { return uint64(to) - uint64(from) }
