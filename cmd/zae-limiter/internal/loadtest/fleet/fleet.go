package fleet

import (
	"cmp"
	"crypto/rand"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/store"
)

// Times of a fleet.
const (
	// Handover is the time before the end of a worker at which another one replaces it. It is
	// at least the longest gap between two looks and the Startup of the replacement, see the
	// package's comment.
	Handover = 2 * time.Minute
	// Startup is the time within which a worker connects, or ends.
	Startup = 25 * time.Second
	// Margin is the time between the end of a worker and the timeout of its function.
	Margin = 30 * time.Second
	// Silence is the time for which a worker counts that the master no longer shows.
	Silence = time.Minute
	// MinTimeout is the least timeout of the function. A shorter one leaves no time between
	// the start of a worker and the start of its replacement.
	MinTimeout = spacing + leastLife + Margin

	// spacing is the distance of the instants at which workers end. The part above Handover is
	// for workers that are slow to end.
	spacing = Handover + 30*time.Second
	// leastLife is the least time for which a worker is started.
	leastLife = Handover + spacing
)

// Options describe a fleet.
type Options struct {
	// Min and Max bound the workers that carry load; Min is at least 1, because Locust starts
	// no test without a worker.
	Min, Max int
	// UsersPerWorker is the number of users that one worker carries, at least 1.
	UsersPerWorker int
	// Timeout is that of the workers' function, at least [MinTimeout].
	Timeout time.Duration
}

// Validate fails with a [*store.ValidationError].
func (o Options) Validate() error {
	bad := func(field string, n int, reason string) error {
		return &store.ValidationError{Field: field, Value: strconv.Itoa(n), Reason: reason}
	}
	switch {
	case o.Min < 1:
		return bad("Min", o.Min, "give at least 1: Locust starts no test without a worker")
	case o.Max < o.Min:
		return bad("Max", o.Max, "give at least the minimum, "+strconv.Itoa(o.Min))
	case o.UsersPerWorker < 1:
		return bad("UsersPerWorker", o.UsersPerWorker, "give at least 1")
	case o.Timeout < MinTimeout:
		return &store.ValidationError{Field: "Timeout", Value: o.Timeout.String(), Reason: "give at least " + MinTimeout.String() + ": a worker and its replacement need that time"}
	}
	return nil
}

// life is the longest time for which a worker is started.
func (o Options) life() time.Duration { return o.Timeout - Margin }

// Overlap is the most workers that exist above Max while others are replaced.
func (o Options) Overlap() int {
	instants := int((o.life() - leastLife) / spacing)
	return (o.Max + instants - 1) / instants
}

// Concurrency is the most workers that exist at a time. It is what to reserve for the
// function.
func (o Options) Concurrency() int { return o.Max + o.Overlap() }

// A View is what the master shows. The state of a worker is [swarm.Missing] after the master
// has not heard from it for some seconds.
type View struct {
	State   string
	Users   int // that run at this time
	Workers []swarm.Worker
}

// prefix begins the IDs of the workers that a fleet starts.
const prefix = "zael-"

// newID names a worker that ends at an instant. The instant is in the ID, so that another
// orchestrator sees it at the master.
func newID(until time.Time) string {
	return prefix + strconv.FormatInt(until.Unix(), 10) + "-" + rand.Text()
}

// started matches the ID that newID has made. A worker may add to it after another character:
// it gives each of its connections a name of its own.
var started = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A` + prefix + `(\d{1,12})-[A-Z2-7]+`) })

// startOf reads in the ID of a worker which start it belongs to, and the instant at which it
// ends. ok is false for a worker that somebody else started.
func startOf(id string) (name string, until time.Time, ok bool) {
	m := started().FindStringSubmatch(id)
	if m == nil {
		return "", time.Time{}, false
	}
	seconds, err := strconv.ParseInt(m[1], 10, 64)
	return m[0], time.Unix(seconds, 0), err == nil
}

// A member is a worker that the fleet started, or found at the master.
type member struct {
	until time.Time
	// counts is the instant from which the member no longer counts, unless the master shows
	// it again.
	counts time.Time
}

// A Fleet decides which workers to start. It is not safe for concurrent use.
type Fleet struct {
	o       Options
	members map[string]member
	// users is the number of users of the last view that was taken while users were started.
	users  int
	sample time.Time // of that view; zero if there is none
}

// New returns a fleet that knows no workers. It fails as [Options.Validate].
func New(o Options) (*Fleet, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Fleet{o: o, members: map[string]member{}}, nil
}

// Plan returns the ID and the end of each worker to start at an instant. The workers count
// from then on, whether their start succeeds or not: one that does not show up at the master
// within [Startup] stops counting.
func (f *Fleet) Plan(now time.Time, v View) []Start {
	foreign := f.see(now, v)
	staying := 0
	for _, m := range f.members {
		if m.until.Sub(now) > Handover {
			staying++
		}
	}
	missing := min(f.needed(now, v)-foreign-staying, f.o.Concurrency()-len(f.members))
	var starts []Start
	for range missing {
		until := f.end(now)
		s := Start{ID: newID(until), Until: until, ConnectBy: now.Add(Startup)}
		f.members[s.ID] = member{until, s.ConnectBy}
		starts = append(starts, s)
	}
	return starts
}

// A Start is a worker to start.
type Start struct {
	ID string
	// Until is the instant at which the worker stops its users and leaves.
	Until time.Time
	// ConnectBy is the instant at which the worker ends if it is not connected.
	ConnectBy time.Time
}

// see brings the members up to date with a view, and returns the number of workers in it that
// somebody else started.
func (f *Fleet) see(now time.Time, v View) (foreign int) {
	for _, w := range v.Workers {
		name, until, ours := startOf(w.ID)
		switch {
		case w.State == swarm.Missing:
		case ours:
			f.members[name] = member{until, now.Add(Silence)}
		default:
			foreign++
		}
	}
	maps.DeleteFunc(f.members, func(_ string, m member) bool {
		return !now.Before(m.counts) || !now.Before(m.until.Add(Margin))
	})
	return foreign
}

// needed is the number of workers for the users of a view. While users are started, those
// count that will have started by the time at which a new worker is ready.
func (f *Fleet) needed(now time.Time, v View) int {
	users := v.Users
	switch {
	case v.State != swarm.Spawning:
		f.sample = time.Time{}
	case f.sample.IsZero():
		f.users, f.sample = v.Users, now
	default:
		if d := now.Sub(f.sample); d > 0 && v.Users > f.users {
			users += int(int64(v.Users-f.users) * int64(Startup) / int64(d))
		}
		f.users, f.sample = v.Users, now
	}
	workers := users / f.o.UsersPerWorker // rounded up without overflow
	if users%f.o.UsersPerWorker > 0 {
		workers++
	}
	return min(max(workers, f.o.Min), f.o.Max)
}

// end chooses the end of a new worker: of the instants that are possible, the latest with
// room, else the one with the fewest ends.
func (f *Fleet) end(now time.Time) time.Time {
	ends := map[int64]int{}
	for _, m := range f.members {
		ends[m.until.Unix()]++
	}
	grid := int64(spacing / time.Second)
	first, last := now.Add(leastLife).Unix(), now.Add(f.o.life()).Unix()
	var instants []int64
	for at := last / grid * grid; at >= first; at -= grid {
		if ends[at] < f.o.Overlap() {
			return time.Unix(at, 0)
		}
		instants = append(instants, at)
	}
	return time.Unix(slices.MinFunc(instants, func(a, b int64) int { return cmp.Compare(ends[a], ends[b]) }), 0)
}
