//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A pair is a library that takes rpd of gpt-4 and of images in one request.
type pair struct {
	name string
	// holds acquires; end settles what it holds, or rolls it back.
	holds func(gpt4, images int) (end func(rollback bool), err error)
}

// pairs are both libraries, the given one first.
func (b *both) pairs(first string) []pair {
	b.Helper()
	ours := pair{"Go", func(gpt4, images int) (func(bool), error) {
		b.Helper()
		r := request("user", "gpt-4", args{"rpd": gpt4})
		r.Also = []limiter.Part{{Resource: "images", Consume: map[string]int64{"rpd": int64(images)}}}
		lease, err := b.Acquire(b.Context(), r)
		return func(rollback bool) {
			b.Helper()
			if rollback {
				b.must(lease.Rollback(b.Context()))
			} else {
				b.must(lease.Commit(b.Context()))
			}
		}, err
	}}
	theirs := pair{"Python", func(gpt4, images int) (func(bool), error) {
		b.Helper()
		var lease int
		err := b.py.try("acquire", args{
			"entity": "user", "resource": "gpt-4", "consume": args{"rpd": gpt4}, "also": args{"images": args{"rpd": images}},
		}, &lease)
		return func(rollback bool) { b.Helper(); b.py.do("settle", args{"lease": lease, "rollback": rollback}, nil) }, err
	}}
	if first == ours.name {
		return []pair{ours, theirs}
	}
	return []pair{theirs, ours}
}

// takesBoth checks that a request of both resources is admitted.
func (b *both) takesBoth(p pair, gpt4, images int) {
	b.Helper()
	end, err := p.holds(gpt4, images)
	if err != nil {
		b.Errorf("%s was refused %d and %d: %v", p.name, gpt4, images, err)
		return
	}
	end(false)
}

// refusesBoth checks that a request of both resources is refused, and which resources the
// refusal names as exceeded.
func (b *both) refusesBoth(p pair, gpt4, images int, exceeded ...string) {
	b.Helper()
	_, err := p.holds(gpt4, images)
	var named []string
	if ours := (*limiter.ExceededError)(nil); errors.As(err, &ours) {
		for _, s := range ours.Statuses {
			if s.Exceeded {
				named = append(named, s.Entity+" "+s.Resource)
			}
		}
	}
	if theirs := (*pythonError)(nil); errors.As(err, &theirs) && theirs.Class == "RateLimitExceeded" {
		var body struct {
			Limits []struct {
				Entity   string `json:"entity_id"`
				Resource string
				Exceeded bool
			}
		}
		b.must(json.Unmarshal(theirs.Details, &body))
		for _, l := range body.Limits {
			if l.Exceeded {
				named = append(named, l.Entity+" "+l.Resource)
			}
		}
	}
	slices.Sort(named)
	if diff := cmp.Diff(exceeded, named); diff != "" {
		b.Errorf("%s's refusal of %d and %d, %v, names (-want +got):\n%s", p.name, gpt4, images, err, diff)
	}
}

// left checks what both resources have, of the user and of its parent.
func (b *both) left(gpt4, images int64) {
	b.Helper()
	for resource, want := range map[string]int64{"gpt-4": gpt4, "images": images} {
		b.balance("user", resource, "rpd", want)
		b.balance("project", resource, "rpd", 400+want)
	}
}

// together gives the user 100 tokens of each resource and its parent, to which it cascades, 500.
func (b *both) together(byPython bool) {
	b.Helper()
	b.project(byPython)
	b.system(perDay("rpd", 100))
	for _, resource := range []string{"gpt-4", "images"} {
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "project", Resource: resource}, []limiter.Limit{perDay("rpd", 500)}))
	}
}

// sharesParts checks that two libraries share the buckets of requests of several resources: all or
// none is taken, from the entity and its parent.
func (b *both) sharesParts(maker, joiner string) {
	b.Helper()
	b.together(maker == "Python")
	one, other := b.pairs(maker)[0], b.pairs(joiner)[0]
	b.takesBoth(one, 30, 50)
	b.takesBoth(other, 20, 40)
	b.left(50, 10)
	for _, p := range []pair{other, one} {
		b.refusesBoth(p, 10, 11, "user images")
		b.refusesBoth(p, 51, 10, "user gpt-4")
		b.left(50, 10)
	}
	b.takesBoth(other, 0, 10)
	b.takesBoth(one, 50, 0)
	b.left(0, 0)
}

