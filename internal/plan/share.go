package plan

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// MaxDebt is the largest debt of a shard, in millitokens: four times the largest
// capacity (ADR 027). If commits of several processes race, each may exceed it by the amount that
// it takes. 64 bits have room for four such amounts.
const MaxDebt = 4 * store.MaxTokens * store.Milli

// leastBalance is what a store gives for any lower balance, see [store.LimitState].
const leastBalance = -2 * MaxDebt

// WriteCost is the debit of every write to a bucket item from its hidden write limit,
// in millitokens.
const WriteCost = store.Milli

// WriteParams are the parameters of the hidden write limit. They are never divided by the number of
// shards, because each shard has its own partition.
var WriteParams = store.Params{Capacity: store.WritesPerSecond * store.Milli, Amount: store.WritesPerSecond * store.Milli, Period: 1000}

// Overflows reports whether a balance has, by now, accrued past its capacity.
func Overflows(i *store.Image, s *store.LimitState, now int64) bool {
	_, clamped := ShareOf(i, s).Refill(s.Tokens, i.RefilledAt, now)
	return clamped
}

// CeilingOf is the highest balance of a limit, at the image's stamp or a later one,
// that has not accrued past the capacity by now. No take debits a higher one (ADR 006).
func CeilingOf(i *store.Image, s *store.LimitState, now int64) int64 {
	if !i.IsEvaluable() {
		return math.MaxInt64 // this version does not know the capacity
	}
	l := ShareOf(i, s)
	if l.Changes(i.RefilledAt, now) {
		return 0 // no take passes a change of parameters
	}
	return l.Capacity - min(l.Capacity, l.Earned(i.RefilledAt, now))
}

// WritesOf is the hidden write limit of an image. It is not divided among shards. An item that lacks
// it has none.
func WritesOf(i *store.Image) bucket.Limit {
	if i.Writes.Params == nil {
		return bucket.Limit{}
	}
	return Share(*i.Writes.Params, 0, 1, i.RefilledAt)
}

// ShareOf is the image's share of a limit, as it is at the image's stamp. Of a quota, it is
// the share that the item was given for the period of its stamp, and its share of the next
// one.
func ShareOf(i *store.Image, s *store.LimitState) bucket.Limit { return shareAt(i, s, i.RefilledAt) }

// shareAt is the image's share of a limit as it is at an instant.
func shareAt(i *store.Image, s *store.LimitState, at int64) bucket.Limit {
	l := Share(*s.Params, i.Shard, i.ShardCount, at)
	if s.Renewal == nil {
		return l
	}
	l.Opened = s.Opened()
	granted := s.Granted()
	if granted.Shards != 0 {
		l.Capacity = Share(*s.Params, i.Shard, granted.Shards, at).Capacity
	}
	l.Capacity += granted.TopUp
	if s.Varies != nil {
		l.TopUp, l.GrantShards = granted.TopUp, int32(granted.Shards) //nolint:gosec // few
		l.InStep = i.InStep && granted.Shards <= i.ShardCount         // or a peer has written an older count
	}
	return l
}

// Renewed reports whether a limit of an item is a quota that has begun a period since the
// item's stamp.
func Renewed(i *store.Image, s *store.LimitState, now int64) bool {
	return s.Renewal != nil && ShareOf(i, s).Renews(i.RefilledAt, now)
}

// InForce are the parameters that a limit has at an instant.
func InForce(p store.Params, at int64) store.Params {
	if p.Varies == nil {
		return p
	}
	l := Share(p, 0, 1, at)
	return store.Params{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period, Renewal: p.Renewal}
}

// Share is the share of a limit that falls to one of n shards, as it is at an instant.
func Share(p store.Params, shard, n int, at int64) bucket.Limit {
	base := bucket.Params{Capacity: p.Capacity, Amount: p.Amount, Period: p.Period}
	switch {
	case p.Varies != nil && p.Renewal != nil:
		return bucket.VaryingQuota(p.Renewal, p.Varies, base, at).Share(shard, n)
	case p.Varies != nil:
		return bucket.Varying(p.Varies, base, at).Share(shard, n)
	}
	l := bucket.Limit{Capacity: p.Capacity, Amount: p.Amount, Period: p.Period, Renewal: p.Renewal}
	if p.Renewal != nil {
		l.Renewed, l.Rollover, l.CarriesDebt = p.Capacity, p.Carries.Rollover, p.Carries.Debt
	}
	return l.Share(shard, n)
}
