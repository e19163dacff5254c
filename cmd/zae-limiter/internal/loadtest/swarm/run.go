package swarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// Errors of a run.
var (
	// ErrBusy means that a test runs at the master already.
	ErrBusy = errors.New("a test runs at the Locust master: wait for its end, or stop it on the web page")
	// ErrWorkers means that too few workers are connected, or too many.
	ErrWorkers = errors.New("the wrong number of workers is connected to the Locust master")
	// ErrRamp means that the users did not all start.
	ErrRamp = errors.New("the users did not all start: are there enough workers, and do they know the classes?")
)

const (
	// DefaultPoll is the default of [Options.Poll], as long as Locust keeps an answer.
	DefaultPoll = 2 * time.Second
	// DefaultPatience is the default of [Options.Patience].
	DefaultPatience = 5 * time.Minute

	// startUp is the time within which a started test shows.
	startUp = 15 * time.Second
	// silence is how long the master may be silent.
	silence = 30 * time.Second
	// stopTimeout is how long stopping may take.
	stopTimeout = 30 * time.Second
	// maxUsers bounds the users of a run.
	maxUsers = 1_000_000
)

// Options configure a run. Page, Now and Order.Users, or Order.Shape, are required.
type Options struct {
	Page  *Page
	Order Order
	// Duration is how long the run is measured, from the instant at which all users run; with
	// a shape, from its start. Default 1 min.
	Duration time.Duration
	// Workers is how many workers must be connected before the users start. Default 1.
	// Exactly waits also while more are connected, as while others replace them.
	Workers int
	Exactly bool
	// Patience is how long the run waits for the workers, and beyond the ramp for the users.
	// Default 5 min.
	Patience time.Duration
	// Poll is the time between two looks. Default 2 s.
	Poll time.Duration
	// Now is the clock.
	Now func() time.Time
	// Observe, if not nil, receives each look.
	Observe func(Progress)
}

// Progress is a look during a run.
type Progress struct {
	// Doing is what the run waits for; "" while it is measured.
	Doing string
	// Done and Planned are times of the measurement.
	Done, Planned time.Duration
	Look          *Look
}

// A Result is what a run measured.
type Result struct {
	Format    int       `json:"swarm_format"` // version of this form
	Started   time.Time `json:"started_at"`
	Users     int       `json:"users"`                // asked for; 0 with a shape
	SpawnRate float64   `json:"spawn_rate,omitempty"` // users that were started per second
	Classes   []string  `json:"classes,omitempty"`    // classes of users
	Shape     string    `json:"shape,omitempty"`      // name of the shape
	// Seconds is the time for which the run was measured.
	Seconds float64 `json:"duration_seconds"`
	// The least and the most that were seen while it was measured.
	LeastUsers   int `json:"least_users"`
	MostUsers    int `json:"most_users"`    // the most users at a time
	LeastWorkers int `json:"least_workers"` // the fewest workers
	MostWorkers  int `json:"most_workers"`  // the most workers
	// Requests are by method and name, and Total adds up all. Without a shape, those of the
	// ramp are not among them, except such as were reported late.
	Requests []Request `json:"requests"`
	Total    Request   `json:"total"`            // all requests together
	Errors   []Error   `json:"errors,omitempty"` // errors by kind
	// Samples are at most 1,200 looks at the master while it was measured.
	Samples []Sample `json:"samples"`
	// Interrupted means that the caller ended the run early, and EndedEarly that the master
	// did. A shape ends its test by itself.
	Interrupted bool `json:"interrupted"`
	EndedEarly  bool `json:"ended_early"` // the test ended before its time
}

