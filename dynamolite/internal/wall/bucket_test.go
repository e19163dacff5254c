package wall_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

var (
	rates = rapid.OneOf(rapid.Int64Range(1, 50), rapid.Just(int64(2000)), rapid.Int64Range(1, 4e6))
	keeps = rapid.OneOf(rapid.Just(time.Second), rapid.Just(5*time.Minute), rapid.Map(rapid.Int64Range(0, int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) }))
	// costs of requests in half units, up to more than any request can have.
	costs = rapid.OneOf(rapid.Int64Range(1, 4), rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1<<26))
	// pauses in nanoseconds, up to far more than any bucket needs to fill.
	pauses = rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, int64(2*time.Millisecond)), rapid.Int64Range(0, int64(time.Hour)), rapid.Int64Range(0, int64(1000*time.Hour)))
)

// Refilling at any instants in between changes nothing.
func TestRefillIsPathIndependent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := wall.NewBucket(rates.Draw(t, "rate"), keeps.Draw(t, "keep")).Charged(costs.Draw(t, "cost")).Charged(costs.Draw(t, "cost"))
		steps := b
		now := time.Duration(0)
		for _, pause := range rapid.SliceOfN(pauses, 1, 8).Draw(t, "pauses") {
			now += time.Duration(pause)
			steps = steps.Refilled(now)
		}
		if once := b.Refilled(now); once != steps {
			t.Fatalf("%+v in steps, %+v at once", steps, once)
		}
	})
}

// A bucket fills at its rate, exact to the nanosecond: the missing amount divided by the rate,
// rounded up.
func TestFullInTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate, cost := rapid.Int64Range(1, 2e6).Draw(t, "rate"), rapid.Int64Range(1, 1<<26).Draw(t, "cost")
		b := wall.NewBucket(rate, keeps.Draw(t, "keep")).Charged(cost)
		full := time.Duration((cost*int64(time.Second) + rate - 1) / rate)
		if b.Refilled(full - 1).Full() {
			t.Fatalf("full before %v", full)
		}
		if !b.Refilled(full).Full() {
			t.Fatalf("not full after %v", full)
		}
	})
}

// An earlier instant changes nothing, neither immediately nor later.
func TestEarlierInstantIsHarmless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := wall.NewBucket(rates.Draw(t, "rate"), time.Second).Charged(costs.Draw(t, "cost"))
		now, later := time.Duration(pauses.Draw(t, "now")), time.Duration(pauses.Draw(t, "pause"))
		earlier := time.Duration(rapid.Int64Range(0, int64(now)).Draw(t, "earlier"))
		b = b.Refilled(now)
		if back := b.Refilled(earlier); back != b {
			t.Fatalf("%+v became %+v", b, back)
		}
		if a, b := b.Refilled(earlier).Refilled(now+later), b.Refilled(now+later); a != b {
			t.Fatalf("%+v after a step back, else %+v", a, b)
		}
	})
}

// The balance does not wrap around, however much is charged.
func TestDebtSaturates(t *testing.T) {
	t.Parallel()
	b := wall.NewBucket(4e6, time.Hour)
	for range 1000 {
		b = b.Charged(1 << 26)
		if balance, _ := b.Grains(); balance > 0 && b.Full() {
			t.Fatalf("%+v after a charge", b)
		}
	}
	if balance, _ := b.Refilled(time.Second).Grains(); balance >= 0 {
		t.Errorf("balance %d after a second, want a debt", balance)
	}
	if b = b.Refilled(1 << 62); !b.Full() {
		t.Errorf("%+v, not full after 146 years", b)
	}
}
