//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// quota is a quota that renews when words say, in a zone.
func (b *both) quota(name string, tokens int64, words, zone string) limiter.Limit {
	b.Helper()
	renews, err := limiter.ParseRenewal(words, zone)
	b.must(err)
	return limiter.Quota(name, tokens, renews)
}

// noon is noon of a Wednesday in the future, and midnight is when the day ends.
func noon() (noon, midnight time.Time) {
	return time.Date(2030, time.June, 12, 12, 0, 0, 0, time.UTC), time.Date(2030, time.June, 13, 0, 0, 0, 0, time.UTC)
}

// daily gives the system a quota of 100 tokens a day, rpd, beside a rate, sets the clocks to noon,
// and returns when the day ends.
func (b *both) daily() (midnight time.Time) {
	b.Helper()
	b.system(b.quota("rpd", 100, "day", "UTC"), limiter.PerMinute("rpm", 6000))
	now, midnight := noon()
	b.at(now)
	return midnight
}

// A side is one of the two libraries.
type side struct {
	name string
	// take acquires and commits; refused says that it was refused.
	take func(rpd int) (refused bool)
}

// sides are both libraries, the given one first.
func (b *both) sides(first string) (one, other side) {
	b.Helper()
	ours := side{"Go", func(n int) bool { b.Helper(); return b.take("user", "gpt-4", args{"rpd": n, "rpm": 1}) != nil }}
	theirs := side{"Python", func(n int) bool { b.Helper(); return b.py.take("user", "gpt-4", args{"rpd": n, "rpm": 1}) }}
	if first == ours.name {
		return ours, theirs
	}
	return theirs, ours
}

// takes checks that a library is admitted.
func (b *both) takes(s side, rpd int) {
	b.Helper()
	if s.take(rpd) {
		b.Errorf("%s was refused %d", s.name, rpd)
	}
}

// isRefused checks that both libraries refuse an amount of rpd, and what their refusals say: what
// is available, when the period ends, and the wait for that.
func (b *both) isRefused(rpd int, available int64, end time.Time) {
	b.Helper()
	before := b.store.Now()
	refused := b.take("user", "gpt-4", args{"rpd": rpd})
	var body struct {
		Limits []struct {
			Name      string `json:"limit_name"`
			Kind      string
			Capacity  int64
			Available int64
			ResetsAt  int64   `json:"resets_at_ms"`
			WaitMS    float64 `json:"retry_after_seconds"`
		}
	}
	err := b.py.try("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": rpd}}, nil)
	thrown := (*pythonError)(nil)
	if !errors.As(err, &thrown) || refused == nil {
		b.Errorf("%d of %d: Go's refusal %v, Python's %v", rpd, available, refused, err)
		return
	}
	b.must(json.Unmarshal(thrown.Details, &body))
	ours, theirs := refused.Statuses[0], body.Limits[0]
	least, most := end.Sub(b.store.Now()), end.Sub(before)+time.Millisecond // as waits are rounded up
	if !ours.ResetsAt.Equal(end) || ours.Available != available || ours.RetryAfter < least || ours.RetryAfter > most {
		b.Errorf("Go says %d are available until %v, and to wait for %v; want %d, %v, %v to %v", ours.Available, ours.ResetsAt, ours.RetryAfter, available, end, least, most)
	}
	const late = 2 * time.Second // Python adds 1 ms, and the two clocks are as far apart as dates are exact
	wait := time.Duration(theirs.WaitMS * float64(time.Second))
	if theirs.Kind != "quota" || theirs.ResetsAt != end.UnixMilli() || theirs.Available != available || wait < least-late || wait > most+late {
		b.Errorf("Python says %+v; want %d, %v, %v to %v", theirs, available, end.UnixMilli(), least, most)
	}
}

// rpdConsumed checks the count of consumed tokens of rpd over all shards.
func (b *both) rpdConsumed(want int64) {
	b.Helper()
	if _, consumed := sums(b.some()); consumed != want*1000 {
		b.Errorf("%d millitokens of rpd consumed, want %d tokens", consumed, want)
	}
}

// shares checks that two libraries share periods of a quota: one makes the bucket, and one
// renews it.
func (b *both) shares(maker, renewer string) {
	b.Helper()
	midnight := b.daily()
	makes, joins := b.sides(maker)
	b.takes(makes, 10)
	b.takes(joins, 20)
	b.takes(makes, 30)
	b.takes(joins, 10)
	b.balance("user", "gpt-4", "rpd", 30)
	b.isRefused(31, 30, midnight)
	b.at(midnight.Add(-time.Minute))
	b.isRefused(31, 30, midnight)

	// The stored balance would cover the first take: only vu makes it a renewal.
	b.at(midnight)
	renews, joins := b.sides(renewer)
	b.takes(renews, 20)
	b.balance("user", "gpt-4", "rpd", 80)
	b.takes(joins, 50)
	b.takes(renews, 10)
	b.balance("user", "gpt-4", "rpd", 20)
	b.isRefused(21, 20, midnight.AddDate(0, 0, 1))
	b.rpdConsumed(150)

	// Three periods pass that nobody uses.
	b.at(midnight.AddDate(0, 0, 3).Add(time.Hour))
	b.takes(joins, 95)
	b.isRefused(6, 5, midnight.AddDate(0, 0, 4))
	b.rpdConsumed(245)
	if vu := b.number(0, schema.ValidUntil); vu != midnight.AddDate(0, 0, 4).UnixMilli() {
		b.Errorf("vu is %d", vu)
	}
}

