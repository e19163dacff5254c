//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// varying is a limit that earns a token in ten days or slower, and follows a schedule; none
// if there are no words.
func (b *both) varying(name string, tokens int64, words, zone string) limiter.Limit {
	b.Helper()
	l := perDay(name, tokens)
	if words == "" {
		return l
	}
	var err error
	l.Varies, err = limiter.ParseSchedule(words, zone)
	b.must(err)
	return l
}

// entriesOf are the entries of a schedule in the peer's form.
func entriesOf(s *limiter.Schedule) (entries []args) {
	for _, c := range s.Changes() {
		entry := args{"cron": c.Cron, "tz": s.Zone()}
		if c.Permille != 0 {
			entry["scale"] = float64(c.Permille) / 1000
		}
		for field, v := range map[string]int64{"capacity": c.Capacity, "refill_amount": c.Amount, "refill_period_seconds": c.Seconds} {
			if v != 0 {
				entry[field] = v
			}
		}
		entries = append(entries, entry)
	}
	return entries
}

// afternoon gives the system 100 tokens of rpd, half of them from 13:00 on and 30 from 17:00
// to 18:00, and sets the clocks to noon.
func (b *both) afternoon() time.Time {
	b.Helper()
	now, _ := noon()
	b.system(b.varying("rpd", 100, "* 13-16 * * * x0.5; * 17 * * * capacity=30", "UTC"), limiter.PerMinute("rpm", 6000))
	b.at(now)
	return now
}

// refuses checks that each library refuses an amount of rpd.
func (b *both) refuses(rpd int, sides ...side) {
	b.Helper()
	for _, s := range sides {
		if !s.take(rpd) {
			b.Errorf("%s admits %d", s.name, rpd)
		}
	}
}

// isValidUntil checks vu.
func (b *both) isValidUntil(want time.Time) {
	b.Helper()
	if vu := b.number(0, schema.ValidUntil); vu != want.UnixMilli() {
		b.Errorf("vu is %v, want %v", time.UnixMilli(vu).UTC(), want)
	}
}

// follow checks that both libraries follow a schedule: one makes the bucket, and one is the
// first after each change.
func (b *both) follow(maker, first string) {
	b.Helper()
	noon := b.afternoon()
	makes, joins := b.sides(maker)
	b.takes(makes, 10)
	b.takes(joins, 10)
	b.balance("user", "gpt-4", "rpd", 80)
	b.isValidUntil(noon.Add(time.Hour))
	b.at(noon.Add(59 * time.Minute))
	b.takes(makes, 5)
	b.takes(joins, 5)

	// The stored balance is 70, which would cover 51: only vu makes it 50.
	b.at(noon.Add(time.Hour))
	passes, follows := b.sides(first)
	b.refuses(51, passes, follows)
	b.takes(passes, 10)
	b.refuses(41, follows, passes)
	b.takes(follows, 5)
	b.balance("user", "gpt-4", "rpd", 35)
	b.isValidUntil(noon.Add(5 * time.Hour))

	b.at(noon.Add(5 * time.Hour))
	b.refuses(31, passes, follows)
	b.takes(passes, 10)
	b.takes(follows, 10)
	b.balance("user", "gpt-4", "rpd", 10)
	b.isValidUntil(noon.Add(6 * time.Hour))

	// A higher capacity is not a gift.
	b.at(noon.Add(6 * time.Hour))
	b.refuses(11, passes, follows)
	b.takes(passes, 3)
	b.takes(follows, 3)
	b.balance("user", "gpt-4", "rpd", 4)
	b.isValidUntil(noon.Add(25 * time.Hour))
	b.rpdConsumed(71)
}

// scheduleOf is what an item says of schedules: its attributes of them, and vu.
func scheduleOf(item schema.Item) schema.Item {
	says := schema.Item{}
	for name, v := range item {
		if name == schema.SchedTZ || name == schema.Sched || name == schema.ValidUntil || strings.HasSuffix(name, "_"+schema.FieldSched) {
			says[name] = v
		}
	}
	return says
}

