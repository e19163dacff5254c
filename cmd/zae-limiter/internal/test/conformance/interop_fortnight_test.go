//go:build conformance

package conformance_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// A fortnight is 14 days of Europe/Berlin. Clocks change at 01:00 UTC of the eighth one.
type fortnight struct {
	words    string // "day", with or without a time
	at       time.Duration
	begins   time.Time // the first civil date
	toSummer bool
}

var (
	spring = time.Date(2028, time.March, 19, 0, 0, 0, 0, time.UTC)
	autumn = time.Date(2028, time.October, 22, 0, 0, 0, 0, time.UTC)
)

const changes = 7 // the number of the day on which clocks change

// edge is when day n of the fortnight begins: its civil time, less what clocks are ahead of UTC
// then. A time that is left out counts as 03:00 of summer, and of two the first one counts.
func (f *fortnight) edge(n int) time.Time {
	civil := f.begins.AddDate(0, 0, n).Add(f.at)
	isSummer := (n > changes) == f.toSummer
	if n == changes {
		isSummer = !f.toSummer || f.at >= 2*time.Hour
		if f.toSummer && f.at >= 2*time.Hour && f.at < 3*time.Hour {
			civil = f.begins.AddDate(0, 0, n).Add(3 * time.Hour)
		}
	}
	if isSummer {
		return civil.Add(-2 * time.Hour)
	}
	return civil.Add(-time.Hour)
}

// perPeriod is the amount of the quota.
const perPeriod = 100

// A fleet is three clients of ours and two of Python.
type fleet struct {
	*both
	*fortnight
	ours, theirs []member
	second       *python
	random       *rand.Rand

	kept []func(rollback bool) error

	mu  sync.Mutex
	net [14]int // admitted less returned, by day
}

// A member acquires an amount; end ends its lease, and is nil if it was refused.
type member func(amount int) (end func(rollback bool) error, err error)

func (b *both) fleet(f *fortnight) *fleet {
	b.Helper()
	b.system(b.quota("rpd", perPeriod, f.words, "Europe/Berlin"))
	b.at(f.edge(0).Add(-time.Hour))
	all := &fleet{both: b, fortnight: f, random: rand.New(rand.NewPCG(2028, uint64(f.begins.Unix())))}
	for range 3 {
		// It asks again at once, as others may have returned tokens.
		l, err := limiter.New(b.store, limiter.Options{Timeout: time.Minute, Trust: -1})
		b.must(err)
		b.Cleanup(func() { b.must(l.Close()) })
		all.ours = append(all.ours, func(amount int) (func(bool) error, error) {
			lease, err := l.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": amount}))
			if errors.Is(err, limiter.ErrExceeded) {
				return nil, nil
			}
			return func(rollback bool) error {
				if rollback {
					return lease.Rollback(b.Context())
				}
				return lease.Commit(b.Context())
			}, err
		})
	}
	all.second = startPython(b.T, b.py.local)
	namespace, _ := b.store.Namespace()
	all.second.open(b.table, namespace)
	for _, py := range []*python{b.py, all.second} {
		all.theirs = append(all.theirs, func(amount int) (func(bool) error, error) {
			var lease int
			err := py.try("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": amount}}, &lease)
			if thrown := (*pythonError)(nil); errors.As(err, &thrown) && thrown.Class == "RateLimitExceeded" {
				return nil, nil
			}
			return func(rollback bool) error {
				return py.try("settle", args{"lease": lease, "rollback": rollback}, nil)
			}, err
		})
	}
	return all
}

// at sets all clocks.
func (f *fleet) at(t time.Time) {
	f.Helper()
	f.both.at(t)
	f.second.do("set_clock", args{"ahead": f.ahead.Load()}, nil)
}

// holds lets a member take on day n, and counts it; end is nil if it was refused.
func (f *fleet) holds(n int, m member, amount int) (end func(rollback bool) error) {
	f.Helper()
	end, err := m(amount)
	if err != nil {
		f.Error(err)
		return nil
	}
	if end != nil {
		f.counts(n, amount)
	}
	return end
}

