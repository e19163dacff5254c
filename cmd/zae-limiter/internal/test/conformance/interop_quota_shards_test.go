//go:build conformance

package conformance_test

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// exhaust takes what is left of rpd, and checks how much that was, and that both refuse then. Both
// libraries take in turn: Python much of each shard, and at the end one token at a time.
func (b *both) exhaust(want int64, end time.Time) {
	b.Helper()
	left := want
	for _, each := range []int{10, 4, 1} {
		for i := 0; i < 4 && left > int64(4*each); i++ {
			if !b.py.take("user", "gpt-4", args{"rpd": each}) {
				left -= int64(each)
			}
		}
	}
	if got := b.drain("gpt-4"); got != left {
		b.Errorf("%d admitted of %d", want-left+got, want)
	}
	b.exhausted(end)
}

// exhausted checks that both refuse one token until a period ends.
func (b *both) exhausted(end time.Time) {
	b.Helper()
	refused := b.take("user", "gpt-4", args{"rpd": 1})
	if refused == nil || !refused.Statuses[0].ResetsAt.Equal(end) || refused.Statuses[0].Available != 0 {
		b.Errorf("Go admits one of none, or does not wait until %v: %v", end, refused)
	}
	if !b.py.take("user", "gpt-4", args{"rpd": 1}) {
		b.Error("Python admits one of none")
	}
}

// widens doubles with Python, and lets it make the new shards.
func (b *both) widens(from int) {
	b.Helper()
	b.raise("user", "gpt-4", from)
	for i := 0; len(b.some()) < 2*from; i++ {
		if i == 100 {
			b.Fatalf("Python made %d of %d shards", len(b.some()), 2*from)
		}
		b.py.take("user", "gpt-4", args{"rpd": 0})
	}
}

// isHeld checks that all shards together hold an amount of rpd, in tokens.
func (b *both) isHeld(want int64) {
	b.Helper()
	if held, _ := sums(b.some()); held != want*1000 {
		b.Errorf("%d millitokens are held, want %d tokens", held, want)
	}
}

// A bucket that one library made is doubled by Python when used of its 100 tokens are gone. The
// shards share what is left, and renew.
func (b *both) doubledByPython(maker string, used int) {
	b.Helper()
	midnight := b.daily()
	makes, _ := b.sides(maker)
	b.takes(makes, used)
	b.widens(1)
	left := 100 - int64(used)
	b.isHeld(left)
	ours, _ := b.sides("Go")
	b.takes(ours, 10)
	left -= 10
	b.isHeld(left)
	b.widens(2)
	b.isHeld(left)
	b.exhaust(left, midnight)

	b.at(midnight)
	b.exhaust(100, midnight.AddDate(0, 0, 1))
	// A request above each share is served from several shards.
	b.at(midnight.AddDate(0, 0, 1))
	b.takes(ours, 80)
	b.isHeld(20)
	b.exhaust(20, midnight.AddDate(0, 0, 2))
}

// A bucket that one library made is doubled by Go when used of its 100 tokens are gone.
func (b *both) doubledByGo(maker string, used int) {
	b.Helper()
	midnight := b.daily()
	makes, _ := b.sides(maker)
	b.takes(makes, used)
	b.double("user", "gpt-4", 4)
	left := 100 - int64(used)
	b.isHeld(left)
	b.exhaust(left, midnight)
	b.at(midnight)
	b.exhaust(100, midnight.AddDate(0, 0, 1))
}

// quotaShardCases test a quota of several shards.
var quotaShardCases = func() (cases []interopCase) {
	for _, maker := range []string{"Python", "Go"} {
		for _, used := range []int{20, 70} {
			cases = append(cases,
				interopCase{fmt.Sprintf("a quota of %s's with %d of 100 used, doubled by Python", maker, used), func(b *both) { b.doubledByPython(maker, used) }},
				interopCase{fmt.Sprintf("a quota of %s's with %d of 100 used, doubled by Go", maker, used), func(b *both) { b.doubledByGo(maker, used) }},
			)
		}
	}
	return append(cases,
		interopCase{"Python doubles what Go has doubled", func(b *both) {
			midnight := b.daily()
			ours, _ := b.sides("Go")
			b.takes(ours, 60)
			b.double("user", "gpt-4", 2)
			b.widens(2)
			b.isHeld(40)
			b.exhaust(40, midnight)
			b.at(midnight)
			b.exhaust(100, midnight.AddDate(0, 0, 1))
		}},
		interopCase{"Go doubles what Python has doubled", func(b *both) {
			midnight := b.daily()
			_, theirs := b.sides("Go")
			b.takes(theirs, 60)
			b.widens(1)
			b.double("user", "gpt-4", 4)
			b.isHeld(40)
			b.exhaust(40, midnight)
			b.at(midnight)
			b.exhaust(100, midnight.AddDate(0, 0, 1))
			for shard := range 4 {
				if gc := b.number(shard, schema.LimitAttr("rpd", schema.FieldGrantCount)); gc != 4 {
					b.Errorf("shard %d: gc is %d", shard, gc)
				}
			}
		}},
		interopCase{"Go finishes a doubling of Python's", func(b *both) {
			midnight := b.daily()
			_, theirs := b.sides("Go")
			b.takes(theirs, 30)
			b.raise("user", "gpt-4", 1) // and Python makes no shard
			b.isHeld(70)
			left := int64(70)
			for i := 0; len(b.some()) < 2 && i < 20; i++ {
				if b.take("user", "gpt-4", args{"rpd": 1}) == nil {
					left--
				}
			}
			b.fresh()
			b.isHeld(left)
			b.exhaust(left, midnight)
			b.at(midnight)
			b.exhaust(100, midnight.AddDate(0, 0, 1))
		}},
	)
}()