// sameItem checks that two items say the same of schedules.
func (b *both) sameItem(of string, theirs, ours schema.Item) {
	b.Helper()
	if diff := cmp.Diff(scheduleOf(theirs), scheduleOf(ours), cmpopts.IgnoreTypes(document.NoSerde{})); diff != "" || len(scheduleOf(ours)) == 0 {
		b.Errorf("%s (-Python +Go):\n%s", of, diff)
	}
}

// scheduledLimits have schedules of every kind.
func (b *both) scheduledLimits(n int64) []limiter.Limit {
	b.Helper()
	const zone = "Europe/Berlin"
	return []limiter.Limit{
		b.varying("hours", n, "* 9-17 * * mon-fri x0.5", zone),
		b.varying("odd", n, "*/15 8,20-22 1-7 jan,jul sun x0.333; 0-29 * 29 2 * x12.5", zone),
		perDay("plain", n),
		b.varying("set", n, "* 0-5 * * * capacity=5 amount=7 seconds=60; * 6 * * 1-5 amount=3; * 22-23 * * * seconds=3600", zone),
	}
}

// level reads the item of a level of configuration.
func (b *both) level(key limiter.ConfigKey) schema.Item {
	b.Helper()
	_, ns := b.store.Namespace()
	out, err := b.api.GetItem(b.Context(), &dynamodb.GetItemInput{TableName: &b.table, Key: schema.ConfigKey(ns, key).Item(), ConsistentRead: aws.Bool(true)})
	b.must(err)
	return out.Item
}

// encodedAlike checks that a level which either library sets is read alike by both, and has one item.
func (b *both) encodedAlike(l level, want []limiter.Limit) {
	b.Helper()
	with := args{"limits": asPython(want...)}
	maps.Copy(with, l.where)
	b.py.call(l.set, with, nil)
	b.agree(l, want)
	theirs := b.level(l.key)
	if l.key == (limiter.ConfigKey{}) {
		b.must(b.store.SetSystem(b.Context(), want, ""))
	} else {
		b.must(b.store.SetLimits(b.Context(), l.key, want))
	}
	b.agree(l, want)
	b.sameItem("the item of "+l.key.String(), theirs, b.level(l.key))
}

