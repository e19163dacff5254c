package sim_test

import (
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"
	_ "time/tzdata"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A recurrence is when a quota renews. Its edges are found by going through the minutes with the
// standard library's civil time: at a time of day, once for each civil date, or at each full hour.
//
//	a civil time that is skipped     the first instant after the gap
//	a civil time that comes twice    the first of the two
type recurrence struct {
	renews *limiter.Renewal
	zone   *time.Location
	pattern

	mu    sync.Mutex
	edges []int64 // in order, in milliseconds
	seen  int64   // edges has those up to here
	civil int64   // the latest civil minute so far, from the year 1970 of the zone
}

// A pattern is what a recurrence repeats, in words and as an item has it.
type pattern struct {
	words, code string
	hourly      bool
	minutes     []int64       // of the day
	weekday     *time.Weekday // nil is each day
	// session is the length of a session in milliseconds. It has no edges: see sessions_test.go.
	session int64
}

var monday = time.Monday

var patterns = []pattern{
	{words: "0 * * * *", code: "1m0", hourly: true},
	{words: "day", code: "1m0h0", minutes: []int64{0}},
	{words: "day at 02:30", code: "1m30h2", minutes: []int64{150}},
	{words: "day at 06:00;day at 18:00;day at 23:30", code: "1m0h6;m0h18;m30h23", minutes: []int64{360, 1080, 1410}},
	{words: "week from monday", code: "1m0h0w1", minutes: []int64{0}, weekday: &monday},
}

// eras are zones, and days before their clocks change.
var eras = []struct{ zone, day string }{
	{"UTC", "2000-05-10"},
	{"Europe/Berlin", "2000-03-25"},     // 02:00 to 03:00 is skipped
	{"Europe/Berlin", "2000-10-28"},     // 02:00 to 03:00 comes twice
	{"America/Sao_Paulo", "2000-10-07"}, // midnight is skipped
	{"America/Sao_Paulo", "2000-02-26"}, // the hour before midnight comes twice
}

// minute is a minute in milliseconds.
const minute = 60_000

var recurrences struct {
	sync.Mutex

	all []*recurrence
}

// recurrenceOf returns the recurrence that an item has; nil if there is none.
func recurrenceOf(code, zone string) *recurrence {
	i := slices.IndexFunc(patterns, func(p pattern) bool { return p.code == code })
	loc, err := time.LoadLocation(zone)
	if i < 0 || err != nil {
		return nil
	}
	renews, err := limiter.ParseRenewal(patterns[i].words, zone)
	must(err)
	if known := recurrenceBy(renews); known != nil {
		return known
	}
	recurrences.Lock()
	defer recurrences.Unlock()
	r := &recurrence{renews: renews, zone: loc, pattern: patterns[i], seen: time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli()}
	recurrences.all = append(recurrences.all, r)
	return r
}

// recurrenceBy returns the recurrence of a limit; nil if the limit is no quota.
func recurrenceBy(renews *limiter.Renewal) *recurrence {
	recurrences.Lock()
	defer recurrences.Unlock()
	i := slices.IndexFunc(recurrences.all, func(r *recurrence) bool { return r.renews == renews })
	if i < 0 {
		return nil
	}
	return recurrences.all[i]
}

// next is the first edge after an instant.
func (r *recurrence) next(at int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.edges) == 0 || r.edges[len(r.edges)-1] <= at {
		r.seen += minute
		if r.isEdgeLocked(time.UnixMilli(r.seen).In(r.zone)) {
			r.edges = append(r.edges, r.seen)
		}
	}
	return r.edges[sort.Search(len(r.edges), func(i int) bool { return r.edges[i] > at })]
}

// isEdgeLocked reports whether an instant is an edge. All earlier ones have been asked about.
func (r *recurrence) isEdgeLocked(t time.Time) bool {
	if r.hourly {
		return t.Minute() == 0
	}
	_, offset := t.Zone()
	before := r.civil
	r.civil = max(before, t.Unix()/60+int64(offset)/60)
	for c := max(before, r.civil-2*24*60) + 1; c <= r.civil; c++ { // more than one only after a gap
		const day = 24 * 60
		if slices.Contains(r.minutes, c%day) && (r.weekday == nil || time.Unix(c*60, 0).UTC().Weekday() == *r.weekday) {
			return true
		}
	}
	return false
}

// An edger has edges around which a run is interesting: a quota's or a timetable's.
type edger interface{ next(at int64) int64 }

// beforeAnEdge waits until shortly before an edge of a quota, or else of a timetable, around
// the time when the clocks of the zone change.
func (w *world) beforeAnEdge(r *rand.Rand) {
	era := pick(r, eras...)
	day, err := time.Parse(time.DateOnly, era.day)
	must(err)
	for range 2 {
		if w.odds.quotas != 0 {
			w.recurrences = append(w.recurrences, recurrenceOf(pick(r, patterns...).code, era.zone))
			w.edges = append(w.edges, w.recurrences[len(w.recurrences)-1])
		}
	}
	for range 2 {
		if w.odds.varied != 0 {
			w.timetables = append(w.timetables, timetableOf(pick(r, rotas...).code, era.zone))
			w.edges = append(w.edges, w.timetables[len(w.timetables)-1])
		}
	}
	edge := w.edges[0].next(day.Add(span(r, 0, 36*time.Hour)).UnixMilli())
	time.Sleep(time.Until(time.UnixMilli(edge)) - max(w.odds.quotas, w.odds.varied))
}

// renewing makes quotas of some limits, gives some of the others a timetable, makes some soft,
// and puts some into a mode.
func (w *world) renewing(r *rand.Rand, limits []limiter.Limit) []limiter.Limit {
	likely := map[string]float64{"daily": 0.9, "rpm": 0.3, "tpm": 0.5}
	for i, l := range limits {
		switch {
		case len(w.recurrences) > 0 && chance(r, likely[l.Name]):
			limits[i] = limiter.Quota(l.Name, l.Capacity, pick(r, w.recurrences...).renews)
			if w.odds.sessions && chance(r, 0.6) {
				limits[i].Renews = sessionOf(pick[int64](r, 2, 6, 60)).renews
			} else if w.odds.carries {
				limits[i].Carries = drawCarry(r, l.Capacity)
			}
			if t := w.dice.stream("varying quotas", l.Name); len(w.amounts()) > 0 && limits[i].Carries == (limiter.Carry{}) && chance(t, 0.6) {
				limits[i].Varies = pick(t, w.amounts()...).varies
			}
		case len(w.timetables) > 0 && chance(r, 0.6):
			limits[i].Varies = pick(r, w.timetables...).varies
		}
		limits[i].Soft = w.odds.soft && chance(r, 0.35)
		if w.odds.modes && !limits[i].Soft {
			limits[i].Mode = pick(r, limiter.Enforce, limiter.Enforce, limiter.Shadow, limiter.Shadow, limiter.Off)
		}
		if limits[i].Mode != limiter.Enforce {
			limits[i].Percent = pick(r, 0, 0, 25, 60)
		}
	}
	return limits
}

// amounts are the timetables that a quota can have: those that set no rate.
func (w *world) amounts() []*timetable {
	return slices.DeleteFunc(slices.Clone(w.timetables), func(t *timetable) bool { return t.per != 0 })
}

// hard makes limits hard, and has them enforced.
func hard(limits []limiter.Limit) []limiter.Limit {
	for i := range limits {
		limits[i].Soft, limits[i].Mode, limits[i].Percent = false, limiter.Enforce, 0
	}
	return limits
}