func (f *fleet) counts(n, amount int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.net[n] += amount
}

// takes lets a member take on day n, and return it at once or keep it.
func (f *fleet) takes(n int, m member, amount int, rollback bool) (refused bool) {
	f.Helper()
	end := f.holds(n, m, amount)
	if end == nil {
		return true
	}
	if err := end(rollback); err != nil {
		f.Error(err)
	} else if rollback {
		f.counts(n, -amount)
	}
	return false
}

// all are all members.
func (f *fleet) all() []member { return slices.Concat(f.theirs, f.ours) }

// rush lets all members take at once.
func (f *fleet) rush(n int) {
	f.Helper()
	var wg sync.WaitGroup
	for _, m := range f.all() {
		amount, rollback := 5+f.random.IntN(26), f.random.IntN(4) == 0
		wg.Go(func() { f.takes(n, m, amount, rollback) })
	}
	wg.Wait()
}

// turns lets members take one after the other.
func (f *fleet) turns(n int) {
	f.Helper()
	all := f.all()
	f.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, m := range all {
		f.takes(n, m, 1+f.random.IntN(10), f.random.IntN(2) == 0)
	}
}

// keeps opens leases of both libraries that end on a later day.
func (f *fleet) keeps(n int) {
	f.Helper()
	for _, m := range []member{f.ours[n%3], f.theirs[n%2]} {
		if end := f.holds(n, m, 1+f.random.IntN(5)); end != nil {
			f.kept = append(f.kept, end)
		}
	}
}

// returns rolls back what was kept. It is of a day that has ended, and goes nowhere.
func (f *fleet) returns() {
	f.Helper()
	for _, end := range f.kept {
		f.must(end(true))
	}
	f.kept = nil
}

// empties takes what is left on day n, half by each library, and checks that it is there, and
// that no more is.
func (f *fleet) empties(n, amount int) {
	f.Helper()
	left := amount - f.net[n]
	one := left / 2
	if left < 0 || f.takes(n, f.ours[n%3], one, false) || f.takes(n, f.theirs[n%2], left-one, false) {
		f.Errorf("day %d: %d of %d are taken, and %d and %d were refused", n, f.net[n], amount, one, left-one)
	}
	f.isEmpty(n)
}

// isEmpty checks that nobody is admitted on day n.
func (f *fleet) isEmpty(n int) {
	f.Helper()
	for i, m := range f.all() {
		if !f.takes(n, m, 1, false) {
			f.Errorf("day %d: member %d is admitted after %d", n, i, f.net[n])
		}
	}
}

// lives lets the fleet live through day n. The first one to come renews.
func (f *fleet) lives(n int) {
	f.Helper()
	switch n {
	case 4: // nobody comes
		return
	case 5, changes - 1: // nobody comes early
	default:
		f.at(f.edge(n))
		if n%2 == 0 { // before the period is renewed, or after it
			f.returns()
		}
		f.rush(n)
	}
	f.at(f.edge(n).Add(11 * time.Hour))
	f.returns()
	f.turns(n)
	f.at(f.edge(n + 1).Add(-time.Minute))
	if n == changes-1 { // something is left, and the next period has not begun
		if left := perPeriod - f.net[n]; !f.takes(n, f.ours[0], left+1, false) {
			f.Errorf("day %d: admitted %d of %d", n, left+1, left)
		}
		return
	}
	f.keeps(n)
	f.empties(n, perPeriod)
}

// livesTwoWeeks lets the fleet live through a fortnight.
func (f *fleet) livesTwoWeeks() {
	f.Helper()
	for n := range 14 {
		f.lives(n)
	}
}

// livesThreeDays lets the fleet live through the days before and after the change of clocks. One
// member begins the period before it; changed is the day of the change.
func (f *fleet) livesThreeDays(begins member, changed func()) {
	f.Helper()
	f.at(f.edge(changes - 1))
	f.takes(changes-1, begins, 1, false)
	f.lives(changes - 1)
	changed()
	f.lives(changes + 1)
}