// number is a number of one of user's shards for gpt-4.
func (b *both) number(shard int, attr string) int64 {
	b.Helper()
	v, ok := b.shardItem("user", "gpt-4", shard)[attr].(*types.AttributeValueMemberN)
	if !ok {
		b.Fatalf("shard %d has no %s", shard, attr)
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	b.must(err)
	return n
}

// expires checks that an item outlives its period, and what happens if it is used after it has
// expired, and before it is swept.
func (b *both) expires(maker, renewer string) {
	b.Helper()
	midnight := b.daily()
	makes, _ := b.sides(maker)
	b.takes(makes, 70)
	end := time.Unix(b.number(0, schema.TTL), 0)
	if end.Before(midnight.AddDate(0, 0, 1)) {
		b.Errorf("the item of a day that ends at %v expires at %v", midnight, end)
	}
	after := end.Add(time.Hour)
	b.at(after)
	one, other := b.sides(renewer)
	b.takes(one, 60)
	b.takes(other, 40)
	b.exhausted(after.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1))
	if again := time.Unix(b.number(0, schema.TTL), 0); !again.After(end.AddDate(0, 0, 1)) {
		b.Errorf("the item expires at %v, as before", again)
	}
}

// holds opens a lease of each library.
func (b *both) holds(theirs, ours int) (number int, lease *limiter.Lease) {
	b.Helper()
	b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": theirs}}, &number)
	lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": ours}))
	b.must(err)
	return number, lease
}

// A held lease is settled after the period of its tokens.
func (b *both) credits(renewer string, adjust int) {
	b.Helper()
	midnight := b.daily()
	theirs, lease := b.holds(40, 50)
	b.balance("user", "gpt-4", "rpd", 10)
	b.at(midnight)
	if renewer != "" {
		renews, _ := b.sides(renewer)
		b.takes(renews, 30)
	}
	if adjust == 0 {
		b.py.do("settle", args{"lease": theirs, "rollback": true}, nil)
		b.must(lease.Rollback(b.Context()))
	} else {
		b.py.do("settle", args{"lease": theirs, "adjust": args{"rpd": adjust}}, nil)
		b.must(lease.Adjust("rpd", int64(adjust)))
		b.must(lease.Commit(b.Context()))
	}
	one, other := b.sides("Python")
	if renewer == "" {
		b.takes(one, 30)
	}
	b.balance("user", "gpt-4", "rpd", 70)
	b.takes(other, 70)
	b.isRefused(1, 0, midnight.AddDate(0, 0, 1))
}

// quotaPeriodCases test a bucket of one shard over several periods.
var quotaPeriodCases = slices.Concat(
	cross("a shared quota", (*both).shares),
	cross("an expired item", (*both).expires),
	[]interopCase{
		{"credits of a period that Python has renewed", func(b *both) { b.credits("Python", -30) }},
		{"credits of a period that Go has renewed", func(b *both) { b.credits("Go", -30) }},
		{"credits of a period that nobody has renewed", func(b *both) { b.credits("", -30) }},
		{"leases rolled back after Python has renewed", func(b *both) { b.credits("Python", 0) }},
		{"leases rolled back after Go has renewed", func(b *both) { b.credits("Go", 0) }},
		{"debts end with the period", func(b *both) {
			midnight := b.daily()
			var theirs int
			b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 40}}, &theirs)
			b.py.do("settle", args{"lease": theirs, "adjust": args{"rpd": 100}}, nil)
			b.isRefused(1, -40, midnight)
			lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 0}))
			b.must(err)
			b.must(lease.Adjust("rpd", 20))
			b.must(lease.Commit(b.Context()))
			b.isRefused(1, -60, midnight)
			b.at(midnight)
			ours, theirsNow := b.sides("Go")
			b.takes(ours, 60)
			b.takes(theirsNow, 40)
			b.isRefused(1, 0, midnight.AddDate(0, 0, 1))
		}},
	},
)

// cross are cases for each pair of libraries, in the order of two roles: one makes the
// bucket, the other is the first after an edge.
func cross(name string, f func(b *both, maker, renewer string)) (cases []interopCase) {
	for _, maker := range []string{"Python", "Go"} {
		for _, renewer := range []string{"Python", "Go"} {
			cases = append(cases, interopCase{
				fmt.Sprintf("%s, made by %s and renewed by %s", name, maker, renewer),
				func(b *both) { f(b, maker, renewer) },
			})
		}
	}
	return cases
}
