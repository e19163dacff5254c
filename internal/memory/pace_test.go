package memory_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

const milli = store.Milli

// start is when the accounts of these tests have seen their shards.
var start = memory.Moment{Now: 1_700_000_000_000, Up: time.Hour}

// rpm is a limit of 1000 tokens a minute: a millisecond earns 16 millitokens.
var rpm = store.Params{Capacity: 1000 * milli, Amount: 1000 * milli, Period: 60_000}

func asks(tokens int64) []store.Amount {
	return []store.Amount{{Limit: "rpm", Milli: tokens * milli}}
}

// steady draws the number in the middle, at which pauses are neither longer nor shorter.
func steady(n int64) int64 { return n / 2 }

// holding returns the account of a bucket whose shards were seen at the start with so many
// tokens each.
func holding(tokens ...int64) *memory.Account {
	acct := &memory.Account{}
	for i, n := range tokens {
		acct.Remember(&store.Image{
			Bucket: store.Bucket{Entity: "user", Resource: "gpt-4", Shard: i}, ShardCount: len(tokens), RefilledAt: start.Now,
			Limits: []store.LimitState{{Name: "rpm", Params: new(rpm), Tokens: n * milli}},
		}, start)
	}
	return acct
}

// share lets the account find that others write to shard 0.
func share(acct *memory.Account, m memory.Moment) {
	for n := range int64(3) {
		img := &store.Image{RefilledAt: start.Now, Writes: store.LimitState{Consumed: 10 * n * plan.WriteCost}}
		acct.EndWrite(acct.BeginWrite(0, memory.StampUse{}, m.Up), store.Outcome{Applied: true, Image: img}, nil, m, steady)
	}
}

// A shared bucket of several shards is scarce if they hold less together than would be
// plenty on each of them.
func TestABucketIsScarce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held   []int64
		amount []store.Amount
		scarce bool
	}{
		"four times the amount on each":         {[]int64{40, 40}, asks(10), false},
		"four times the amount on each, but 1":  {[]int64{39, 40}, asks(10), true},
		"all of it on one":                      {[]int64{80, 0}, asks(10), false},
		"a debt takes nothing from another":     {[]int64{-300, 80}, asks(10), false},
		"half of the capacity on each":          {[]int64{250, 250}, asks(100), false},
		"an amount of more than half of it":     {[]int64{299, 300}, asks(300), true},
		"that amount, on each":                  {[]int64{300, 300}, asks(300), false},
		"nothing is asked":                      {[]int64{0, 0}, asks(0), false},
		"an unknown limit":                      {[]int64{0, 0}, []store.Amount{{Limit: "tpm", Milli: 1}}, false},
		"one of two limits":                     {[]int64{0, 0}, append([]store.Amount{{Limit: "tpm", Milli: 1}}, asks(1)...), true},
		"the only shard decides for itself":     {[]int64{0}, asks(10), false},
		"four shards, with plenty on a quarter": {[]int64{40, 40, 40, 39}, asks(10), true},
	} {
		acct := holding(c.held...)
		if acct.IsScarce(c.amount, start.Up) {
			t.Errorf("%s: scarce, though nobody else writes", name)
		}
		share(acct, start)
		if got := acct.IsScarce(c.amount, start.Up); got != c.scarce {
			t.Errorf("%s: scarce %t, want %t", name, got, c.scarce)
		}
	}
}

// A shard that was not seen lately may hold anything: the bucket may hold plenty.
func TestABucketThatWasNotSeenWholeIsNotScarce(t *testing.T) {
	t.Parallel()
	later := memory.Moment{Now: start.Now + 1001, Up: start.Up + time.Second + time.Millisecond}
	for name, forget := range map[string]func(*memory.Account) time.Duration{
		"a shard is forgotten": func(acct *memory.Account) time.Duration { acct.Forget(1); return start.Up },
		"the images are old":   func(acct *memory.Account) time.Duration { share(acct, later); return later.Up },
	} {
		acct := holding(0, 0)
		share(acct, start)
		if !acct.IsScarce(asks(10), start.Up) {
			t.Errorf("%s: not scarce before", name)
		}
		if acct.IsScarce(asks(10), forget(acct)) {
			t.Errorf("%s: scarce", name)
		}
	}
}

// Rounds on all shards of a shared bucket follow each other after the pause of a writer to
// one item: it is longest if they hold nothing, and there is none if they hold plenty.
func TestRoundsPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held   []int64
		amount []store.Amount
		pause  time.Duration
	}{
		"nothing":          {[]int64{0, 0}, asks(10), 240 * time.Millisecond},
		"half of plenty":   {[]int64{10, 10}, asks(10), 120 * time.Millisecond},
		"plenty":           {[]int64{40, 0}, asks(10), 0},
		"nothing is asked": {[]int64{0, 0}, asks(0), 0},
		"an unknown limit": {[]int64{0, 0}, []store.Amount{{Limit: "tpm", Milli: 1}}, 0},
	} {
		acct := holding(c.held...)
		if got := acct.BeginRound(c.amount, start.Up, steady); got != 0 {
			t.Errorf("%s: a pause of %v, though nobody else writes", name, got)
		}
		share(acct, start)
		for n := range 3 {
			if got, want := acct.BeginRound(c.amount, start.Up, steady), time.Duration(n)*c.pause; got != want {
				t.Errorf("%s: round %d after %v, want %v", name, n, got, want)
			}
		}
	}
}

// Others take what a shared item earns, so it holds what it held when it was seen. If that was
// half of the capacity or more, it goes on filling.
func TestWhatASharedItemHoldsByNow(t *testing.T) {
	t.Parallel()
	later := memory.Moment{Now: start.Now + 600, Up: start.Up + 600*time.Millisecond} // 10 tokens are earned
	for held, want := range map[int64]int64{-50: -50, 0: 0, 100: 100, 499: 499, 500: 510, 900: 910, 995: 1000} {
		acct := holding(held)
		img := acct.Image(0, start.Up, time.Minute)
		if acct.Predicted(img, later) != img {
			t.Errorf("%d tokens: predicted, though nobody else writes", held)
		}
		share(acct, start)
		by := func(img *store.Image) int64 {
			l, _ := img.Limit("rpm")
			return plan.ShareOf(img, &l).Balance(l.Tokens, img.RefilledAt, later.Now) / milli
		}
		if got := by(acct.Predicted(img, later)); got != want {
			t.Errorf("%d tokens are predicted to be %d, want %d", held, got, want)
		}
		if l, _ := img.Limit("rpm"); l.Tokens != held*milli {
			t.Errorf("%d tokens: the image was changed", held)
		}
		other := *img
		if acct.Predicted(&other, later) != &other {
			t.Errorf("%d tokens: another image than the last one is changed", held)
		}
	}
}
