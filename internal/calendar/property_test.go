package calendar_test

import (
	"archive/zip"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// zoneNames are all zones of the Go release.
func zoneNames(tb testing.TB) []string {
	tb.Helper()
	//nolint:staticcheck // A test runs where Go is.
	z, err := zip.OpenReader(filepath.Join(runtime.GOROOT(), "lib/time/zoneinfo.zip"))
	if err != nil {
		tb.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	if len(names) < 500 {
		tb.Fatalf("found %d zones", len(names))
	}
	return names
}

// transitions are the instants from 1972 to 2100 at which the offset of a zone changes. Before, some offsets have seconds,
// which the oracle does not know.
func transitions(tb testing.TB, zone string) []int64 {
	tb.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		tb.Fatal(err)
	}
	offset := func(s int64) int { _, o := time.Unix(s, 0).In(loc).Zone(); return o }
	var all []int64
	const step = 12 * 3600
	for s := firstSecond; s < lastSecond; s += step {
		if offset(s) == offset(s+step) {
			continue
		}
		low, high := s, s+step
		for high-low > 1 {
			if mid := (low + high) / 2; offset(mid) == offset(s) {
				low = mid
			} else {
				high = mid
			}
		}
		all = append(all, high*1000)
	}
	return all
}

var (
	firstSecond = time.Date(1972, 6, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// randomField is a field of cron: often "*" or one value, else a range, a step or a list.
func randomField(rng *rand.Rand, low, high int) string {
	value := func() int { return low + rng.IntN(high-low+1) }
	from := value()
	to := from + rng.IntN(high-from+1)
	switch rng.IntN(9) {
	case 0, 1, 2:
		return "*"
	case 3, 4:
		return strconv.Itoa(from)
	case 5:
		return fmt.Sprintf("%d-%d", from, to)
	case 6:
		return fmt.Sprintf("*/%d", 1+rng.IntN(high))
	case 7:
		return fmt.Sprintf("%d-%d/%d", from, to, 1+rng.IntN(5))
	}
	return fmt.Sprintf("%d,%d", from, value())
}

// randomEntry is an entry of cron, mostly one that has edges within weeks. "~" after the day clamps it: the oracle's
// spelling of a day that the words "month from day" give.
func randomEntry(rng *rand.Rand) (cron, words string) {
	switch rng.IntN(8) {
	case 0: // near midnight, where many clocks are changed
		cron = fmt.Sprintf("%d %d * * %s", rng.IntN(60), []int{23, 0, 1, 2, 3}[rng.IntN(5)], randomField(rng, 0, 7))
	case 1:
		d, m, h := 1+rng.IntN(31), rng.IntN(60), rng.IntN(24)
		return fmt.Sprintf("%d %d %d~ * *", m, h, d), fmt.Sprintf("month from day %d at %02d:%02d", d, h, m)
	case 2:
		cron = fmt.Sprintf("%s %s * * %s", randomField(rng, 0, 59), randomField(rng, 0, 23), randomField(rng, 0, 7))
	case 3:
		cron = fmt.Sprintf("%s %s %s * *", randomField(rng, 0, 59), randomField(rng, 0, 23), randomField(rng, 1, 31))
	default:
		cron = fmt.Sprintf("%s %s * * *", randomField(rng, 0, 59), randomField(rng, 0, 23))
	}
	return cron, cron
}

// around is a random instant within three days of one of the transitions, or anywhere.
func around(rng *rand.Rand, changes []int64) int64 {
	t := firstSecond*1000 + rng.Int64N((lastSecond-firstSecond)*1000)
	if len(changes) > 0 && rng.IntN(4) > 0 {
		t = changes[rng.IntN(len(changes))] + rng.Int64N(144*hour) - 72*hour
	}
	if rng.IntN(3) == 0 {
		t -= t % minute
	}
	return t
}

// Periods of random patterns are those of the oracle, which looks at every minute: in every zone, around changes of its
// clocks and far from them.
func TestOracle(t *testing.T) {
	t.Parallel()
	for i, zone := range zoneNames(t) {
		if i%16 == 0 { // all zones: TestLongestOracle
			compareWithOracle(t, zone, uint64(i), 4)
		}
	}
}

func TestLongestOracle(t *testing.T) {
	t.Parallel()
	inEveryZone(t, compareWithOracle, 4**times)
}

// times makes the long tests so many times as long, up to 10.
var times = flag.Int("calendar.times", 1, "how many times as many cases the long tests have")

// inEveryZone runs a test of so many cases for each zone.
func inEveryZone(t *testing.T, test func(t *testing.T, zone string, seed uint64, cases int), cases int) {
	t.Helper()
	for i, zone := range zoneNames(t) {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			test(t, zone, uint64(i)+1000, cases)
		})
	}
}

func compareWithOracle(t *testing.T, zone string, seed uint64, cases int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 42))
	changes := transitions(t, zone)
	for range cases {
		cron, words := randomEntry(rng)
		if rng.IntN(4) == 0 {
			c, w := randomEntry(rng)
			cron, words = cron+";"+c, words+";"+w
		}
		r, err := calendar.Parse(words, zone)
		if err != nil {
			continue // matches every minute, or never
		}
		o := newOracle(cron, zone)
		at := around(rng, changes)
		want, ok := o.period(at, 9*24*hour)
		if !ok {
			if want, ok = o.period(at, 66*24*hour); !ok {
				continue // an edge is far: TestOracleOfYears
			}
		}
		if got := r.Period(at); got != want {
			t.Errorf("%q in %s: the period of %s is %s, want %s", words, zone, instant(at), span(got), span(want))
		}
		if got := r.Next(at); got != want.End {
			t.Errorf("%q in %s: the next edge after %s is %s, want %s", words, zone, instant(at), instant(got), instant(want.End))
		}
	}
}

