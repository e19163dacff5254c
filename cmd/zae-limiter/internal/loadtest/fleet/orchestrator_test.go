package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/store"
)

// A service is a master and a function service in one: what it starts is connected at once.
type service struct {
	view  fleet.View
	jobs  []fleet.Job
	down  func() error // of the master; nil answers
	fails error        // of the starts
	times []time.Duration
	began time.Time
}

func (s *service) Look(context.Context) (fleet.View, error) {
	if s.down != nil {
		if err := s.down(); err != nil {
			return fleet.View{}, err
		}
	}
	return s.view, nil
}

func (s *service) Start(_ context.Context, j fleet.Job) error {
	s.jobs, s.times = append(s.jobs, j), append(s.times, time.Since(s.began))
	if s.fails == nil {
		s.view.Workers = append(s.view.Workers, swarm.Worker{ID: j.ID, State: swarm.Running})
	}
	return s.fails
}

func (s *service) orchestrator() *fleet.Orchestrator {
	s.began = time.Now()
	return &fleet.Orchestrator{Master: s, Starter: s, Options: usual, Now: time.Now, Job: fleet.Job{Master: "master:5557", Namespace: "load", Scenario: "simple"}}
}

func (s *service) run(t *testing.T, d time.Duration) fleet.Summary {
	t.Helper()
	got, err := s.orchestrator().Run(t.Context(), time.Now().Add(d))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheOrchestratorStartsWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{view: fleet.View{State: swarm.Running, Users: 25}}
		got := s.run(t, 2*time.Minute)
		if want := (fleet.Summary{Looks: 24, Started: 3, Reason: fleet.TimeIsUp}); got != want {
			t.Errorf("it says %+v, want %+v", got, want)
		}
		for _, j := range s.jobs {
			if err := j.Validate(); err != nil || j.ConnectBy.Sub(s.began) != fleet.Startup || j.Until.Before(j.ConnectBy) {
				t.Errorf("job %+v: %v", j, err)
			}
		}
	})
}

// Its successor does not know what it has started last, so it starts nothing then.
func TestTheOrchestratorIsSilentAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		s.down = func() error {
			s.view = fleet.View{State: swarm.Running, Users: 10 * len(s.times)} // one more each time
			s.view.Users += 10
			return nil
		}
		s.run(t, 2*time.Minute)
		if last := s.times[len(s.times)-1]; last >= 2*time.Minute-fleet.Startup || last < 80*time.Second {
			t.Errorf("the last worker was started after %v", last)
		}
	})
}

func TestWithoutAMasterTheOrchestratorEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("no such host")
		s := &service{down: func() error { return gone }}
		if got := s.run(t, time.Hour); got.Reason != fleet.NoMaster || time.Since(s.began) > 0 {
			t.Errorf("it says %+v after %v", got, time.Since(s.began))
		}
		s = &service{}
		s.down = func() error { // it answers for 20 s, and after a pause of 20 s until 100 s
			if at := time.Since(s.began); at >= 20*time.Second && at < 40*time.Second || at > 100*time.Second {
				return gone
			}
			return nil
		}
		if got, took := s.run(t, time.Hour), time.Since(s.began); got.Reason != fleet.NoMaster || took != 160*time.Second {
			t.Errorf("it says %+v after %v", got, took)
		}
	})
}

func TestAnOrchestratorThatIsStoppedEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		got, err := s.orchestrator().Run(ctx, time.Now().Add(time.Hour))
		if err != nil || got.Reason != fleet.WasStopped || time.Since(s.began) != 12*time.Second {
			t.Errorf("it says %+v after %v: %v", got, time.Since(s.began), err)
		}
	})
}

// A start that failed is repeated when its worker would have been connected, because an
// error may hide a start that succeeded.
func TestAFailedStartIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{fails: errors.New("rate exceeded")}
		got := s.run(t, 100*time.Second)
		if got.Failed != 3 || got.Started != 0 {
			t.Errorf("it says %+v", got)
		}
		if diff := cmp.Diff([]time.Duration{0, fleet.Startup, 2 * fleet.Startup}, s.times); diff != "" {
			t.Errorf("instants of the starts (-want +got):\n%s", diff)
		}
	})
}

func TestTheOrchestratorChecksItsOptions(t *testing.T) {
	t.Parallel()
	o := (&service{}).orchestrator()
	o.Options.Max = 0
	if _, err := o.Run(t.Context(), start); !errors.As(err, new(*store.ValidationError)) {
		t.Error(err)
	}
}

func TestJobsAreChecked(t *testing.T) {
	t.Parallel()
	good := fleet.Job{ID: "w", Master: "m:1", Namespace: "n", Scenario: "simple", ConnectBy: start, Until: start}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for field, spoil := range map[string]func(*fleet.Job){
		"id": func(j *fleet.Job) { j.ID = "" }, "master": func(j *fleet.Job) { j.Master = "" },
		"namespace": func(j *fleet.Job) { j.Namespace = "" }, "scenario": func(j *fleet.Job) { j.File = "name: x" },
		"connect_by": func(j *fleet.Job) { j.ConnectBy = time.Time{} }, "until": func(j *fleet.Job) { j.Until = time.Time{} },
	} {
		j := good
		spoil(&j)
		bad := (*store.ValidationError)(nil)
		if err := j.Validate(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Answers of Locust 2.47, shortened.
const (
	answer = `{"current_rps":1.5,"errors":[],"state":"running","stats":[{"name":"Aggregated"}],"user_count":12,"worker_count":1,
		"workers":[{"cpu_usage":3.1,"id":"zael-1700000100-A","memory_usage":1,"state":"running","user_count":12},{"id":"host_1","state":"missing"}]}`
	alone = `{"errors":[],"state":"running","stats":[],"user_count":12}`
)

func TestTheMasterIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		code int
		want fleet.View
		says string
	}{
		"an answer":           {answer, 200, fleet.View{State: "running", Users: 12, Workers: []swarm.Worker{{ID: "zael-1700000100-A", State: "running"}, {ID: "host_1", State: "missing"}}}, ""},
		"no workers":          {`{"state":"ready","user_count":0,"workers":[]}`, 200, fleet.View{State: "ready", Workers: []swarm.Worker{}}, ""},
		"no list of workers":  {alone, 200, fleet.View{}, "start Locust with --master"},
		"another page":        {`<html>`, 200, fleet.View{}, "no JSON"},
		"an error of a proxy": {answer, 502, fleet.View{}, "502"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/stats/requests" {
				t.Errorf("%s: it asks for %s", name, r.URL)
			}
			w.WriteHeader(c.code)
			_, _ = w.Write([]byte(c.body))
		}))
		got, err := fleet.Locust{Page: &swarm.Page{URL: server.URL, Client: server.Client()}}.Look(t.Context())
		server.Close()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (fleet.Locust{Page: &swarm.Page{URL: "http://127.0.0.1:1", Client: http.DefaultClient}}).Look(t.Context()); err == nil {
		t.Error("no server answers, and there is no error")
	}
}