// Validate fails with a [*store.ValidationError].
func (o *Options) Validate() error {
	bad := func(field, value, reason string) error {
		return &store.ValidationError{Field: field, Value: value, Reason: reason}
	}
	switch {
	case o.Order.Shape == "" && (o.Order.Users < 1 || o.Order.Users > maxUsers):
		return bad("users", strconv.Itoa(o.Order.Users), "give 1 to "+strconv.Itoa(maxUsers))
	case o.Order.Shape == "" && (!(o.Order.SpawnRate > 0) || math.IsInf(o.Order.SpawnRate, 1)):
		return bad("spawn rate", strconv.FormatFloat(o.Order.SpawnRate, 'g', -1, 64), "give how many users start in a second, more than 0")
	case o.Duration < 0:
		return bad("duration", o.Duration.String(), "give more than 0")
	case o.Workers < 0:
		return bad("workers", strconv.Itoa(o.Workers), "give at least 1")
	case o.Patience < 0:
		return bad("patience", o.Patience.String(), "give more than 0")
	}
	return nil
}

// Run carries out one test. If ctx ends, Run stops the users and returns what was measured
// with the context's error; the result is nil if nothing was. The same holds if the master no
// longer answers. Run fails with [ErrBusy], [ErrWorkers], [ErrRamp] and a
// [*store.ValidationError].
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Duration, o.Workers = cmp.Or(o.Duration, time.Minute), cmp.Or(o.Workers, 1)
	o.Patience, o.Poll = cmp.Or(o.Patience, DefaultPatience), cmp.Or(o.Poll, DefaultPoll)
	if o.Observe == nil {
		o.Observe = func(Progress) {}
	}
	r := &run{o: o}
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	err := o.Page.Start(ctx, o.Order)
	if err == nil && o.Order.Shape == "" {
		err = r.ramp(ctx)
	}
	if err == nil {
		err = r.measure(ctx)
	}
	err = errors.Join(err, r.stop(ctx))
	return r.result, err
}

// A run is one call of [Run].
type run struct {
	o      Options
	result *Result // nil until the measurement begins
	began  time.Time
	last   *Look     // while the users ran
	lastAt time.Time // of last
	looks  int       // while the users ran
	every  int       // of how many looks one is a sample
}

// ready waits for the workers.
func (r *run) ready(ctx context.Context) error {
	began := r.o.Now()
	for {
		look, err := r.o.Page.Look(ctx)
		if err != nil {
			return err
		}
		switch {
		case look.State != Ready && look.State != Stopped:
			return ErrBusy
		case look.Connected() == r.o.Workers, look.Connected() > r.o.Workers && !r.o.Exactly:
			return nil
		case r.o.Now().Sub(began) >= r.o.Patience:
			return fmt.Errorf("%w: %d of %d", ErrWorkers, look.Connected(), r.o.Workers)
		}
		r.o.Observe(Progress{Doing: fmt.Sprintf("waiting for workers: %d of %d", look.Connected(), r.o.Workers), Look: look})
		if err := calls.Sleep(ctx, nil, r.o.Poll); err != nil {
			return err
		}
	}
}

// ramp waits until all users run.
func (r *run) ramp(ctx context.Context) error {
	began := r.o.Now()
	ends := began.Add(time.Duration(float64(r.o.Order.Users)/r.o.Order.SpawnRate*float64(time.Second)) + r.o.Patience)
	seen := false
	return r.watch(ctx, func(look *Look) (bool, error) {
		seen = seen || look.State == Spawning || look.State == Running
		switch now := r.o.Now(); {
		case look.State == Running && look.Users >= r.o.Order.Users:
			return true, nil
		case over(look) && (seen || now.Sub(began) >= startUp), !now.Before(ends):
			return true, ErrRamp
		}
		r.o.Observe(Progress{Doing: fmt.Sprintf("starting users: %d of %d", look.Users, r.o.Order.Users), Look: look})
		return false, nil
	})
}