var scheduleConfigCases = []interopCase{
	{"schedules of every level, encoded alike", func(b *both) {
		for i, l := range interopLevels {
			want := b.scheduledLimits(int64(100 + i))
			b.encodedAlike(l, want)
		}
	}},
	{"a schedule set by the program", func(b *both) {
		if _, code := b.run("resource", "set-defaults", "gpt-4", "--limit", "rpm:60/min; * 9-16 * * mon-fri x0.5; * 22-23 * * * capacity=600@Europe/Berlin"); code != 0 {
			b.Fatalf("exit code %d", code)
		}
		want := limiter.PerMinute("rpm", 60)
		var err error
		want.Varies, err = limiter.ParseSchedule("* 9-16 * * mon-fri x0.5; * 22-23 * * * capacity=600", "Europe/Berlin")
		b.must(err)
		b.agree(interopLevels[1], []limiter.Limit{want})
	}},
	{"a manifest of schedules is the same to both", func(b *both) {
		namespace, _ := b.store.Namespace()
		text := `{"namespace": "` + namespace + `", "resources": {"gpt-4": {"limits": {
			"rpm": {"capacity": 60, "schedule": [{"cron": "* 9-16 * * MON-FRI", "tz": "Asia/Tokyo", "scale": 0.5}, {"cron": "* 22 * * *", "tz": "Asia/Tokyo", "capacity": 600, "refill_amount": 10}]},
			"rps": {"capacity": 5, "refill_period": 1}}}}}`
		rpm := limiter.PerMinute("rpm", 60)
		var err error
		rpm.Varies, err = limiter.ParseSchedule("* 9-16 * * 1-5 x0.5; * 22 * * * capacity=600 amount=10", "Asia/Tokyo")
		b.must(err)
		want := []limiter.Limit{rpm, limiter.PerSecond("rps", 5)}
		b.actions("Python", b.provision("apply", text), "create resource")
		b.actions("we", b.plan(text), "unchanged resource")
		b.agree(interopLevels[1], want)
		b.must(b.store.DeleteLimits(b.Context(), interopLevels[1].key))
		b.apply(text)
		b.agree(interopLevels[1], want)
	}},
	{"buckets that say the same", func(b *both) {
		b.system(b.scheduledLimits(100)...)
		for _, at := range []time.Time{
			time.Date(2030, time.March, 29, 22, 30, 0, 0, time.UTC), // the night before a weekend
			time.Date(2030, time.March, 31, 0, 30, 0, 0, time.UTC),  // before the hour from 2 to 3 is left out
			time.Date(2030, time.July, 7, 18, 10, 0, 0, time.UTC),
			time.Date(2030, time.October, 26, 23, 50, 0, 0, time.UTC), // before the hour from 2 to 3 comes twice
		} {
			b.at(at)
			entity := at.Format("0102T1504")
			b.py.take(entity+"-py", "gpt-4", args{"hours": 1, "set": 1})
			b.take(entity+"-go", "gpt-4", args{"hours": 1, "set": 1})
			theirs, ours := b.item(entity+"-py", "gpt-4"), b.item(entity+"-go", "gpt-4")
			one, err := schema.DecodeBucket(theirs)
			b.must(err)
			other, err := schema.DecodeBucket(ours)
			b.must(err)
			for i := range one.Limits {
				one.Limits[i].Consumed, other.Limits[i].Consumed = 0, 0
			}
			if diff := cmp.Diff(one.Limits, other.Limits, cmp.Comparer(func(a, b *limiter.Schedule) bool { return a == b })); diff != "" || one.ValidUntil != other.ValidUntil {
				b.Errorf("at %v, valid until %v and %v (-Python +Go):\n%s", at, time.UnixMilli(one.ValidUntil).UTC(), time.UnixMilli(other.ValidUntil).UTC(), diff)
			}
			expanded := maps.Clone(theirs) // Python makes one schedule the default; ours has none
			delete(expanded, schema.Sched)
			delete(expanded, schema.LimitAttr("plain", schema.FieldSched))
			for _, name := range []string{"hours", "odd", "set"} {
				if attr := schema.LimitAttr(name, schema.FieldSched); expanded[attr] == nil {
					expanded[attr] = theirs[schema.Sched]
				}
			}
			b.sameItem("a bucket", expanded, ours)
		}
	}},
}

var scheduleCases = slices.Concat(
	cross("a shared schedule", (*both).follow),
	cross("shards under a schedule", (*both).sharded),
	[]interopCase{
		{"credits over a change, which Python passes", func(b *both) { b.returned("Python") }},
		{"credits over a change, which Go passes", func(b *both) { b.returned("Go") }},
		{"credits over a change that nobody has passed", func(b *both) { b.returned("") }},
		{"waits over a change", (*both).waits},
		{"a reset and a top-up by Go", func(b *both) {
			b.granted(func() { b.resets("", "rpd") }, func() { b.topsUp("", map[string]int64{"rpd": 500}) })
		}},
		{"a reset and a top-up by Python", func(b *both) {
			b.granted(func() { b.operates("reset_bucket", nil) }, func() { b.operates("top_up", args{"amounts": args{"rpd": 500}}) })
		}},
		{"a change that nobody met: Go cuts the balance", func(b *both) {
			noon := b.afternoon()
			ours, theirs := b.sides("Go")
			b.takes(ours, 10)
			b.at(noon.Add(7 * time.Hour))
			b.refuses(31, ours)
			b.takes(ours, 10)
			b.takes(theirs, 10)
			b.balance("user", "gpt-4", "rpd", 10)
		}},
		{"a change that nobody met: Python does not", func(b *both) {
			noon := b.afternoon()
			ours, theirs := b.sides("Go")
			b.takes(ours, 10)
			b.at(noon.Add(7 * time.Hour))
			if theirs.take(31) {
				b.Error("Python cuts a balance to what held in between: say so in docs/python.md")
			}
		}},
		{"Python earns by the rate in force, since the last write", func(b *both) {
			now, _ := noon()
			limit := b.varying("rpd", 100, "* 13 * * * amount=100 seconds=3600", "UTC")
			b.system(limit, limiter.PerMinute("rpm", 6000))
			b.at(now)
			ours, theirs := b.sides("Go")
			b.takes(ours, 100)
			b.at(now.Add(time.Hour))
			b.refuses(50, ours)
			if theirs.take(50) {
				b.Error("Python earns by the rate of each time: say so in docs/python.md")
			}
		}},
	},
)

