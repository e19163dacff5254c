//go:build conformance

package conformance_test

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// variedQuota is a quota that follows a schedule.
func (b *both) variedQuota(name string, tokens int64, renews, words, zone string) limiter.Limit {
	b.Helper()
	in := zone
	if renews == "session 5h" {
		in = ""
	}
	l := b.quota(name, tokens, renews, in)
	var err error
	l.Varies, err = limiter.ParseSchedule(words, zone)
	b.must(err)
	return l
}

// halfDay gives the system a quota of 100 tokens a day, rpd, of which 50 are in force from 13:00 to
// 17:00, and sets the clocks to noon.
func (b *both) halfDay() (noonAt, midnight time.Time) {
	b.Helper()
	noonAt, midnight = noon()
	b.system(b.variedQuota("rpd", 100, "day", "* 13-16 * * * x0.5", "UTC"), limiter.PerMinute("rpm", 6000))
	b.at(noonAt)
	return noonAt, midnight
}

// admits checks what both sides are admitted: all of it, and no token more.
func (b *both) admits(left int, sides ...side) {
	b.Helper()
	b.refuses(left+1, sides...)
	b.balance("user", "gpt-4", "rpd", int64(left))
}

var variedConfigCases = []interopCase{
	{"quotas with schedules of every level, encoded alike", func(b *both) {
		for i, l := range interopLevels {
			n := int64(100 + i)
			want := []limiter.Limit{
				b.variedQuota("chat", n, "session 5h", "* 9-17 * * mon-fri x0.5", "Europe/Berlin"),
				perDay("plain", n),
				b.variedQuota("rpd", n, "day", "* * * * sat,sun x0.2; * 6 * * 1-5 capacity=7", "Europe/Berlin"),
			}
			b.encodedAlike(l, want)
		}
	}},
	{"a quota with a schedule set by the program, and in a file", func(b *both) {
		want := []limiter.Limit{b.variedQuota("rpd", 60, "day", "* * * * sat,sun x0.5", "Europe/Berlin")}
		if _, code := b.run("resource", "set-defaults", "gpt-4", "--limit", "rpd:60@day@Europe/Berlin; * * * * sat,sun x0.5"); code != 0 {
			b.Fatalf("exit code %d", code)
		}
		b.agree(interopLevels[1], want)
		b.must(b.store.DeleteLimits(b.Context(), interopLevels[1].key))
		namespace, _ := b.store.Namespace()
		b.apply(`{"namespace": "` + namespace + `", "resources": {"gpt-4": {"limits": {"rpd": {"capacity": 60,
			"reset_schedule": [{"cron": "0 0 * * *", "tz": "Europe/Berlin"}], "schedule": [{"cron": "* * * * sat,sun", "tz": "Europe/Berlin", "scale": 0.5}]}}}}}`)
		b.agree(interopLevels[1], want)
	}},
}

var variedCases = slices.Concat(
	cross("a bucket that one makes and the other joins", (*both).halves),
	[]interopCase{
		{"Go passes the changes of its period: the difference", func(b *both) {
			noonAt, midnight := b.halfDay()
			ours, theirs := b.sides("Go")
			b.takes(ours, 20)
			b.at(noonAt.Add(time.Hour))
			b.refuses(31, ours) // of 50 in force, 20 are consumed
			b.takes(ours, 10)
			b.admits(20, ours, theirs)
			b.at(noonAt.Add(5 * time.Hour))
			b.refuses(71, ours)
			b.takes(ours, 10)
			b.admits(60, ours, theirs)
			b.takes(theirs, 60)
			b.admits(0, ours, theirs)
			b.rpdConsumed(100)
			b.at(midnight)
			b.takes(ours, 10)
			b.admits(90, ours, theirs)
		}},
		{"Python passes a change: it cuts, and nobody gives back", func(b *both) {
			noonAt, midnight := b.halfDay()
			ours, theirs := b.sides("Go")
			b.takes(ours, 30)
			b.at(noonAt.Add(time.Hour))
			b.takes(theirs, 10) // of 70, it leaves 50
			b.admits(40, theirs, ours)
			b.takes(ours, 10)
			b.at(noonAt.Add(5 * time.Hour))
			b.refuses(31, ours, theirs)
			b.takes(ours, 10)
			b.takes(theirs, 20)
			b.admits(0, ours, theirs)
			b.rpdConsumed(80)
			b.at(midnight.Add(13 * time.Hour))
			b.takes(ours, 10) // of the next period, which begins with what is in force
			b.admits(40, ours, theirs)
			b.at(midnight.Add(17 * time.Hour))
			b.takes(ours, 10)
			b.admits(80, ours, theirs)
		}},
		{"a day after another on which both pass changes: never more than is in force at the begin", func(b *both) {
			_, midnight := b.halfDay()
			for day := range 3 {
				one, other := b.sides([]string{"Go", "Python", "Go"}[day])
				begin := midnight.Add(time.Duration(day) * 24 * time.Hour)
				var taken int
				for i, hour := range []int{1, 13, 17} {
					b.at(begin.Add(time.Duration(hour) * time.Hour))
					s := one
					if i == 1 {
						s = other
					}
					for !s.take(10) {
						if taken += 10; taken == 30 && hour == 1 {
							break
						}
					}
				}
				if taken > 100 {
					b.Errorf("%d tokens were admitted on day %d", taken, day)
				}
			}
		}},
		{"a quota with a rate at times, which Python accepts: the safe answer", func(b *both) {
			strange := asPython(b.variedQuota("rpd", 100, "day", "* 13-16 * * * x0.5", "UTC"))
			strange[0]["schedule"] = []args{{"cron": "* 13-16 * * *", "tz": "UTC", "refill_amount": 5}}
			b.py.call("set_system_defaults", args{"limits": strange}, nil)
			c, err := b.store.Limits(b.Context(), limiter.ConfigKey{})
			if b.must(err); c.IsEvaluable() {
				b.Errorf("it is %+v", c)
			}
		}},
	},
)

// halves checks that both read what is in force of a bucket that one of them has made, and that
// the item says what the other would say.
func (b *both) halves(maker, first string) {
	b.Helper()
	noonAt, _ := b.halfDay()
	makes, joins := b.sides(maker)
	b.takes(makes, 10)
	b.takes(joins, 20)
	b.admits(70, makes, joins)
	b.isValidUntil(noonAt.Add(time.Hour))
	b.at(noonAt.Add(2 * time.Hour))
	passes, follows := b.sides(first)
	left := 20 // Go takes the difference, also of what Python has begun in one piece
	if first == "Python" || maker == "Python" {
		left = 50 // out of step, it is cut
	}
	b.refuses(left+1, passes)
	b.takes(passes, 5)
	b.admits(left-5, passes, follows)
	b.isValidUntil(noonAt.Add(5 * time.Hour))
	item := b.item("user", "gpt-4")
	if item[schema.LimitAttr("rpd", schema.FieldRSched)] == nil && item[schema.RSched] == nil {
		b.Error("the item does not say when the quota renews")
	}
}
