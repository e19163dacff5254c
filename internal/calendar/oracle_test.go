package calendar_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// An oracle is the rules of docs/calendar.md, word by word and slow: it looks at every minute. It shares nothing with
// the package, and has its zone and its calendar from package time.
type oracle struct {
	loc     *time.Location
	entries []naive
}

// naive is a pattern as sets that are looked up minute by minute.
type naive struct {
	minutes, hours, days, months, weekdays map[int]bool
	and, clamp, real                       bool
}

func newOracle(text, zone string) *oracle {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	o := &oracle{loc: loc}
	for entry := range strings.SplitSeq(text, ";") {
		f := strings.Fields(entry)
		o.entries = append(o.entries, naive{
			minutes: expand(f[0], 0, 59), hours: expand(f[1], 0, 23), days: expand(strings.TrimSuffix(f[2], "~"), 1, 31),
			months: expand(f[3], 1, 12), weekdays: expand(f[4], 0, 7),
			and:   f[2][0] == '*' || f[4][0] == '*',
			clamp: strings.HasSuffix(f[2], "~"),
			real:  strings.ContainsAny(f[1], "*/"),
		})
	}
	return o
}

// expand lists the values of a field.
func expand(field string, low, high int) map[int]bool {
	set := map[int]bool{}
	for item := range strings.SplitSeq(field, ",") {
		item, step, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(item, "-")
		first, last, every := low, high, 1
		if item != "*" {
			first, _ = strconv.Atoi(from)
			last = first
			if ranged {
				last, _ = strconv.Atoi(to)
			}
			if stepped && first == last {
				last = high
			}
		}
		if stepped {
			every, _ = strconv.Atoi(step)
		}
		for v := low; v <= high; v++ {
			if v >= first && v <= last && (v-first)%every == 0 {
				set[v] = true
			}
		}
	}
	return set
}

// matches reports whether a pattern matches what a wall reads. The location of the wall does not matter.
func (n *naive) matches(wall time.Time) bool {
	if !n.minutes[wall.Minute()] || !n.hours[wall.Hour()] || !n.months[int(wall.Month())] {
		return false
	}
	onDate := n.days[wall.Day()]
	if n.clamp && wall.AddDate(0, 0, 1).Day() == 1 {
		for d := wall.Day(); d <= 31; d++ {
			onDate = onDate || n.days[d]
		}
	}
	weekday := int(wall.Weekday())
	onWeekday := n.weekdays[weekday] || weekday == 0 && n.weekdays[7]
	if n.and {
		return onDate && onWeekday
	}
	return onDate || onWeekday
}

// wall is what the wall of the zone reads at an instant, as a time in UTC.
func (o *oracle) wall(ms int64) time.Time {
	_, offset := time.UnixMilli(ms).In(o.loc).Zone()
	return time.UnixMilli(ms + int64(offset)*1000).UTC()
}

// edges are all edges from one instant to another.
func (o *oracle) edges(from, to int64) []int64 {
	var all []int64
	for _, e := range o.entries {
		if e.real {
			all = append(all, o.realEdges(&e, from, to)...)
		} else {
			all = append(all, o.fixedEdges(&e, from, to)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// realEdges looks at each real minute. Offsets of whole minutes only.
func (o *oracle) realEdges(e *naive, from, to int64) (all []int64) {
	from -= from % minute
	before := e.matches(o.wall(from - minute))
	for t := from; t <= to; t += minute {
		now := e.matches(o.wall(t))
		if now && !before {
			all = append(all, t)
		}
		before = now
	}
	return all
}

// fixedEdges looks at each minute of a wall that is never changed, and at each real minute for the first at which the wall
// reads that time or later.
func (o *oracle) fixedEdges(e *naive, from, to int64) (all []int64) {
	const margin = 27 * hour // more than any offset, or change of one
	wall := time.UnixMilli(from - margin).UTC().Truncate(time.Minute)
	end := time.UnixMilli(to + margin).UTC()
	before := e.matches(wall.Add(-time.Minute))
	for ; wall.Before(end); wall = wall.Add(time.Minute) {
		now := e.matches(wall)
		if now && !before {
			at := wall.UnixMilli() - margin
			for o.wall(at).Before(wall) {
				at += minute
			}
			if at >= from && at <= to {
				all = append(all, at)
			}
		}
		before = now
	}
	return all
}

// period is the period that holds t, if both of its ends are within a time of t.
func (o *oracle) period(t, within int64) (p calendar.Period, ok bool) {
	edges := o.edges(t-within, t+within)
	i, _ := slices.BinarySearch(edges, t+1) // the first edge after t
	if i == 0 || i == len(edges) {
		return p, false
	}
	return calendar.Period{Start: edges[i-1], End: edges[i]}, true
}
