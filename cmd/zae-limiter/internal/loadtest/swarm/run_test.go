package swarm_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/store"
)

// options are those of a run of 40 users for a minute.
func options(m *master) swarm.Options {
	return swarm.Options{Page: m.page(), Order: swarm.Order{Users: 40, SpawnRate: 4}, Duration: time.Minute, Now: time.Now}
}

// A run measures while all users run, and its total has every request that the master has
// counted since the reset.
func TestARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMaster()
		o := options(m)
		o.Order.Classes = []string{"Reader"}
		doing := map[string]bool{}
		o.Observe = func(p swarm.Progress) {
			doing[strings.TrimRight(p.Doing, "0123456789 of")] = true
			if p.Planned > 0 && p.Done > p.Planned || p.Look == nil {
				t.Errorf("progress %+v", p)
			}
		}
		got, err := swarm.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		want := &swarm.Result{
			Format: swarm.Format, Samples: got.Samples, Started: got.Started, Users: 40, SpawnRate: 4, Classes: []string{"Reader"}, Seconds: 60, LeastUsers: 40, MostUsers: 40, LeastWorkers: 2, MostWorkers: 2,
			Requests: got.Requests, Total: got.Total, Errors: []swarm.Error{{"ACQUIRE", "api", "throttled", 2}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if all := got.Total; all.Requests != int64(m.sent()-m.cleared) || math.Abs(all.PerSecond-400) > 20 || all.Mean != 7.25 || all.P50 != 7 || all.P95 != 12 || all.P99 != 31 || all.Min != 5 || all.Max != 140 || all.Failures != 2 {
			t.Errorf("total %+v of %v", all, m.sent()-m.cleared)
		}
		if len(got.Samples) < 30 || got.Samples[10] != (swarm.Sample{At: 20, Users: 40, Workers: 2, PerSecond: 3.5, FailedPerSecond: 0.5, P50: 7}) {
			t.Errorf("%d samples: %+v", len(got.Samples), got.Samples[:min(11, len(got.Samples))])
		}
		if len(got.Requests) != 2 || got.Requests[0].Method != "ACQUIRE" || math.Abs(got.Requests[1].PerSecond-100) > 5 {
			t.Errorf("requests %+v", got.Requests)
		}
		if m.stops != 1 || m.asked[0].Encode() != "spawn_rate=4&user_classes=Reader&user_count=40" {
			t.Errorf("%d stops, asked for %v", m.stops, m.asked)
		}
		if !doing["starting users:"] || !doing[""] {
			t.Errorf("it told %v", doing)
		}
	})
}

// A run waits for its workers.
func TestWorkersAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMaster()
		o := options(m)
		o.Workers, o.Patience = 5, time.Minute
		if _, err := swarm.Run(t.Context(), o); !errors.Is(err, swarm.ErrWorkers) || !strings.Contains(err.Error(), "2 of 5") {
			t.Errorf("two workers: %v", err)
		}
		if len(m.asked) > 0 {
			t.Error("it started users all the same")
		}
		time.AfterFunc(30*time.Second, func() { m.do(func() { m.workers = 5 }) })
		if got, err := swarm.Run(t.Context(), o); err != nil || got.LeastWorkers != 5 {
			t.Errorf("workers that come late: %+v, %v", got, err)
		}
		o.Exactly, m.workers = true, 6
		time.Sleep(2 * time.Second) // the page keeps its last answer for so long
		time.AfterFunc(30*time.Second, func() { m.do(func() { m.workers = 5 }) })
		if got, err := swarm.Run(t.Context(), o); err != nil || got.MostWorkers != 5 {
			t.Errorf("a worker too many: %+v, %v", got, err)
		}
	})
}

// A master with a test of somebody else is left alone.
func TestABusyMasterIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, state := range []string{swarm.Spawning, swarm.Running, swarm.Stopping, "cleanup"} {
		synctest.Test(t, func(t *testing.T) {
			m := newMaster()
			m.state, m.users = state, 1
			if _, err := swarm.Run(t.Context(), options(m)); !errors.Is(err, swarm.ErrBusy) || m.stops > 0 || len(m.asked) > 0 {
				t.Errorf("%s: %v", state, err)
			}
		})
	}
}

