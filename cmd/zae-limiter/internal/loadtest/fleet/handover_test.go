package fleet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/store"
)

// job is one for ten minutes.
func job(now time.Time) fleet.Job {
	return fleet.Job{ID: "w", Master: "m:5557", Namespace: "n", Scenario: "simple", ConnectBy: now.Add(fleet.Startup), Until: now.Add(10 * time.Minute)}
}

// until carries load until it is stopped, and says when.
func until(at *time.Duration, began time.Time) fleet.Carry {
	return func(ctx context.Context, _ fleet.Job, stop <-chan struct{}) error {
		select {
		case <-stop:
			*at = time.Since(began)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestAWorkerLeavesInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout, want time.Duration
	}{
		"at the end of its job":          {15 * time.Minute, 10 * time.Minute},
		"before the end of its function": {8 * time.Minute, 8*time.Minute - fleet.Margin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				now, left := time.Now(), time.Duration(0)
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				w := &fleet.Function{Carry: until(&left, now), Now: time.Now}
				got, err := w.Handle(ctx, job(now))
				if want := (fleet.Leave{ID: "w", Reason: fleet.Replaced, Seconds: c.want.Seconds()}); err != nil || got != want || left != c.want {
					t.Errorf("it left after %v: %+v, %v", left, got, err)
				}
			})
		})
	}
}

func TestAJobThatIsLateIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	w := &fleet.Function{Now: time.Now, Carry: func(context.Context, fleet.Job, <-chan struct{}) error {
		t.Error("it is carried out")
		return nil
	}}
	for _, age := range []time.Duration{fleet.Startup, time.Hour} {
		if got, err := w.Handle(t.Context(), job(time.Now().Add(-age))); err != nil || got.Reason != fleet.Late {
			t.Errorf("after %v: %+v, %v", age, got, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), fleet.Margin)
	defer cancel()
	if got, err := w.Handle(ctx, job(time.Now())); err != nil || got.Reason != fleet.Late {
		t.Errorf("without time: %+v, %v", got, err)
	}
}

// A worker that does not stop is cut off before its function is.
func TestAWorkerThatDoesNotStopIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		w := &fleet.Function{Now: time.Now, Carry: func(ctx context.Context, _ fleet.Job, _ <-chan struct{}) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		_, err := w.Handle(ctx, job(began))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took >= 5*time.Minute || took < 5*time.Minute-fleet.Margin {
			t.Errorf("it ended after %v: %v", took, err)
		}
	})
}

func TestWhatAWorkerReports(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for _, c := range []struct {
		err    error
		reason string
	}{{nil, fleet.Sent}, {broken, fleet.Sent}} {
		w := &fleet.Function{Now: time.Now, Carry: func(context.Context, fleet.Job, <-chan struct{}) error { return c.err }}
		got, err := w.Handle(t.Context(), job(time.Now()))
		if !errors.Is(err, c.err) || got.Reason != c.reason {
			t.Errorf("%v: %+v, %v", c.err, got, err)
		}
	}
	w := &fleet.Function{Now: time.Now}
	if _, err := w.Handle(t.Context(), fleet.Job{}); !errors.As(err, new(*store.ValidationError)) {
		t.Errorf("an empty job: %v", err)
	}
}

func TestOrchestratorsEndBeforeATick(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		15 * time.Minute: 15*time.Minute - 5*time.Second, 15*time.Minute - time.Millisecond: 14*time.Minute - 5*time.Second, 90 * time.Second: 55 * time.Second,
	} {
		if got := fleet.EndOf(start, start.Add(timeout)).Sub(start); got != want {
			t.Errorf("with %v it ends after %v, want %v", timeout, got, want)
		}
	}
}

// An account is a Locust master, and the service of two functions: that of the workers, and
// that of the orchestrator, of which there is one at a time.
type account struct {
	mu      sync.Mutex
	dice    *rand.Rand
	workers map[string]*link
	users   int
	sum     int // of the statistics that arrived
	done    int // what the users did
	running int // functions of workers
	most    int
	hours   time.Duration // of all functions of workers
	calls   sync.WaitGroup
	worker  *fleet.Function
	timeout time.Duration
}

