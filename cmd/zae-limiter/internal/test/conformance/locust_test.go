//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

const swarmed = "swarmed"

// work runs the command loadtest worker, and returns what it prints at its end.
func work(t *testing.T, api dynamo.API, args ...string) []locust.Total {
	t.Helper()
	var out bytes.Buffer
	a := &app.App{
		Stdout: &out, Stderr: t.Output(), Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) { return api, nil },
	}
	root := &cobra.Command{Use: "zae-limiter", SilenceErrors: true, SilenceUsage: true}
	a.Flags.Bind(root.PersistentFlags())
	root.AddCommand(loadtest.NewWorker(a))
	root.SetArgs(append([]string{"worker", "--table", swarmed, "--namespace", "load", "--output", "json"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("worker: %v", err)
	}
	var printed struct{ Requests []locust.Total }
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Errorf("the worker prints %s: %v", &out, err)
	}
	return printed.Requests
}

// flaky fails every 25th write to a bucket, once some have passed. A slow machine makes a few
// hundred.
func flaky() faults.Hook {
	var calls atomic.Int64
	return faults.On(faults.Before(func(*faults.Call) error {
		const enough, every = 100, 25
		if n := calls.Add(1); n > enough && n%every == 0 {
			return errors.New("no route")
		}
		return nil
	}), faults.UpdateItem)
}

// A real master leads two workers that carry out a scenario on a server. Its totals are
// those of the workers, failures included.
//
// When a master quits, it waits half a second of real time for the last reports. A loaded
// machine may need longer. So a run whose totals differ from the books is repeated.
func TestLocustCountsWhatWorkersDo(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, locustfile string
		scenario         []string
		hook             faults.Hook
		methods          []string
		exit             int
	}{
		{
			"every call", "testdata/mixed.py",
			[]string{"--file", "testdata/mixed.yaml"},
			flaky(),
			[]string{
				"ACQUIRE", "AVAILABLE", "COMMIT", "GET_CHILDREN", "GET_ENTITY", "GET_LIMITS", "GET_RESOURCE_DEFAULTS", "GET_SYSTEM_DEFAULTS",
				"LIST_RESOURCES_WITH_DEFAULTS", "RATE_LIMITED", "SET_LIMITS", "SET_RESOURCE_DEFAULTS",
			},
			1,
		},
		{"an example", "../../../../../examples/locust/stress.py", []string{"stress"}, faults.Chain(), []string{"ACQUIRE", "AVAILABLE"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var diff string
			for range 6 {
				booked, reported, exit := swarmRun(t, path, c.locustfile, c.scenario, c.hook)
				if diff = cmp.Diff(booked, reported); diff != "" {
					continue
				}
				methods, failures := []string{}, int64(0)
				for of, n := range reported {
					method, _, _ := strings.Cut(of, " ")
					methods, failures = append(methods, method), failures+n[1]
				}
				slices.Sort(methods)
				if diff := cmp.Diff(c.methods, slices.Compact(methods)); diff != "" || exit != c.exit || (failures > 0) != (exit == 1) {
					t.Errorf("exit code %d, %d failures, methods (-want +got):\n%s", exit, failures, diff)
				}
				return
			}
			t.Errorf("books (-) and Locust's totals (+):\n%s", diff)
		})
	}
}

// swarmRun has two workers carry out a scenario for eight seconds. It returns the requests and
// failures of each method and name that the workers have booked and that the master reports.
func swarmRun(t *testing.T, program, locustfile string, scenario []string, hook faults.Hook) (booked, reported map[string][2]int64, exit int) {
	t.Helper()
	served := peers.Serve(t, program)
	if err := dynamo.CreateTable(t.Context(), served.Client, dynamo.TableOptions{Name: swarmed}); err != nil {
		t.Fatal(err)
	}
	const workers = 2
	done := make(chan []locust.Total)
	entries, exit := peers.RunLocust(t, locustfile, func(master string) {
		for range workers {
			go func() {
				done <- work(t, faults.Wrap(served.Client, hook), append(slices.Clone(scenario), "--locust", master)...)
			}()
		}
	}, "--headless", "-u", "40", "-r", "20", "-t", "8s", "--expect-workers", "2", "--stop-timeout", "60")
	booked, reported = map[string][2]int64{}, map[string][2]int64{}
	for range workers {
		for _, line := range <-done {
			n := booked[line.Method+" "+line.Name]
			booked[line.Method+" "+line.Name] = [2]int64{n[0] + line.Requests, n[1] + line.Failures}
		}
	}
	for _, e := range entries {
		reported[e.Method+" "+e.Name] = [2]int64{e.Requests, e.Failures}
	}
	return booked, reported, exit
}

// The examples have the classes of their scenarios, and their shapes.
func TestLocustfilesFitTheScenarios(t *testing.T) {
	t.Parallel()
	const script = `
import importlib, inspect, json, sys
import locust
sys.path.insert(0, sys.argv[1])
module = importlib.import_module(sys.argv[2])
mine = [c for _, c in inspect.getmembers(module, inspect.isclass) if not c.__dict__.get("abstract")]
users = [c.__name__ for c in mine if issubclass(c, locust.User)]
shapes = []
for c in mine:
    if issubclass(c, locust.LoadTestShape):
        shape, at = c(), 0
        for seconds, _, _ in c.stages:
            for run_time in (at, at + seconds - 1):
                shape.get_run_time = lambda: run_time
                shapes.append([run_time, *shape.tick()])
            at += seconds
        shape.get_run_time = lambda: at
        shapes.append([at, 0, 0] if shape.tick() is None else [at, -1, -1])
json.dump({"Users": sorted(users), "Shape": shapes}, sys.stdout)
`
	for _, name := range []string{"simple", "max-rps", "llm-gateway", "llm-production", "llm-production-spike", "stress"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Builtin(name)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), peers.LocustPython(t), "-B", "-c", script,
				filepath.Join("..", "..", "..", "..", "..", "examples", "locust"), strings.ReplaceAll(name, "-", "_"))
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			type file struct {
				Users []string
				Shape [][3]float64
			}
			var got file
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			want := file{Shape: [][3]float64{}}
			for i := range s.Classes {
				want.Users = append(want.Users, s.Classes[i].Name)
			}
			slices.Sort(want.Users)
			if stages := s.Classes[0].Arrival.Stages; len(stages) > 1 {
				at := 0.0
				for _, stage := range stages {
					row := [3]float64{at, float64(stage.Users), stage.Spawn}
					want.Shape = append(want.Shape, row)
					at += stage.For.Seconds()
					row[0] = at - 1
					want.Shape = append(want.Shape, row)
				}
				want.Shape = append(want.Shape, [3]float64{at, 0, 0})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("scenario (-) and locustfile (+):\n%s", diff)
			}
		})
	}
}