// measure resets the statistics, and watches the test for its time.
func (r *run) measure(ctx context.Context) error {
	if r.o.Order.Shape == "" {
		if err := r.o.Page.Reset(ctx); err != nil {
			return err
		}
	}
	r.began = r.o.Now()
	r.every = 1
	r.result = &Result{
		Format: Format, Samples: []Sample{}, Started: r.began.UTC(), Classes: r.o.Order.Classes, Shape: r.o.Order.Shape,
		LeastUsers: math.MaxInt, LeastWorkers: math.MaxInt, Requests: []Request{},
	}
	if r.o.Order.Shape == "" {
		r.result.Users, r.result.SpawnRate = r.o.Order.Users, r.o.Order.SpawnRate
	}
	seen := r.o.Order.Shape == ""
	err := r.watch(ctx, func(look *Look) (bool, error) {
		done := r.o.Now().Sub(r.began)
		seen = seen || look.State == Spawning || look.State == Running
		if over(look) && (seen || done >= startUp) {
			r.result.EndedEarly = done < r.o.Duration
			return true, nil
		}
		if seen && !over(look) {
			r.note(look)
		}
		r.o.Observe(Progress{Done: done, Planned: r.o.Duration, Look: look})
		return done >= r.o.Duration, nil
	})
	r.result.Seconds = r.o.Now().Sub(r.began).Seconds()
	r.result.Interrupted = ctx.Err() != nil
	return err
}

// over reports whether no test runs.
func over(look *Look) bool { return look.State == Ready || look.State == Stopped }

// note keeps a look while the users ran.
func (r *run) note(look *Look) {
	r.last, r.lastAt = look, r.o.Now()
	r.result.LeastUsers, r.result.MostUsers = min(r.result.LeastUsers, look.Users), max(r.result.MostUsers, look.Users)
	n := look.Connected()
	r.result.LeastWorkers, r.result.MostWorkers = min(r.result.LeastWorkers, n), max(r.result.MostWorkers, n)
	r.sample(look)
}

// watch looks until done says so. It bears a silent master for a while.
func (r *run) watch(ctx context.Context, done func(*Look) (bool, error)) error {
	heard := r.o.Now()
	for {
		look, err := r.o.Page.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			heard = r.o.Now()
			if ended, err := done(look); ended || err != nil {
				return err
			}
		case r.o.Now().Sub(heard) >= silence:
			return err
		}
		if err := calls.Sleep(ctx, nil, r.nextLook()); err != nil {
			return err
		}
	}
}

// nextLook is the time until the next look: the measurement ends in time.
func (r *run) nextLook() time.Duration {
	if r.result == nil {
		return r.o.Poll
	}
	left := r.o.Duration - r.o.Now().Sub(r.began)
	return min(r.o.Poll, max(left, time.Millisecond))
}

// stop stops the users, waits until the master has the last reports, and reads them. It does
// so also after the end of ctx, because the users would otherwise run on.
func (r *run) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := r.o.Page.Stop(ctx)
	for {
		if err == nil {
			var look *Look
			if look, err = r.o.Page.Look(ctx); err == nil && over(look) {
				r.finish(look)
				return nil
			}
		}
		if calls.Sleep(ctx, nil, r.o.Poll) != nil {
			return fmt.Errorf("stop the users: %w: they may still run: stop them on the web page of the master, %s",
				cmp.Or(err, errors.New("the master does not say that they stopped")), r.o.Page.URL)
		}
		if err != nil {
			err = r.o.Page.Stop(ctx)
		}
	}
}

// finish takes the statistics of the last look, and the rates of the one before the stop.
func (r *run) finish(look *Look) {
	if r.result == nil {
		return
	}
	if r.last == nil {
		r.last, r.lastAt = look, r.o.Now()
		r.result.LeastUsers, r.result.LeastWorkers = 0, 0
	}
	seconds := r.lastAt.Sub(r.began).Seconds()
	rate := func(of, at *Request) {
		if seconds > 0 {
			of.PerSecond = float64(at.Requests) / seconds
		}
	}
	r.result.Total, r.result.Errors = look.Total, look.Errors
	rate(&r.result.Total, &r.last.Total)
	for i := range look.Requests {
		of := look.Requests[i]
		if k := slices.IndexFunc(r.last.Requests, func(q Request) bool { return q.Method == of.Method && q.Name == of.Name }); k >= 0 {
			rate(&of, &r.last.Requests[k])
		}
		r.result.Requests = append(r.result.Requests, of)
	}
}
