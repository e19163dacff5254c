package fleet

import (
	"context"
	"fmt"
	"time"
)

// A Carry carries load as a worker of a Locust master. It must connect by Job.ConnectBy under
// a name that is Job.ID, or begins with it and an underscore, or return. It runs users as the master asks until stop is closed. Then it
// stops its users, sends its last statistics, says that it has stopped, in this order, and
// returns. It also returns when the master tells it to quit, and as soon as the context ends.
type Carry func(ctx context.Context, j Job, stop <-chan struct{}) error

// cut is the time before the timeout of a function at which the context of a [Carry] ends.
const cut = 5 * time.Second

// A Function is the function of the workers.
type Function struct {
	Carry Carry
	// Now is the clock.
	Now func() time.Time
}

// A Leave says how a worker ended.
type Leave struct {
	ID      string  `json:"id"`
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds"` // for which it worked
}

// Reasons for which a worker ends without an error.
const (
	Replaced = "its time was up"
	Sent     = "the master sent it away"
	Late     = "it started too late"
)

// Handle carries out one job. The worker leaves at Job.Until, or [Margin] before the deadline
// of the context, if that is earlier. A job that arrives too late is done at once: the
// orchestrator has started another worker.
func (f *Function) Handle(ctx context.Context, j Job) (Leave, error) {
	if err := j.Validate(); err != nil {
		return Leave{}, fmt.Errorf("carry out a job: %w", err)
	}
	began, until := f.Now(), j.Until
	if deadline, ok := ctx.Deadline(); ok {
		if last := deadline.Add(-Margin); last.Before(until) {
			until = last
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-cut))
		defer cancel()
	}
	if !began.Before(j.ConnectBy) || !began.Before(until) {
		return Leave{ID: j.ID, Reason: Late}, nil
	}
	stop := make(chan struct{})
	timer := time.AfterFunc(until.Sub(began), func() { close(stop) })
	defer timer.Stop()
	err := f.Carry(ctx, j, stop)
	left := Leave{j.ID, Sent, f.Now().Sub(began).Seconds()}
	select {
	case <-stop:
		left.Reason = Replaced
	default:
	}
	if err != nil {
		return left, fmt.Errorf("worker %s, after %.0f s: %w", j.ID, left.Seconds, err)
	}
	return left, nil
}

// Periods of the schedule that calls the orchestrator.
const (
	tick  = time.Minute
	pause = 5 * time.Second
)

// EndOf is the instant at which an orchestrator ends that is called now and has a deadline:
// shortly before a tick of its schedule, so that its successor starts soon.
func EndOf(now, deadline time.Time) time.Time {
	return now.Add(deadline.Sub(now).Truncate(tick) - pause)
}
