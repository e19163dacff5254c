package locust_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
)

// tasks is a load of two classes. Each operation is a request that takes as many
// milliseconds as its number has left over by 700, and every fiftieth fails.
type tasks struct {
	think time.Duration
	// holding is how long an operation goes on after its request; only the end of the
	// context ends it earlier.
	holding time.Duration
	active  atomic.Int64 // operations under way
	done    atomic.Int64 // requests
}

const failEvery = 50

var errTask = errors.New(`it's "bad"`)

func (*tasks) Classes() []string { return []string{"Reader", "Writer"} }

func (l *tasks) Do(ctx context.Context, op locust.Op, report func(locust.Event)) time.Duration {
	l.active.Add(1)
	defer l.active.Add(-1)
	e := locust.Event{Method: "DO", Name: l.Classes()[op.Class], Took: time.Duration(op.N%700) * time.Millisecond, Size: 3}
	if op.N%failEvery == 0 {
		e.Err = errTask
	}
	l.done.Add(1)
	report(e)
	if l.holding > 0 {
		hold := time.NewTimer(l.holding)
		defer hold.Stop()
		select {
		case <-hold.C:
			report(locust.Event{Method: "HELD", Name: e.Name, Took: l.holding})
		case <-ctx.Done():
			report(locust.Event{Method: "HELD", Name: e.Name, Took: l.holding, Err: ctx.Err()})
		}
	}
	return l.think
}
