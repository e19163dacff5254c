package fleet_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/store"
)

var usual = fleet.Options{Min: 1, Max: 100, UsersPerWorker: 10, Timeout: 15 * time.Minute}

func newFleet(t interface{ Fatal(...any) }, o fleet.Options) *fleet.Fleet {
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]fleet.Options{
		"Min":            {Max: 1, UsersPerWorker: 1, Timeout: time.Hour},
		"Max":            {Min: 2, Max: 1, UsersPerWorker: 1, Timeout: time.Hour},
		"UsersPerWorker": {Min: 1, Max: 1, Timeout: time.Hour},
		"Timeout":        {Min: 1, Max: 1, UsersPerWorker: 1, Timeout: fleet.MinTimeout - time.Second},
	} {
		_, err := fleet.New(o)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != field || bad.Reason == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := fleet.New(fleet.Options{Min: 1, Max: 1, UsersPerWorker: 1, Timeout: fleet.MinTimeout}); err != nil {
		t.Error(err)
	}
}

// start is an instant; only differences matter.
var start = time.Unix(1_700_000_000, 0)

func TestWorkersFollowTheUsersAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		views []fleet.View // 10 s apart
		want  int          // started by the last
	}{
		{"no users", []fleet.View{{State: swarm.Ready}}, 1},
		{"rounded up", []fleet.View{{State: swarm.Running, Users: 11}}, 2},
		{"at most the maximum", []fleet.View{{State: swarm.Running, Users: 1 << 62}}, 100},
		// 20 users in 10 s are 50 in the 25 s that a new worker needs.
		{"ahead of a ramp", []fleet.View{{State: swarm.Spawning, Users: 0}, {State: swarm.Spawning, Users: 20}}, 7},
		{"not ahead of a fall", []fleet.View{{State: swarm.Spawning, Users: 40}, {State: swarm.Spawning, Users: 20}}, 4},
		{"a new ramp begins anew", []fleet.View{{State: swarm.Spawning, Users: 0}, {State: swarm.Running, Users: 10}, {State: swarm.Spawning, Users: 30}}, 3},
		{"workers of others count", []fleet.View{{State: swarm.Running, Users: 50, Workers: []swarm.Worker{{ID: "host_1", State: swarm.Running}, {ID: "host_2", State: swarm.Ready}}}}, 3},
		{"missing workers do not", []fleet.View{{State: swarm.Running, Users: 50, Workers: []swarm.Worker{{ID: "host_1", State: swarm.Missing}}}}, 5},
	} {
		f, got, now := newFleet(t, usual), 0, start
		for _, v := range c.views {
			got += len(f.Plan(now, v))
			now = now.Add(10 * time.Second)
		}
		if got != c.want {
			t.Errorf("%s: %d workers started, want %d", c.name, got, c.want)
		}
	}
}

// Each orchestrator reads the ends of the workers that others started in their IDs.
func TestAnotherOrchestratorContinues(t *testing.T) {
	t.Parallel()
	view := fleet.View{State: swarm.Running, Users: 100}
	for _, s := range newFleet(t, usual).Plan(start, view) {
		view.Workers = append(view.Workers, swarm.Worker{ID: s.ID, State: swarm.Running})
	}
	next := newFleet(t, usual)
	if got := next.Plan(start.Add(time.Minute), view); len(got) != 0 {
		t.Errorf("the next orchestrator starts %d workers besides ten that stay", len(got))
	}
	if got := next.Plan(start.Add(14*time.Minute), view); len(got) != 10 {
		t.Errorf("the next orchestrator replaces %d workers of ten", len(got))
	}
}

// A worker connects again under another name, after a restart of the master for instance.
func TestANameThatAWorkerAddsToIsItsOwn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, usual)
	view := fleet.View{State: swarm.Running, Users: 100}
	for _, s := range f.Plan(start, view) {
		view.Workers = append(view.Workers, swarm.Worker{ID: s.ID + "_0123abcd", State: swarm.Running})
	}
	view.Users = 150
	if got := len(f.Plan(start.Add(5*time.Second), view)); got != 5 {
		t.Errorf("%d workers are started besides ten, for 150 users", got)
	}
}

// The peer's orchestrator reads a count that older masters do not have, takes it for 0, and
// starts the maximum again at each look.
func TestAViewWithoutChangesStartsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, usual)
	view := fleet.View{State: swarm.Running, Users: 100}
	if got := len(f.Plan(start, view)); got != 10 {
		t.Fatalf("%d workers", got)
	}
	for i := range 5 { // none is connected yet
		if got := f.Plan(start.Add(time.Duration(i)*5*time.Second), view); len(got) > 0 {
			t.Errorf("look %d starts %d more", i, len(got))
		}
	}
	if got := len(f.Plan(start.Add(fleet.Startup), view)); got != 10 {
		t.Errorf("%d workers are started for ten that never connected", got)
	}
}

