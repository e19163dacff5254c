package bucket_test

import (
	"math"
	"math/big"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Bounds within which the package promises exact results.
const (
	maxMilli  = int64(1e18)            // 10^15 tokens
	maxPeriod = int64(32e12)           // 10^9 s over 32 shards
	maxDebt   = int64(-9e18)           // the deepest balance
	maxNow    = int64(7_258_118_400e3) // the year 2200
)

// The oracle computes the same in unbounded numbers, directly from the definition: two
// quotients, then their difference.

func num(n int64) *big.Int { return big.NewInt(n) }

func add(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }

func sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }

func mul(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }

// floorDiv is ⌊a/b⌋ for positive b: Euclidean division, which floors there.
func floorDiv(a, b *big.Int) *big.Int { return new(big.Int).Div(a, b) }

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// line is ⌊t·ra/P⌋: the last grid line at or before t.
func line(l bucket.Limit, t int64) *big.Int {
	return floorDiv(mul(num(t), num(l.Amount)), num(l.Period))
}

func trueEarned(l bucket.Limit, from, to int64) *big.Int {
	if to <= from || l.Amount <= 0 || l.Period <= 0 {
		return num(0)
	}
	return sub(line(l, to), line(l, from))
}

func trueBalance(l bucket.Limit, tokens, at, now int64) *big.Int {
	return least(num(l.Capacity), add(num(tokens), trueEarned(l, at, now)))
}

// trueWait searches the instants for the first that admits, by halving: the
// balance never falls with time.
func trueWait(l bucket.Limit, tokens, at, now, need int64) (ms int64, ok bool) {
	admits := func(t int64) bool {
		return need <= 0 || trueBalance(l, tokens, at, t).Cmp(num(need)) >= 0
	}
	if admits(now) {
		return 0, true
	}
	if !admits(math.MaxInt64) {
		return 0, false
	}
	refused, admitted := now, int64(math.MaxInt64)
	for refused+1 < admitted {
		middle := refused/2 + admitted/2 + (refused%2+admitted%2)/2
		if middle == refused {
			middle++
		}
		if admits(middle) {
			admitted = middle
		} else {
			refused = middle
		}
	}
	wait := sub(num(admitted), num(now))
	return wait.Int64(), wait.IsInt64()
}

// saturated is n brought within an int64.
func saturated(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

// within folds any n into lo..hi, and keeps an n that is already there. lo and hi−lo must
// not be so far apart that they overflow an int64.
func within(n, lo, hi int64) int64 {
	if n >= lo && n <= hi {
		return n
	}
	span := uint64(hi-lo) + 1
	return lo + int64(uint64(n)%span)
}

// validLimit folds any three numbers into a limit the package is exact for.
func validLimit(capacity, amount, period int64) bucket.Limit {
	return bucket.Limit{
		Capacity: within(capacity, 1, maxMilli),
		Amount:   within(amount, 0, maxMilli),
		Period:   within(period, 1, maxPeriod),
	}
}

// validTokens folds any number into a balance: the deepest debt up to some
// surplus. Its span exceeds an int64, so it folds each sign by itself.
func validTokens(n int64) int64 {
	if n < 0 {
		return within(n, maxDebt, -1)
	}
	return within(n, 0, 2*maxMilli)
}