// A link is a worker at the master.
type link struct{ unsent int }

// Look shows the workers.
func (a *account) Look(context.Context) (fleet.View, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := fleet.View{State: swarm.Running, Users: a.users}
	for id := range a.workers {
		v.Workers = append(v.Workers, swarm.Worker{ID: id, State: swarm.Running})
	}
	return v, nil
}

// Start calls the function of the workers after some time, as an asynchronous call does.
func (a *account) Start(ctx context.Context, j fleet.Job) error {
	a.mu.Lock()
	cold := time.Duration(a.dice.IntN(int(20 * time.Second)))
	a.mu.Unlock()
	a.calls.Go(func() {
		time.Sleep(cold)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		a.count(1)
		defer a.count(-1)
		left, _ := a.worker.Handle(ctx, j)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.hours += time.Duration(left.Seconds * float64(time.Second))
	})
	return nil
}

func (a *account) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running += n
	a.most = max(a.most, a.running)
}

// carry is a worker: its users do one thing each second, and it reports each 3 s.
func (a *account) carry(ctx context.Context, j fleet.Job, stop <-chan struct{}) error {
	l := &link{}
	a.mu.Lock()
	a.workers[j.ID] = l
	a.mu.Unlock()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return ctx.Err() // what was not sent is lost
		case <-stop:
			time.Sleep(2 * time.Second) // the users end
			a.mu.Lock()
			a.done++ // the last thing that they do
			a.sum += l.unsent + 1
			delete(a.workers, j.ID)
			a.mu.Unlock()
			return nil
		case <-second.C:
			a.mu.Lock()
			share := (a.users + len(a.workers) - 1) / len(a.workers)
			a.done, l.unsent = a.done+share, l.unsent+share
			if i%3 == 0 {
				a.sum, l.unsent = a.sum+l.unsent, 0
			}
			a.mu.Unlock()
		}
	}
}

// Two hours of load over orchestrators that follow one another and workers that are replaced:
// every statistic arrives, users always have workers, and no more functions run than are
// reserved.
func TestReplacementsLoseNoStatistics(t *testing.T) {
	t.Parallel()
	for timeout, cost := range map[time.Duration]float64{fleet.MinTimeout: 1.45, 15 * time.Minute: 1.22} {
		t.Run(timeout.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &account{dice: rand.New(rand.NewPCG(1, 2)), workers: map[string]*link{}, timeout: timeout, users: 200}
				a.worker = &fleet.Function{Carry: a.carry, Now: time.Now}
				o := &fleet.Orchestrator{
					Master: a, Starter: a, Now: time.Now, Job: fleet.Job{Master: "m:5557", Namespace: "n", Scenario: "simple"},
					Options: fleet.Options{Min: 1, Max: 30, UsersPerWorker: 10, Timeout: timeout},
				}
				const lasts = 2 * time.Hour
				ends := time.Now().Add(lasts)
				for time.Now().Before(ends) { // the schedule
					called := time.Now()
					if _, err := o.Run(t.Context(), fleet.EndOf(called, called.Add(15*time.Minute))); err != nil {
						t.Fatal(err)
					}
					if len(a.workers) < 20 {
						t.Errorf("%d workers for 200 users after %v", len(a.workers), time.Since(called))
					}
					time.Sleep(time.Minute - time.Since(called)%time.Minute) // the next tick
				}
				a.calls.Wait()
				if a.sum != a.done || a.done < 200*2*60*60 {
					t.Errorf("the master has %d of %d", a.sum, a.done)
				}
				if got := float64(a.hours) / float64(20*lasts); got > cost || got < 1 {
					t.Errorf("the functions ran for %.2f of the time of 20 workers, docs/locust.md has less than %.2f", got, cost)
				}
				if a.most > o.Options.Concurrency() {
					t.Errorf("%d functions at a time, %d are reserved", a.most, o.Options.Concurrency())
				}
			})
		})
	}
}
