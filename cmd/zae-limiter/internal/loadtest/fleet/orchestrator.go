package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Job is what a worker is started with, the event of its function.
type Job struct {
	// ID begins the worker's name at the master.
	ID string `json:"id"`
	// Master is HOST:PORT of the master.
	Master string `json:"master"`
	// Namespace is where the load runs.
	Namespace string `json:"namespace"`
	// Scenario is the name of a scenario of the program; "" if File is given.
	Scenario string `json:"scenario,omitempty"`
	// File is the text of a scenario.
	File string `json:"file,omitempty"`
	// ConnectBy is the instant at which the worker ends if it is not connected.
	ConnectBy time.Time `json:"connect_by"`
	// Until is the instant at which the worker stops its users and leaves.
	Until time.Time `json:"until"`
}

// Validate fails with a [*store.ValidationError].
func (j *Job) Validate() error {
	bad := func(field, reason string) error { return &store.ValidationError{Field: field, Reason: reason} }
	switch {
	case j.ID == "":
		return bad("id", "give the worker a name that no other worker has")
	case j.Master == "":
		return bad("master", "give HOST:PORT of the Locust master")
	case j.Namespace == "":
		return bad("namespace", "give the namespace of the load")
	case (j.Scenario == "") == (j.File == ""):
		return bad("scenario", "give either the name of a scenario or the text of a file")
	case j.ConnectBy.IsZero():
		return bad("connect_by", "give the instant at which the worker ends if it is not connected")
	case j.Until.IsZero():
		return bad("until", "give the instant at which the worker leaves")
	}
	return nil
}

// A Master is asked for its state and its workers.
type Master interface {
	Look(ctx context.Context) (View, error)
}

// A Starter has a worker started, and does not wait for it.
type Starter interface {
	Start(ctx context.Context, j Job) error
}

// An Orchestrator keeps a master supplied with workers.
type Orchestrator struct {
	Master  Master
	Starter Starter
	Options Options
	// Job has what all workers have in common: Master, Namespace, and Scenario or File.
	Job Job
	// Poll is the time between two looks at the master; 0 is [DefaultPoll].
	Poll time.Duration
	// Now is the clock.
	Now func() time.Time
	// Logger gets the starts, and what went wrong; nil discards them.
	Logger *slog.Logger
}

// DefaultPoll is the default of [Orchestrator.Poll].
const DefaultPoll = 5 * time.Second

// A Summary is what an orchestrator did.
type Summary struct {
	Looks   int `json:"looks"`   // at the master, that it answered
	Started int `json:"started"` // workers
	Failed  int `json:"failed"`  // starts
	// Reason is why the orchestrator ended.
	Reason string `json:"reason"`
}

// Reasons for which an orchestrator ends.
const (
	NoMaster   = "no master answers"
	TimeIsUp   = "the time is up"
	WasStopped = "it was stopped"
)

// Run starts workers until an instant. It ends earlier if the context ends, or if the master
// has not answered for [Silence]; a master that does not answer the first time ends it at
// once. In the last [Startup] before the end it starts nothing.
func (o *Orchestrator) Run(ctx context.Context, end time.Time) (Summary, error) {
	var s Summary
	f, err := New(o.Options)
	if err != nil {
		return s, err
	}
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var heard time.Time
	for {
		view, err := o.Master.Look(ctx)
		now := o.Now()
		switch {
		case ctx.Err() != nil: // the pause ends the loop
		case err == nil:
			heard = now
			s.Looks++
			if now.Before(end.Add(-Startup)) {
				o.start(ctx, log, &s, f.Plan(now, view))
			}
		case now.Sub(heard) >= Silence: // as it is before the first answer
			log.WarnContext(ctx, NoMaster, "error", err)
			s.Reason = NoMaster
			return s, nil
		default:
			log.WarnContext(ctx, "the master does not answer", "error", err)
		}
		if !o.pause(ctx, end) {
			s.Reason = TimeIsUp
			if ctx.Err() != nil {
				s.Reason = WasStopped
			}
			return s, nil
		}
	}
}

// start has workers started.
func (o *Orchestrator) start(ctx context.Context, log *slog.Logger, s *Summary, all []Start) {
	for _, w := range all {
		j := o.Job
		j.ID, j.Until, j.ConnectBy = w.ID, w.Until.UTC(), w.ConnectBy.UTC()
		if err := o.Starter.Start(ctx, j); err != nil {
			s.Failed++
			log.WarnContext(ctx, "a worker could not be started", "id", j.ID, "error", err)
			continue
		}
		s.Started++
		log.InfoContext(ctx, "worker started", "id", j.ID, "until", j.Until)
	}
}

// pause waits for the next look. It reports whether there is one before the end.
func (o *Orchestrator) pause(ctx context.Context, end time.Time) bool {
	poll := cmp.Or(o.Poll, DefaultPoll)
	if !o.Now().Add(poll).Before(end) {
		return false
	}
	return calls.Sleep(ctx, nil, poll) == nil
}