// ends is the rest of the day on which clocks change, of which an amount is to be had.
func (f *fleet) ends(amount int) {
	f.Helper()
	f.at(f.edge(changes).Add(11 * time.Hour))
	f.turns(changes)
	f.at(f.edge(changes + 1).Add(-time.Minute))
	f.empties(changes, amount)
}

// comesFirst checks what a member gets that comes before all others.
func (f *fleet) comesFirst(m member, admitted, refused int) {
	f.Helper()
	if !f.takes(changes, m, refused, false) || f.takes(changes, m, admitted, false) {
		f.Errorf("the first one got %d, or not %d", refused, admitted)
	}
}

// fortnightCases are two weeks around both changes of clocks. Midnights are then as on other days,
// and it does not matter who comes first. At 02:30 Python's calendar differs: it leaves one edge
// out, and has one twice.
var fortnightCases = []interopCase{
	{"midnights around the change to summer time", func(b *both) {
		b.fleet(&fortnight{words: "day", begins: spring, toSummer: true}).livesTwoWeeks()
	}},
	{"midnights around the change to winter time", func(b *both) {
		b.fleet(&fortnight{words: "day", begins: autumn}).livesTwoWeeks()
	}},
	{"an edge that is left out: a Go client is first", func(b *both) {
		f := b.fleet(night(spring))
		f.livesThreeDays(f.theirs[0], func() {
			f.at(f.edge(changes))
			f.comesFirst(f.ours[0], 1, perPeriod+1)
			f.rush(changes)
			f.ends(perPeriod)
		})
	}},
	{"an edge that is left out: a Python client is first, and one began the period before", func(b *both) {
		f := b.fleet(night(spring))
		f.livesThreeDays(f.theirs[0], func() {
			left := perPeriod - f.net[changes-1]
			f.at(f.edge(changes))
			f.comesFirst(f.theirs[1], left, left+1) // of the old period
			f.comesFirst(f.ours[0], 1, perPeriod+1)
			f.rush(changes)
			f.ends(perPeriod + left)
		})
	}},
	{"an edge that is left out: a Python client is first, and a Go client began the period before", func(b *both) {
		f := b.fleet(night(spring))
		f.livesThreeDays(f.ours[0], func() {
			left := perPeriod - f.net[changes-1]
			f.at(f.edge(changes))
			f.comesFirst(f.theirs[1], 1, left+1) // moves rf over the edge, and nobody renews
			f.ends(left)
		})
	}},
	{"an edge that is left out: what a Python client returns after it is of the new period", func(b *both) {
		f := b.fleet(night(spring))
		f.livesThreeDays(f.theirs[0], func() {
			const kept = 20
			end := f.holds(changes-1, f.theirs[0], kept)
			f.at(f.edge(changes))
			f.comesFirst(f.ours[0], 50, perPeriod+1)
			f.must(end(true))
			f.rush(changes)
			f.ends(perPeriod + kept)
		})
	}},
	{"an edge that comes twice: a Go client is first", func(b *both) {
		f := b.fleet(night(autumn))
		f.livesThreeDays(f.theirs[0], func() {
			f.at(f.edge(changes))
			f.comesFirst(f.ours[0], 1, perPeriod+1)
			f.rush(changes)
			f.at(f.edge(changes).Add(time.Hour))
			f.comesFirst(f.theirs[0], 0, perPeriod-f.net[changes]+1)
			f.rush(changes)
			f.ends(perPeriod)
		})
	}},
	{"an edge that comes twice: a Python client is first both times", func(b *both) {
		f := b.fleet(night(autumn))
		f.livesThreeDays(f.theirs[0], func() {
			for at := range 2 {
				f.at(f.edge(changes).Add(time.Duration(at) * time.Hour))
				f.comesFirst(f.theirs[at], perPeriod, perPeriod+1)
				f.isEmpty(changes)
			}
			f.ends(2 * perPeriod)
		})
	}},
}

// night is a fortnight of days that begin at 02:30, which one of them has not or twice.
func night(begins time.Time) *fortnight {
	return &fortnight{words: "day at 02:30", at: 2*time.Hour + 30*time.Minute, begins: begins, toSummer: begins.Equal(spring)}
}