// Whatever ends a run, it stops the users, and shows what it has measured.
func TestEveryRunIsStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(m *master, o *swarm.Options, cancel func())
		is      error
		says    string
		has     func(*swarm.Result) bool
		stopped bool
	}{
		"an interruption": {
			func(_ *master, _ *swarm.Options, cancel func()) { time.AfterFunc(40*time.Second, cancel) }, context.Canceled, "",
			func(r *swarm.Result) bool {
				return r != nil && r.Interrupted && r.Total.Requests > 9000 && math.Abs(r.Seconds-29) < 2 && r.Total.PerSecond > 300
			}, true,
		},
		"an interruption of the ramp": {
			func(_ *master, _ *swarm.Options, cancel func()) { time.AfterFunc(5*time.Second, cancel) }, context.Canceled, "",
			func(r *swarm.Result) bool { return r == nil }, true,
		},
		"users that do not start": {
			func(m *master, o *swarm.Options, _ func()) { m.lost, o.Patience = 1, 20*time.Second }, swarm.ErrRamp, "",
			func(r *swarm.Result) bool { return r == nil }, true,
		},
		"an unknown class": {
			func(_ *master, o *swarm.Options, _ func()) { o.Order.Classes = []string{"Reader", "Nobody"} }, nil, "no class Nobody",
			func(r *swarm.Result) bool { return r == nil }, true,
		},
		"a master without a picker": {
			func(m *master, o *swarm.Options, _ func()) { m.picks, o.Order.Classes = false, []string{"Reader"} }, nil, "--class-picker",
			func(r *swarm.Result) bool { return r == nil }, true,
		},
		"a shape without a picker": {
			func(m *master, o *swarm.Options, _ func()) { m.picks, o.Order.Shape = false, "Spike" }, nil, "--class-picker",
			func(r *swarm.Result) bool { return r == nil }, true,
		},
		"a refusal": {
			func(m *master, _ *swarm.Options, _ func()) { m.refuses = true }, nil, "it refuses: no shape",
			func(r *swarm.Result) bool { return r == nil }, true,
		},
		"a test that somebody stops": {
			func(m *master, _ *swarm.Options, _ func()) { m.ends = 30 * time.Second }, nil, "",
			func(r *swarm.Result) bool {
				return r != nil && r.EndedEarly && !r.Interrupted && r.Seconds < 30 && r.Total.Requests > 6000
			}, true,
		},
		"a master that is silent for a while": {
			func(m *master, _ *swarm.Options, _ func()) {
				time.AfterFunc(20*time.Second, func() { m.do(func() { m.silent = true }) })
				time.AfterFunc(45*time.Second, func() { m.do(func() { m.silent = false }) })
			}, nil, "",
			func(r *swarm.Result) bool { return r != nil && r.Seconds == 60 && r.Total.Requests > 20_000 }, true,
		},
		"a master that goes": {
			func(m *master, _ *swarm.Options, _ func()) {
				time.AfterFunc(20*time.Second, func() { m.do(func() { m.silent = true }) })
			}, nil, "they may still run: stop them on the web page of the master, http://master:8089",
			func(r *swarm.Result) bool { return r != nil && r.Total.Requests == 0 }, false,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := newMaster()
			o := options(m)
			c.change(m, &o, cancel)
			got, err := swarm.Run(ctx, o)
			if (err == nil) != (c.is == nil && c.says == "") || c.is != nil && !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
			if !c.has(got) {
				t.Errorf("%s: %+v", name, got)
			}
			if (m.stops > 0) != c.stopped {
				t.Errorf("%s: %d stops", name, m.stops)
			}
		})
	}
}

// A shape says how many users there are, and when they end. Its run begins at once.
func TestAShape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMaster()
		m.ends = 20 * time.Second
		o := options(m)
		o.Order = swarm.Order{Shape: "Spike"}
		got, err := swarm.Run(t.Context(), o)
		if err != nil || got.Shape != "Spike" || got.Users != 0 || !got.EndedEarly || got.MostUsers != 30 || got.Total.Requests != int64(m.sent()) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Nothing is sent for options that are wrong.
func TestOptions(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*swarm.Options){
		"users":      func(o *swarm.Options) { o.Order.Users = 0 },
		"spawn rate": func(o *swarm.Options) { o.Order.SpawnRate = math.NaN() },
		"duration":   func(o *swarm.Options) { o.Duration = -1 },
		"workers":    func(o *swarm.Options) { o.Workers = -1 },
		"patience":   func(o *swarm.Options) { o.Patience = -1 },
	} {
		m := newMaster()
		o := options(m)
		change(&o)
		_, err := swarm.Run(t.Context(), o)
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != field || len(m.asked) > 0 {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What is no page of a master is an error that says so.
func TestStrangePages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code       int
		body, says string
	}{
		"a Locust without workers": {200, `{"state":"running","user_count":3,"stats":[]}`, "start Locust with --master"},
		"another program":          {200, `<html>`, "no JSON"},
		"a proxy":                  {502, `{}`, "502"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.code)
			_, _ = w.Write([]byte(c.body))
		}))
		page := &swarm.Page{URL: server.URL + "/", Client: server.Client()}
		if _, err := page.Look(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if err := page.Start(t.Context(), swarm.Order{Users: 1, SpawnRate: 1}); err == nil {
			t.Errorf("%s: users were started", name)
		}
		server.Close()
	}
}

// A long run has no more samples than a short one may have, evenly over its time.
func TestSamplesOfALongRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(newMaster())
		o.Duration = 3 * time.Hour
		got, err := swarm.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got.Samples); n < 600 || n > 1200 || got.Samples[0].At != 0 || got.Samples[n-1].At < 10_780 {
			t.Fatalf("%d samples, to %+v", n, got.Samples[n-1])
		}
		for i, s := range got.Samples {
			if math.Abs(s.At-16*float64(i)) > 1e-6 {
				t.Fatalf("sample %d of a run of 3 h: %+v", i, s)
			}
		}
	})
}