func TestAMasterThatForgetsItsWorkersGetsNoneBesides(t *testing.T) {
	t.Parallel()
	f := newFleet(t, usual)
	view := fleet.View{State: swarm.Running, Users: 1000}
	for _, s := range f.Plan(start, view) {
		view.Workers = append(view.Workers, swarm.Worker{ID: s.ID, State: swarm.Running})
	}
	f.Plan(start.Add(10*time.Second), view)
	for at := 15 * time.Second; at < 10*time.Second+fleet.Silence; at += 5 * time.Second {
		if got := f.Plan(start.Add(at), fleet.View{State: swarm.Running, Users: 1000}); len(got) > 0 {
			t.Errorf("%d workers are started %v after a restart of the master", len(got), at)
		}
	}
	if got := len(f.Plan(start.Add(10*time.Second+fleet.Silence), fleet.View{State: swarm.Running, Users: 1000})); got != 100 {
		t.Errorf("%d workers are started for 100 that are gone", got)
	}
}

// A sim is a function service and a master, second by second.
type sim struct {
	t       *rapid.T
	dice    *rand.Rand // rapid prefers small numbers, and time needs even ones
	o       fleet.Options
	workers []*worker
	steady  int // seconds since the users rose
}

// A worker connects at one instant, and ends some seconds after its users have.
type worker struct {
	fleet.Start
	connects, ends time.Time
	lost           bool
}

func (s *sim) alive(now time.Time) (n int) {
	for _, w := range s.workers {
		if now.Before(w.ends) {
			n++
		}
	}
	return n
}

func (s *sim) carries(w *worker, now time.Time) bool {
	return !w.lost && !now.Before(w.connects) && now.Before(w.Until)
}

func (s *sim) view(now time.Time, users int) fleet.View {
	v := fleet.View{State: swarm.Running, Users: users}
	for _, w := range s.workers {
		if s.carries(w, now) {
			v.Workers = append(v.Workers, swarm.Worker{ID: w.ID, State: swarm.Running})
		}
	}
	return v
}

// invoke starts a worker as the function service does: it connects in time, or ends.
func (s *sim) invoke(now time.Time, start fleet.Start, lossy bool) {
	w := &worker{Start: start}
	w.connects = now.Add(time.Duration(1+s.dice.IntN(int(fleet.Startup/time.Second)-1)) * time.Second)
	w.ends = start.Until.Add(time.Duration(s.dice.IntN(26)) * time.Second)
	if lossy && s.dice.IntN(10) == 0 {
		w.lost, w.ends = true, start.ConnectBy
	}
	if until := now.Add(s.o.Timeout - fleet.Margin); w.Until.After(until) || w.Until.Before(now.Add(fleet.Handover)) {
		s.t.Fatalf("a worker is to work until %v, %v from now", w.Until, w.Until.Sub(now))
	}
	s.workers = append(s.workers, w)
}

// settled is how many seconds after a rise of the users their workers are there.
const settled = 40

// check compares the workers of one second with what is needed.
func (s *sim) check(now time.Time, users int, lossy bool) {
	alive, carrying := s.alive(now), 0
	for _, w := range s.workers {
		if s.carries(w, now) {
			carrying++
		}
	}
	if alive > s.o.Concurrency() {
		s.t.Fatalf("%v: %d workers at a time, %d are the most", now.Sub(start), alive, s.o.Concurrency())
	}
	needed := min(max((users+s.o.UsersPerWorker-1)/s.o.UsersPerWorker, s.o.Min), s.o.Max)
	if s.steady++; carrying < needed && s.steady > settled && !lossy {
		s.t.Fatalf("%v: %d workers carry %d users, %d are needed", now.Sub(start), carrying, users, needed)
	}
}