// returnsParts checks that what each library holds of several resources returns, beside the other.
func (b *both) returnsParts(first, _ string) {
	b.Helper()
	b.together(first == "Python")
	var ends []func(bool)
	for _, p := range b.pairs(first) {
		end, err := p.holds(30, 40)
		b.must(err)
		ends = append(ends, end)
	}
	b.left(40, 20)
	ends[0](true)
	b.left(70, 60)
	ends[1](true)
	b.left(100, 100)
}

// partCases test requests of several resources.
var partCases = slices.Concat(
	cross("a request of two resources", (*both).sharesParts),
	[]interopCase{
		{"leases of two resources rolled back, Python's first", func(b *both) { b.returnsParts("Python", "Go") }},
		{"leases of two resources rolled back, Go's first", func(b *both) { b.returnsParts("Go", "Python") }},
		{"a resource that is disabled takes the others along", func(b *both) {
			b.together(true)
			for _, p := range b.pairs("Go") {
				b.takesBoth(p, 10, 10)
			}
			b.py.call("disable_resource", args{"resource": "images"}, nil)
			b.InvalidateConfig()
			for _, p := range b.pairs("Python") {
				_, err := p.holds(10, 10)
				if thrown := (*pythonError)(nil); !errors.Is(err, limiter.ErrDisabled) && (!errors.As(err, &thrown) || thrown.Class != "ResourceDisabled") {
					b.Errorf("%s: %v", p.name, err)
				}
			}
			b.balance("user", "gpt-4", "rpd", 80)
			b.balance("project", "gpt-4", "rpd", 480)
			b.switched(limiter.ConfigKey{Resource: "images"}, dynamo.Switch{})
			for _, p := range b.pairs("Python") {
				b.takesBoth(p, 5, 5)
			}
			b.left(70, 70)
		}},
		{"two resources over the end of a period", func(b *both) {
			now, midnight := noon()
			b.system(b.quota("rpd", 100, "day", "UTC"))
			b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "images"}, []limiter.Limit{perDay("rpd", 100)}))
			b.at(now)
			b.takesBoth(b.pairs("Python")[0], 60, 20)
			b.takesBoth(b.pairs("Go")[0], 40, 20)
			for _, p := range b.pairs("Go") {
				b.refusesBoth(p, 1, 1, "user gpt-4")
			}
			b.at(midnight)
			b.takesBoth(b.pairs("Go")[0], 50, 30)
			b.takesBoth(b.pairs("Python")[0], 50, 30)
			for _, p := range b.pairs("Python") {
				b.refusesBoth(p, 1, 1, "user gpt-4", "user images")
			}
		}},
	},
)

// statementCases test what both say of all shards of a bucket, and of all buckets of a resource.
var statementCases = []interopCase{
	{"what is available of a quota on Go's shards", func(b *both) {
		midnight := b.daily()
		ours, theirs := b.sides("Go")
		b.takes(ours, 20)
		b.double("user", "gpt-4", 4)
		b.takes(theirs, 5)
		b.saysAvailable(75, 75, 75, time.Time{})
		b.saysAvailable(76, 75, 75, midnight)
		b.at(midnight)
		b.saysAvailable(100, 100, 100, time.Time{})
	}},
	{"what is available of a quota on Python's shards", func(b *both) {
		midnight := b.daily()
		_, theirs := b.sides("Go")
		b.takes(theirs, 30)
		b.widens(1)
		b.saysAvailable(70, 70, 70, time.Time{})
		b.saysAvailable(71, 70, 70, midnight)
	}},
	{"what is available where shards have parts of a token", func(b *both) {
		midnight := b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 30)
		b.double("user", "gpt-4", 4) // 17.5 on each: Python rounds each down
		b.saysAvailable(68, 70, 68, time.Time{})
		b.saysAvailable(71, 70, 68, midnight)
	}},
	{"the capacity of a resource, entity by entity", func(b *both) {
		b.project(false)
		b.system(perDay("rpd", 100))
		b.take("user", "gpt-4", args{"rpd": 20})
		b.py.take("user", "gpt-4", args{"rpd": 10})
		b.py.take("single", "gpt-4", args{"rpd": 70})
		b.double("single", "gpt-4", 2)
		b.take("single", "images", args{"rpd": 1}) // of another resource
		project, single, user := standsAt{100, 70}, standsAt{100, 30}, standsAt{100, 70}
		all := map[string]standsAt{"project": project, "single": single, "user": user}
		// Python means entities that have a record, and we buckets that do not cascade.
		ours, theirs := map[string]standsAt{"project": project, "single": single}, map[string]standsAt{"project": project}
		b.saysCapacity(false, all, all)
		b.saysCapacity(true, ours, theirs)
	}},
}