// sharded checks that shards divide what a schedule makes of a limit.
func (b *both) sharded(maker, doubler string) {
	b.Helper()
	noon := b.afternoon()
	makes, _ := b.sides(maker)
	b.takes(makes, 20)
	if doubler == "Go" {
		b.double("user", "gpt-4", 2)
		b.isHeld(80)
	} else {
		b.widens(1) // gives the new shard its part again
	}
	b.at(noon.Add(time.Hour))
	ours, theirs := b.sides("Go")
	b.refuses(51, ours)
	b.takes(ours, 30)
	b.refuses(26, theirs)
	if got := b.drain("gpt-4"); got != 20 {
		b.Errorf("%d more are admitted of 20", got)
	}
	b.refuses(1, ours, theirs)
}

// returned checks that leases over a change return up to the capacity in force.
func (b *both) returned(first string) {
	b.Helper()
	noon := b.afternoon()
	theirs, lease := b.holds(40, 40)
	b.balance("user", "gpt-4", "rpd", 20)
	b.at(noon.Add(time.Hour))
	if first != "" {
		passes, _ := b.sides(first)
		b.takes(passes, 0)
	}
	b.must(lease.Rollback(b.Context()))
	b.balance("user", "gpt-4", "rpd", 50)
	b.py.do("settle", args{"lease": theirs, "rollback": true}, nil)
	one, other := b.sides("Go")
	b.refuses(51, one, other)
	b.takes(one, 10)
	b.balance("user", "gpt-4", "rpd", 40)
	b.takes(other, 10)
	b.balance("user", "gpt-4", "rpd", 30)
}

// waits checks that both libraries wait over a change: at 12:59:50 nothing is left of 6,000 a
// minute, and from 13:00 on it is half of that. 3,000 take 10 seconds at the higher rate and
// 40 at the lower one.
func (b *both) waits() {
	b.Helper()
	now, _ := noon()
	limit := limiter.PerMinute("rpm", 6000)
	var err error
	limit.Varies, err = limiter.ParseSchedule("* 13 * * * x0.5", "UTC")
	b.must(err)
	b.system(limit)
	b.at(now.Add(59*time.Minute + 50*time.Second))
	b.take("user", "gpt-4", args{"rpm": 6000})
	const least, most = 40 * time.Second, 52 * time.Second // it takes some time to ask
	if refused := b.take("user", "gpt-4", args{"rpm": 3000}); refused == nil || refused.RetryAfter() < least || refused.RetryAfter() > most {
		b.Errorf("Go says %v", refused)
	}
	err = b.py.try("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpm": 3000}}, nil)
	var body struct {
		Limits []struct {
			Wait float64 `json:"retry_after_seconds"`
		}
	}
	if thrown := (*pythonError)(nil); errors.As(err, &thrown) && thrown.Details != nil {
		b.must(json.Unmarshal(thrown.Details, &body))
	}
	if len(body.Limits) != 1 || body.Limits[0].Wait < least.Seconds() || body.Limits[0].Wait > most.Seconds() {
		b.Errorf("Python says %v: %+v", err, body)
	}
}