// A pattern follows real time, and its edges are a year and several changes of the clocks apart.
func TestOracleOfYears(t *testing.T) {
	t.Parallel()
	compareFar(t, "0 */6 1 1 *", "Africa/Casablanca", time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), 1)
}

// Edges are many years apart: a leap day, and dates that must be a weekday.
func TestLongestOracleOfYears(t *testing.T) {
	t.Parallel()
	compareFar(t, "0 0 29 2 *", "America/New_York", time.Date(2097, 3, 1, 0, 0, 0, 0, time.UTC), 8)
	compareFar(t, "0 */6 29 2 *", "Africa/Casablanca", time.Date(2099, 3, 1, 0, 0, 0, 0, time.UTC), 8)
	compareFar(t, "* * 29 2 */7", "UTC", time.Date(2001, 3, 1, 0, 0, 0, 0, time.UTC), 29)
	compareFar(t, "* * 31 10 */7", "Europe/Berlin", time.Date(2003, 3, 1, 0, 0, 0, 0, time.UTC), 12)
}

func compareFar(t *testing.T, cron, zone string, at time.Time, years int64) {
	t.Helper()
	want, ok := newOracle(cron, zone).period(at.UnixMilli(), years*366*24*hour)
	if !ok {
		t.Fatalf("%s: the oracle found no period", cron)
	}
	if got := parse(t, cron, zone).Period(at.UnixMilli()); got != want {
		t.Errorf("%q in %s: the period of %s is %s, want %s", cron, zone, at, span(got), span(want))
	}
}

// The parameters in force are those of the first entry that matches the minute, and they change where the oracle, minute by
// minute, finds another one.
func TestScheduleOracle(t *testing.T) {
	t.Parallel()
	for i, zone := range zoneNames(t) {
		if i%16 == 1 {
			compareSchedules(t, zone, uint64(i), 4)
		}
	}
}

func TestLongestScheduleOracle(t *testing.T) {
	t.Parallel()
	inEveryZone(t, compareSchedules, 4**times)
}

func compareSchedules(t *testing.T, zone string, seed uint64, cases int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 43))
	changes := transitions(t, zone)
	for range cases {
		at := around(rng, changes)
		var crons []string
		var list []calendar.Change
		for range 1 + rng.IntN(3) {
			cron, _ := randomEntry(rng)
			cron = strings.ReplaceAll(cron, "~", "")
			c := calendar.Change{Cron: cron, Permille: 500}
			if rng.IntN(4) == 0 {
				c = calendar.Change{Until: max(minute, at-at%minute+(rng.Int64N(60*24*60)-30*24*60)*minute), Permille: 500}
			}
			crons = append(crons, cron)
			list = append(list, c)
		}
		s, err := calendar.NewSchedule(list, zone)
		if err != nil {
			t.Fatal(err)
		}
		o := newOracle(strings.Join(crons, ";"), zone)
		index := func(ms int64) int {
			for i, c := range list {
				if ms < c.Until || c.Until == 0 && o.entries[i].matches(o.wall(ms)) {
					return i
				}
			}
			return calendar.Base
		}
		want := index(at)
		if _, got := s.At(at, calendar.Params{}); got != want {
			t.Fatalf("%q in %s at %s: entry %d is in force, want %d", s, zone, instant(at), got, want)
		}
		got, ok := s.NextChange(at)
		next := at - at%minute + minute
		for horizon := at + 40*24*hour; next < horizon && index(next) == want; next += minute {
		}
		if inTime := ok && got <= next; index(next) != want != inTime || inTime && got != next {
			t.Fatalf("%q in %s: the change after %s is at %s, %t; want %s", s, zone, instant(at), instant(got), ok, instant(next))
		}
		piece := s.Piece(at)
		first := at - at%minute // the first minute of the piece, if that is within 40 days
		for horizon := at - 40*24*hour; first > horizon && index(first-minute) == want; first -= minute {
		}
		if inTime := piece.Start >= first; index(first-minute) != want != inTime || inTime && piece.Start != first {
			t.Fatalf("%q in %s: the piece of %s begins at %s; want %s", s, zone, instant(at), instant(piece.Start), instant(first))
		}
		if ok && (s.Before(s.After(piece)) != piece || beganLately(piece, at) && s.After(s.Before(piece)) != piece) {
			t.Fatalf("%q in %s: the pieces around that of %s do not meet it", s, zone, instant(at))
		}
	}
}

