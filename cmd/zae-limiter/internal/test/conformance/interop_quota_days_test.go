//go:build conformance

package conformance_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A day is one on which the peer does not renew where we do, or renews twice.
type day struct {
	words, zone string
	// from is before the day, and edge when we renew.
	from, edge time.Time
	// twice is when the peer renews again; zero if it does not renew at edge at all.
	twice time.Time
}

var (
	// skipped is a day of Cairo without midnight: it begins at 01:00.
	skipped = day{
		words: "day", zone: "Africa/Cairo",
		from: time.Date(2028, time.April, 27, 9, 0, 0, 0, time.UTC), edge: time.Date(2028, time.April, 27, 22, 0, 0, 0, time.UTC),
	}
	// repeated is a day of Havana with two midnights.
	repeated = day{
		words: "day", zone: "America/Havana",
		from: time.Date(2028, time.November, 4, 16, 0, 0, 0, time.UTC), edge: time.Date(2028, time.November, 5, 4, 0, 0, 0, time.UTC),
		twice: time.Date(2028, time.November, 5, 5, 0, 0, 0, time.UTC),
	}
	// short is the end of a month that the pattern leaves out: the peer looks for edges of 31 days.
	short = day{
		words: "0 0 31 * *", zone: "UTC",
		from: time.Date(2029, time.January, 20, 12, 0, 0, 0, time.UTC), edge: time.Date(2029, time.January, 31, 0, 0, 0, 0, time.UTC),
	}
)

// begins gives the system a quota of a day's calendar, and lets both libraries take 60 of 100
// before the edge.
func (b *both) begins(d day) (ours, theirs side) {
	b.Helper()
	b.system(b.quota("rpd", 100, d.words, d.zone))
	b.at(d.from)
	ours = side{"Go", func(n int) bool { b.Helper(); return b.take("user", "gpt-4", args{"rpd": n}) != nil }}
	theirs = side{"Python", func(n int) bool { b.Helper(); return b.py.take("user", "gpt-4", args{"rpd": n}) }}
	b.takes(theirs, 30)
	b.takes(ours, 30)
	return ours, theirs
}

// isOver checks that nothing is left of a period.
func (b *both) isOver(sides ...side) {
	b.Helper()
	for _, s := range sides {
		if !s.take(1) {
			b.Errorf("%s admits more than 100 in a period", s.name)
		}
	}
}

var quotaDayCases = []interopCase{
	{"a day without midnight: Python alone does not renew", func(b *both) {
		_, theirs := b.begins(skipped)
		b.at(skipped.edge.Add(time.Hour))
		if !theirs.take(50) {
			b.Error("Python renews on a day without midnight: say so in docs/python.md")
		}
	}},
	{"a day without midnight: Go renews, and Python goes on", func(b *both) {
		ours, theirs := b.begins(skipped)
		b.at(skipped.edge.Add(-time.Minute))
		if !ours.take(50) {
			b.Error("Go renewed a minute early")
		}
		b.at(skipped.edge)
		b.takes(ours, 50)
		b.takes(theirs, 50)
		b.isOver(ours, theirs)
		b.rpdConsumed(160)
	}},
	{"a day without midnight: what Python takes before Go is of the old period", func(b *both) {
		ours, theirs := b.begins(skipped)
		b.at(skipped.edge)
		b.takes(theirs, 40)
		b.takes(ours, 100)
		b.isOver(ours, theirs)
	}},
	{"a day without midnight: Go renews although Python's vu is later", func(b *both) {
		ours, theirs := b.begins(skipped)
		b.at(skipped.edge)
		if vu := b.number(0, schema.ValidUntil); vu <= skipped.edge.UnixMilli() {
			b.Errorf("Python's vu is %d", vu)
		}
		b.takes(ours, 10)
		b.takes(theirs, 40)
		b.takes(ours, 50)
		b.isOver(ours, theirs)
	}},
	{"a day with two midnights: Go renews once", func(b *both) {
		ours, _ := b.begins(repeated)
		b.at(repeated.edge)
		b.takes(ours, 100)
		b.at(repeated.twice)
		b.isOver(ours)
	}},
	{"a day with two midnights: Python alone renews twice", func(b *both) {
		_, theirs := b.begins(repeated)
		b.at(repeated.edge)
		b.takes(theirs, 100)
		b.at(repeated.twice)
		if theirs.take(100) {
			b.Error("Python no longer renews twice: say so in docs/python.md")
		}
	}},
	{"a day with two midnights: Python does not renew what Go renewed", func(b *both) {
		ours, theirs := b.begins(repeated)
		b.at(repeated.edge)
		b.takes(ours, 50)
		b.at(repeated.twice)
		b.takes(theirs, 50)
		b.isOver(ours, theirs)
	}},
	{"a day with two midnights: after Go's first write, Python does not renew", func(b *both) {
		ours, theirs := b.begins(repeated)
		b.at(repeated.edge)
		b.takes(theirs, 50)
		b.at(repeated.twice)
		b.takes(ours, 10)
		b.takes(theirs, 40)
		b.isOver(ours, theirs)
	}},
	{"a month without its day: Go renews once, however long nobody came", func(b *both) {
		ours, theirs := b.begins(short)
		b.at(time.Date(2029, time.March, 15, 0, 0, 0, 0, time.UTC)) // 43 days after the edge
		b.takes(ours, 60)
		b.takes(theirs, 40)
		b.isOver(ours, theirs)
	}},
	{"a month without its day: Python alone loses the edge", func(b *both) {
		_, theirs := b.begins(short)
		b.at(time.Date(2029, time.March, 15, 0, 0, 0, 0, time.UTC))
		if !theirs.take(60) {
			b.Error("Python finds an edge of 43 days ago: say so in docs/python.md")
		}
	}},
}