// granted checks that a reset and a top-up fill a limit as its schedule says.
func (b *both) granted(reset, topUp func()) {
	b.Helper()
	noon := b.afternoon()
	ours, theirs := b.sides("Go")
	b.takes(ours, 60)
	b.at(noon.Add(time.Hour))
	b.takes(theirs, 30)
	reset()
	b.balance("user", "gpt-4", "rpd", 50)
	b.takes(ours, 20)
	b.takes(theirs, 20)
	topUp()
	b.balance("user", "gpt-4", "rpd", 50)
	b.takes(theirs, 25)
	b.takes(ours, 25)
	b.refuses(1, ours, theirs)
	b.at(noon.Add(6 * time.Hour))
	reset()
	b.balance("user", "gpt-4", "rpd", 100)
	b.takes(ours, 50)
	b.takes(theirs, 50)
}

// scheduleEditCases are edits of the schedule of a limit of 100 tokens by one library, on a
// bucket that the other one made at 13:10, when 50 are in force unless there is no schedule.
// Each library has taken 10.
var scheduleEditCases = func() (cases []interopCase) {
	const half = "* 13-16 * * * x0.5"
	for _, edit := range []struct {
		name, from, to string
		left           int64 // at 13:10
		until          int   // the hour of the next change, 0 if none
	}{
		{"to less", half, "* 13-16 * * * x0.2", 20, 17},
		{"to more", half, "* 13-16 * * * x0.8", 30, 17},
		{"to none", half, "", 30, 0},
		{"to a later time", half, "* 15 * * * x0.1", 30, 15},
		{"of a limit that had none", "", half, 50, 17},
	} {
		for _, editor := range []string{"Python", "Go"} {
			for _, first := range []string{"Python", "Go"} {
				maker := map[string]string{"Python": "Go", "Go": "Python"}[editor]
				cases = append(cases, interopCase{
					editor + " edits a schedule of " + maker + "'s bucket " + edit.name + ", and " + first + " is first", func(b *both) {
						b.rescheduled(editor, maker, first, edit.from, edit.to, edit.left, edit.until)
					},
				})
			}
		}
	}
	return cases
}()

func (b *both) rescheduled(editor, maker, first, from, to string, left int64, until int) {
	b.Helper()
	now, _ := noon()
	rpm := limiter.PerMinute("rpm", 6000)
	key := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}
	if editor == "Go" {
		b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(b.varying("rpd", 100, from, "UTC"), rpm)}, nil)
	} else {
		b.must(b.store.SetLimits(b.Context(), key, []limiter.Limit{b.varying("rpd", 100, from, "UTC"), rpm}))
	}
	b.at(now.Add(70 * time.Minute))
	makes, joins := b.sides(maker)
	b.takes(makes, 10)
	b.takes(joins, 10)
	if editor == "Go" {
		b.must(b.store.SetLimits(b.Context(), key, []limiter.Limit{b.varying("rpd", 100, to, "UTC"), rpm}))
		b.fresh()
	} else {
		b.edits(b.varying("rpd", 100, to, "UTC"), rpm)
	}
	one, other := b.sides(first)
	b.refuses(int(left)+1, one, other)
	b.takes(one, 5)
	b.takes(other, 5)
	b.refuses(int(left)-9, other, one)
	b.balance("user", "gpt-4", "rpd", left-10)
	if item := b.item("user", "gpt-4"); until == 0 {
		if item[schema.ValidUntil] != nil {
			b.Errorf("vu is %d", b.number(0, schema.ValidUntil))
		}
	} else if at, early := now.Truncate(24*time.Hour).Add(time.Duration(until)*time.Hour), time.Second; b.number(0, schema.ValidUntil) > at.UnixMilli() ||
		b.number(0, schema.ValidUntil) < at.Add(-early).UnixMilli() {
		b.Errorf("vu is %v, want %v or a little earlier", time.UnixMilli(b.number(0, schema.ValidUntil)).UTC(), at)
	}

	b.at(now.Add(3 * time.Hour))
	if to == "* 15 * * * x0.1" {
		left = 20 // it was cut to 10
	}
	b.refuses(int(left)-9, one, other)
	b.takes(one, 5)
	b.balance("user", "gpt-4", "rpd", left-15)
	b.at(now.Add(6 * time.Hour))
	b.refuses(int(left)-14, other, one)
	b.takes(other, 5)
	b.balance("user", "gpt-4", "rpd", left-20)
}