// beganLately reports whether a piece begins within 40 days before an instant.
func beganLately(p calendar.Piece, at int64) bool { return at-p.Start < 40*24*hour }

// The laws of all renewals: every instant is in one period, periods follow each other without gap, the next edge is
// later, and a daily quota renews once on each date.
func TestLaws(t *testing.T) {
	t.Parallel()
	for i, zone := range zoneNames(t) {
		rng := rand.New(rand.NewPCG(uint64(i), 44))
		for range 2 {
			words := randomWords(rng)
			r, err := calendar.Parse(words, zone)
			if err != nil {
				continue
			}
			at := rng.Int64N(lastSecond * 1000)
			if before := r.Period(at); r.Period(before.Start-1).End != before.Start {
				t.Errorf("%q in %s: before %s, the period ends at %s", words, zone, span(before), instant(r.Period(before.Start-1).End))
			}
			for range 40 {
				p := r.Period(at)
				next := r.Next(at)
				switch {
				case p.Start > at || at >= p.End:
					t.Fatalf("%q in %s: %s is not in its period, %s", words, zone, instant(at), span(p))
				case next != p.End:
					t.Fatalf("%q in %s: next after %s is %s, and the period ends at %s", words, zone, instant(at), instant(next), instant(p.End))
				case r.Period(p.Start) != p || r.Period(p.End-1) != p || r.Period(p.End).Start != p.End:
					t.Fatalf("%q in %s: instants of %s are in other periods", words, zone, span(p))
				}
				at = p.End + rng.Int64N(2)*rng.Int64N(max(1, p.End-p.Start))
				if later := r.Next(at); later <= p.End {
					t.Fatalf("%q in %s: next after %s is %s, not later than %s", words, zone, instant(at), instant(later), instant(p.End))
				}
			}
		}
	}
}

func randomWords(rng *rand.Rand) string {
	switch rng.IntN(6) {
	case 0:
		return "day at " + fmt.Sprintf("%02d:%02d", rng.IntN(24), rng.IntN(60))
	case 1:
		return "year from 29 february; month from last day"
	case 2:
		return fmt.Sprintf("%d months since %s", 1+rng.IntN(30), instant(rng.Int64N(lastSecond*1000)))
	}
	_, words := randomEntry(rng)
	return words
}

// A daily quota renews once for each civil date, in every zone: after so many renewals, so many dates have passed.
func TestOneEdgeForEachDate(t *testing.T) {
	t.Parallel()
	for i, zone := range zoneNames(t) {
		checkDaily(t, zone, uint64(i), 400)
	}
}

func TestLongestOneEdgeForEachDate(t *testing.T) {
	t.Parallel()
	inEveryZone(t, checkDaily, 13*365**times)
}

// checkDaily renews a daily quota so many times, all before 2100. Its time is not midnight, because a date that a zone skips altogether, as
// Samoa did with 30 December 2011, has the midnight of the next one.
func checkDaily(t *testing.T, zone string, seed uint64, renewals int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 45))
	year := 1970 + rng.IntN(131-(renewals+364)/365)
	hours := []int{0, 0, 1, 2, 3, 23, 23, rng.IntN(24)}[rng.IntN(8)]
	r := parse(t, fmt.Sprintf("day at %02d:%02d", hours, 1+rng.IntN(59)), zone)
	o := newOracle("0 0 * * *", zone)
	number := func(ms int64) int64 { return o.wall(ms).Unix() / (24 * 3600) }
	at := r.Next(time.Date(year, 1, 10, 0, 0, 0, 0, time.UTC).UnixMilli())
	for first, n := number(at), int64(1); n <= int64(renewals); n++ {
		at = r.Next(at)
		// A time that a gap moves over midnight is read on the next date.
		if passed := number(at) - first; passed != n && (passed != n+1 || number(at-1) == number(at)) {
			t.Fatalf("%s in %s: %d renewals up to %s, and %d dates", r, zone, n, instant(at), passed)
		}
	}
}