// For any users over an hour: never more workers than the concurrency, and never fewer than
// needed once the last rise of the users is 40 s ago. Orchestrators follow one another, and
// each is silent at its end and late at its start.
func TestWorkersAreReplacedInTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := fleet.Options{
			Min: rapid.IntRange(1, 5).Draw(t, "min"), UsersPerWorker: rapid.IntRange(1, 20).Draw(t, "users per worker"),
			Timeout: time.Duration(rapid.IntRange(int(fleet.MinTimeout/time.Second), 900).Draw(t, "timeout")) * time.Second,
		}
		o.Max = o.Min + rapid.IntRange(0, 60).Draw(t, "max")
		lossy := rapid.Bool().Draw(t, "lossy")
		s := &sim{t: t, o: o, dice: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
		f, users := newFleet(t, o), 0
		end := start.Add(835 * time.Second) // of the orchestrator
		begin := start
		for now := start; now.Before(start.Add(time.Hour)); now = now.Add(time.Second) {
			if s.dice.IntN(300) == 0 {
				next := s.dice.IntN(o.Max*o.UsersPerWorker + 1)
				if next > users {
					s.steady = 0
				}
				users = next
			}
			if !now.Before(end) {
				f, begin = newFleet(t, o), now.Add(time.Duration(s.dice.IntN(61))*time.Second)
				end = begin.Add(835 * time.Second)
			}
			looks := !now.Before(begin) && now.Before(end) && now.Sub(begin)%fleet.DefaultPoll == 0
			quiet := !now.Before(end.Add(-fleet.Startup))
			if s.steady <= settled && (quiet || now.Before(begin)) {
				s.steady = 0 // nobody starts workers for the last rise
			}
			if looks && !quiet {
				for _, start := range f.Plan(now, s.view(now, users)) {
					s.invoke(now, start, lossy)
				}
			}
			s.check(now, users, lossy)
		}
	})
}

// A worker that the last look of an orchestrator still counts is replaced in time by the next
// orchestrator, however late that begins.
func TestTheGapBetweenOrchestratorsIsBridged(t *testing.T) {
	t.Parallel()
	const lateness = time.Minute // the period of the schedule
	gap := fleet.DefaultPoll + fleet.Startup + lateness
	one := fleet.Options{Min: 1, Max: 1, UsersPerWorker: 10, Timeout: 15 * time.Minute}
	first := newFleet(t, one).Plan(start, fleet.View{State: swarm.Running, Users: 1})[0]
	view := fleet.View{State: swarm.Running, Users: 1, Workers: []swarm.Worker{{ID: first.ID, State: swarm.Running}}}

	lastLook := first.Until.Add(-fleet.Handover - time.Second)
	if got := newFleet(t, one).Plan(lastLook, view); len(got) > 0 {
		t.Fatalf("%d workers are started before the handover", len(got))
	}
	next := newFleet(t, one).Plan(lastLook.Add(gap), view)
	if len(next) != 1 || next[0].ConnectBy.After(first.Until) {
		t.Errorf("the worker ends at %v, its replacements are %+v", first.Until, next)
	}
}

// Workers that start together do not end together.
func TestEndsAreApart(t *testing.T) {
	t.Parallel()
	ends := map[time.Time]int{}
	for _, s := range newFleet(t, usual).Plan(start, fleet.View{State: swarm.Running, Users: 1000}) {
		ends[s.Until]++
	}
	if len(ends) < 4 {
		t.Errorf("100 workers end at %d instants", len(ends))
	}
	var instants []time.Time
	for at, n := range ends {
		if n > usual.Overlap() {
			t.Errorf("%d workers end at once, %d are the most", n, usual.Overlap())
		}
		instants = append(instants, at)
	}
	slices.SortFunc(instants, time.Time.Compare)
	for i := range instants[1:] {
		if d := instants[i+1].Sub(instants[i]); d <= fleet.Handover {
			t.Errorf("two instants are %v apart, the replacements of one would meet those of the other", d)
		}
	}
	if got := usual.Concurrency(); got != 125 {
		t.Errorf("the concurrency is %d, and docs/locust.md says 125", got)
	}
}

func TestIDsOfOthersAreNotOurs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "zael-", "zael-x-y", "zael-1700000000", "zael-1700000000-", "zael-99999999999999999999-A", "xzael-1700000000-A", "host_0123", strconv.Itoa(1)} {
		v := fleet.View{State: swarm.Running, Users: 20, Workers: []swarm.Worker{{ID: id, State: swarm.Running}}}
		if got := len(newFleet(t, usual).Plan(start, v)); got != 1 {
			t.Errorf("%q: %d workers are started besides it, want 1", id, got)
		}
	}
	for _, s := range newFleet(t, usual).Plan(start, fleet.View{}) {
		if !strings.HasPrefix(s.ID, "zael-") {
			t.Errorf("a worker is called %q", s.ID)
		}
	}
}

// Workers that end unusually together, such as those of another fleet, are not all replaced
// at once: the function has no more concurrency.
func TestTheConcurrencyBoundsReplacements(t *testing.T) {
	t.Parallel()
	view := fleet.View{State: swarm.Running, Users: 1000}
	for i := range 110 {
		id := "zael-" + strconv.FormatInt(start.Add(time.Minute).Unix(), 10) + "-" + strings.Repeat("A", i+1)
		view.Workers = append(view.Workers, swarm.Worker{ID: id, State: swarm.Running})
	}
	if got := len(newFleet(t, usual).Plan(start, view)); got != usual.Concurrency()-110 {
		t.Errorf("%d workers are started besides 110 that leave, %d have room", got, usual.Concurrency()-110)
	}
}