// saysAvailable checks what both libraries say of an amount of rpd: how much is available, and
// until when to wait; a zero instant means not at all.
func (b *both) saysAvailable(rpd int, toUs, toPython int64, until time.Time) {
	b.Helper()
	statuses, err := b.Available(b.Context(), request("user", "gpt-4", args{"rpd": rpd}))
	b.must(err)
	ours := statuses[0]
	type status struct {
		Name      string `json:"limit_name"`
		Available int64
		Exceeded  bool
		Wait      float64 `json:"retry_after_seconds"`
	}
	var answer struct {
		At       int64 `json:"checked_at_ms"`
		Statuses []status
	}
	b.py.do("limit", args{"method": "check_availability", "entity_id": "user", "resource": "gpt-4", "needed": args{"rpd": rpd}}, &answer)
	theirs := answer.Statuses[slices.IndexFunc(answer.Statuses, func(s status) bool { return s.Name == "rpd" })]
	if ours.Available != toUs || ours.Exceeded != !until.IsZero() {
		b.Errorf("%d of %d: Go says %+v", rpd, toUs, ours)
	}
	if theirs.Available != toPython || theirs.Exceeded != !until.IsZero() {
		b.Errorf("%d of %d: Python says %+v", rpd, toPython, theirs)
	}
	if until.IsZero() {
		return
	}
	const exact = 2 * time.Millisecond // waits are rounded up, and Python adds a millisecond
	if got := ours.CheckedAt.Add(ours.RetryAfter); got.Sub(until).Abs() > exact {
		b.Errorf("Go waits until %v, want %v", got, until)
	}
	if got := time.UnixMilli(answer.At).Add(time.Duration(theirs.Wait * float64(time.Second))); got.Sub(until).Abs() > exact {
		b.Errorf("Python waits until %v, want %v", got.UTC(), until)
	}
}

// standsAt is the capacity of a bucket, and what is available of it.
type standsAt struct{ Capacity, Available int64 }

// saysCapacity checks what each library says of rpd of all buckets of gpt-4, or of those without a
// parent. Python reads attributes that the index of a table of ours does not have: see
// docs/python.md.
func (b *both) saysCapacity(withoutParent bool, toUs, toPython map[string]standsAt) {
	b.Helper()
	balances, err := b.Top(b.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 10, WithoutParent: withoutParent})
	b.must(err)
	ours := map[string]standsAt{}
	for _, one := range balances {
		ours[one.Entity] = standsAt{one.Limit.Capacity, one.Available}
	}
	if diff := cmp.Diff(toUs, ours); diff != "" {
		b.Errorf("Go says (-want +got):\n%s", diff)
	}
	var answer struct {
		Entities []struct {
			Entity string `json:"entity_id"`
			standsAt
		}
	}
	b.py.do("limit", args{"method": "get_resource_capacity", "resource": "gpt-4", "limit_name": "rpd", "parents_only": withoutParent}, &answer)
	theirs := map[string]standsAt{}
	for _, one := range answer.Entities {
		theirs[one.Entity] = one.standsAt
	}
	if b.table == b.py.tableMadeBy("go") {
		toPython = map[string]standsAt{}
	}
	if diff := cmp.Diff(toPython, theirs); diff != "" {
		b.Errorf("Python says (-want +got):\n%s", diff)
	}
}
