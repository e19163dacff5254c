package bucket

import (
	"cmp"
	"math"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A quota that varies has at each instant the amount that its schedule says (ADR 057). Where the
// schedule changes within a period, the balance changes by the difference of the amounts:
//
//	balance + consumed of the period = the amount in force
//
// So the bucket is as if the amount in force had been that of the whole period. It does not
// matter how many changes lie between two instants: the difference is between the two
// amounts at these instants. And where a period begins, the balance is the amount in force.
//
// The naive way cuts the balance where a lower amount begins, as for a rate. Nothing fills it
// again before the period ends. So a quota of a month that is less in the working hours would
// shrink to what it is there on the first day.
//
// A bucket that is not InStep was written to by a client that cuts. Nobody knows how much it has cut,
// so a difference given back might be there twice. Until its period ends, such a balance is
// only cut.

// VaryingQuota is a quota of a schedule as it is at an instant, in step.
func VaryingQuota(renewal *calendar.Renewal, schedule *calendar.Schedule, base Params, at int64) Limit {
	l := Varying(schedule, base, at)
	l.Renewal, l.Renewed, l.InStep = renewal, l.Capacity, true
	return l
}

// varied is a quota that varies, as it is in a piece: one without a schedule.
func (l Limit) varied(is Params) Limit {
	l.Renewed = l.part(is.Capacity, l.Shards)
	l.Capacity = l.part(is.Capacity, cmp.Or(l.GrantShards, l.Shards)) + l.TopUp
	l.Varies = nil
	return l
}

// part is the limit's part of a whole that is divided among shards.
func (l Limit) part(whole int64, shards int32) int64 {
	return part(whole, int64(l.Shard), int64(max(shards, 1)))
}

// fillVaried is fill for a quota that varies and has not renewed since at.
func (l Limit) fillVaried(tokens, at, now int64) (balance int64, clamped bool) {
	was, is := l.At(at), l.At(max(at, now))
	balance = min(tokens, was.Capacity)
	if l.InStep {
		balance += is.Renewed - was.Renewed
	}
	clamped = tokens > was.Capacity || balance > is.Capacity
	return min(balance, is.Capacity), clamped
}

// raised is how much more a quota that varies has at to than it had at from, in one period.
func (l Limit) raised(from, to int64) uint64 {
	if l.Varies == nil || !l.InStep {
		return 0
	}
	return uint64(max(0, l.At(to).Renewed-l.At(from).Renewed)) //nolint:gosec // not negative
}

// waitForVaried is Wait for a quota that varies: it walks forwards over changes and ends of
// periods.
func (l Limit) waitForVaried(tokens, at, now, need int64) (ms int64, ok bool) {
	balance := l.Balance(tokens, at, now)
	if balance >= need {
		return 0, true
	}
	if need > l.Most() {
		return 0, false
	}
	l, tokens, at = l.Later(tokens, at, now)
	from := max(at, now)
	for range MostPieces {
		next := l.Until(from)
		if next == math.MaxInt64 {
			return 0, false
		}
		l, tokens, at = l.Later(tokens, at, next)
		if from = next; l.Balance(tokens, at, from) >= need {
			return waitUntil(from, now)
		}
		if _, changes := l.Varies.NextChange(from); !changes && need > l.At(from).Renewed {
			return 0, false
		}
	}
	if need > l.Most() {
		return 0, false
	}
	return waitUntil(from, now)
}
