package sim_test

import (
	"math"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A timetable is when a limit has other parameters, and which. Its pieces are found by going
// through the minutes with the standard library's civil time.
type timetable struct {
	varies *limiter.Schedule
	zone   *time.Location
	rota

	mu    sync.Mutex
	turns []int64 // in order, in milliseconds: the entry begins or ends
	seen  int64   // turns has those up to here
}

// A rota is what a timetable has in words and as an item has it. Its entry is in force from one
// civil hour and minute of an hour to another one, both included.
type rota struct {
	words, code   string
	hours, past   [2]int
	permille      int64
	capacity, per int64 // tokens and seconds in place of the limit's own; 0 leaves it
}

var (
	allDay, allHour = [2]int{0, 23}, [2]int{0, 59}

	rotas = []rota{
		{words: "0-29 * * * * x0.3", code: "1m0-29s300", hours: allDay, past: [2]int{0, 29}, permille: 300},
		{words: "* 2-17 * * * x0.5", code: "1h2-17s500", hours: [2]int{2, 17}, past: allHour, permille: 500},
		{words: "* 2 * * * x3", code: "1h2s3000", hours: [2]int{2, 2}, past: allHour, permille: 3000},
		{words: "30-59 * * * * capacity=2", code: "1m30-59c2", hours: allDay, past: [2]int{30, 59}, capacity: 2},
		{words: "30-59 * * * * seconds=7", code: "1m30-59p7", hours: allDay, past: [2]int{30, 59}, per: 7},
	}
)

var timetables struct {
	sync.Mutex

	all []*timetable
}

// timetableOf returns the timetable that an item has; nil if there is none.
func timetableOf(code, zone string) *timetable {
	i := slices.IndexFunc(rotas, func(s rota) bool { return s.code == code })
	loc, err := time.LoadLocation(zone)
	if i < 0 || err != nil {
		return nil
	}
	varies, err := limiter.ParseSchedule(rotas[i].words, zone)
	must(err)
	if known := timetableBy(varies); known != nil {
		return known
	}
	timetables.Lock()
	defer timetables.Unlock()
	t := &timetable{varies: varies, zone: loc, rota: rotas[i], seen: time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli()}
	timetables.all = append(timetables.all, t)
	return t
}

// timetableBy returns the timetable of a limit; nil if the limit has none.
func timetableBy(varies *limiter.Schedule) *timetable {
	timetables.Lock()
	defer timetables.Unlock()
	i := slices.IndexFunc(timetables.all, func(t *timetable) bool { return t.varies == varies })
	if i < 0 {
		return nil
	}
	return timetables.all[i]
}

// holds reports whether the entry is in force at an instant.
func (t *timetable) holds(at int64) bool {
	is := time.UnixMilli(at).In(t.zone)
	return t.hours[0] <= is.Hour() && is.Hour() <= t.hours[1] && t.past[0] <= is.Minute() && is.Minute() <= t.past[1]
}

// next is the first instant after another one at which the entry begins or ends.
func (t *timetable) next(at int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.turns) == 0 || t.turns[len(t.turns)-1] <= at {
		t.seen += minute
		if t.holds(t.seen) != t.holds(t.seen-minute) {
			t.turns = append(t.turns, t.seen)
		}
	}
	return t.turns[sort.Search(len(t.turns), func(i int) bool { return t.turns[i] > at })]
}

// entry is what the entry makes of a whole limit's parameters.
func (t *timetable) entry(p params) params {
	if t.permille != 0 {
		scale := float64(t.permille) / 1000 // in floating point and cut off, as the peer does
		p.cp, p.ra = max(1, int64(float64(p.cp)*scale)), max(min(1, p.ra), int64(float64(p.ra)*scale))
	}
	if t.capacity != 0 {
		p.cp = t.capacity * 1000
	}
	if t.per != 0 {
		p.rp = t.per * 1000
	}
	return p
}

// in is a limit as it is at an instant: scaled first, then divided.
func (l level) in(at int64) level {
	if l.varies == nil {
		return l
	}
	p := l.base
	if l.varies.holds(at) {
		p = l.varies.entry(p)
	}
	l.params = p
	return l.divided()
}

// until is when a limit has other parameters than at an instant.
func (l level) until(at int64) int64 {
	if l.varies == nil {
		return math.MaxInt64
	}
	return l.varies.next(at)
}

// most is the most that a whole limit ever holds.
func (l level) most() int64 {
	if l.varies == nil {
		return l.cp + l.carry.most
	}
	return max(l.cp, l.varies.entry(l.params).cp)
}

// amount is the most that a whole quota gives in a period, apart from what it carries into it.
func (l level) amount() int64 {
	if l.varies == nil {
		return l.cp
	}
	return l.most()
}

// isQuoted reports whether a status may say that a whole limit is so: it has the parameters
// in force.
func (l level) isQuoted(as limiter.Limit) bool {
	is := levelOf(as)
	if l.varies == nil || is.varies != nil {
		return l.sameParams(is)
	}
	says := func(p params) bool { // in whole tokens
		return params{max(1, p.cp/1000) * 1000, p.ra / 1000 * 1000, p.rp} == is.params
	}
	return is.renews == l.renews && (says(l.params) || says(l.varies.entry(l.params)))
}

// span is what a limit holds at most when an interval begins, and what it earns in all of it,
// in how many pieces. If clocks are shifted, it earns by the higher of the rates that they
// and the true time show.
func (l level) span(i interval) (capacity, earned, pieces int64) {
	begun, to := i.from+i.slack, i.from+i.lasts
	capacity = i.stamped
	for at := i.from; at <= to; pieces++ {
		p, next := l.in(at), min(l.until(at), l.until(at+i.shift)-i.shift)
		if at <= begun {
			capacity = max(capacity, p.cp)
		}
		end := min(to, next)
		earned += max(p.accrued(at, end), l.in(at+i.shift).accrued(at, end))
		at = next
	}
	return capacity, earned, pieces
}

// TestSimWithTimetables plays a few seeds whose limits follow timetables.
func TestSimWithTimetables(t *testing.T) {
	t.Parallel()
	const seeds = 12
	playSeeds(t, seeds, func(s uint64) odds {
		o := oddsOf(s)
		o.varied = beforeEdge
		return o
	}, func(result) {})
}
