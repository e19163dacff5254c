package loadtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/search"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// A page is the web page of a Locust master whose users all start at once. A request takes 10
// ms, and 1 ms more for each user beyond ten on each of the workers.
type page struct {
	mu      sync.Mutex
	workers int
	users   int
	runs    []string
	runsNow bool
	asked   map[string]int
	url     string
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]int{}
	}
	p.asked[r.URL.Path]++
	state := swarm.Stopped
	switch r.URL.Path {
	case "/swarm":
		_, _ = fmt.Sscan(r.FormValue("user_count"), &p.users)
		p.runs, p.runsNow = append(p.runs, r.PostForm.Encode()), true
		_, _ = io.WriteString(w, `{"success": true, "user_classes": ["Simple"]}`)
		return
	case "/stop":
		p.runsNow = false
	}
	if p.runsNow {
		state = swarm.Running
	}
	workers := make([]map[string]string, p.workers)
	for i := range workers {
		workers[i] = map[string]string{"id": strconv.Itoa(i), "state": state}
	}
	mean := 10 + max(0, float64(p.users)/float64(p.workers)-10)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"state": state, "user_count": p.users, "workers": workers, "current_rps": 1.5,
		"errors": []map[string]any{{"method": "ACQUIRE", "name": "api", "error": "throttled", "occurrences": 3}},
		"stats": []map[string]any{
			{"method": "ACQUIRE", "name": "api", "num_requests": 1000, "num_failures": 3, "avg_response_time": mean, "median_response_time": 10, "response_time_percentile_0.99": 31},
			{"method": "", "name": "Aggregated", "num_requests": 1000, "num_failures": 3, "avg_response_time": mean, "median_response_time": 10, "response_time_percentile_0.99": 31},
		},
	})
}

// serve serves the page.
func (p *page) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p.url
}

func TestASwarmRuns(t *testing.T) {
	t.Parallel()
	p := &page{workers: 2}
	url := p.serve(t)
	code, stdout, stderr := command(t.Context(), "swarm", "run", "Simple", "--url", url, "--users", "30", "--spawn-rate", "15", "--duration", "300ms", "--workers", "2", "--yes")
	if code != 0 || !strings.Contains(stdout, "ACQUIRE  api") || !strings.Contains(stdout, "3 failures of ACQUIRE api: throttled\n") ||
		!strings.Contains(stdout, "30 to 30\n") || !strings.Contains(stdout, "2 to 2\n") {
		t.Errorf("exit code %d, errors %q, output:\n%s", code, stderr, stdout)
	}
	if !strings.Contains(stderr, "0s of 0s: 30 users, 2 workers, requests 2/s, failures 0.0/s, mean 20ms, p95 0s, p99 31ms") && !strings.Contains(stderr, "30 users, 2 workers") {
		t.Errorf("lines %q", stderr)
	}
	if len(p.runs) != 1 || p.runs[0] != "spawn_rate=15&user_classes=Simple&user_count=30" || p.asked["/stop"] != 1 {
		t.Errorf("it asked for %v, %v", p.runs, p.asked)
	}

	code, stdout, stderr = command(t.Context(), "swarm", "run", "--url", url, "--duration", "200ms", "--yes", "--output", "json")
	var r swarm.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" || r.Total.Requests != 1000 || r.Users != 20 {
		t.Errorf("%v: exit code %d, errors %q, output %s", err, code, stderr, stdout)
	}

	// The result becomes a page, and is no result for a comparison.
	dir := t.TempDir()
	file := save(t, dir, "swarm.json", stdout)
	code, stdout, stderr = program(t, "", "report", file)
	if text, err := os.ReadFile(filepath.Join(dir, "swarm.html")); err != nil || code != 0 || !strings.Contains(string(text), "ACQUIRE") {
		t.Errorf("%v: exit code %d, errors %q, output %s", err, code, stderr, stdout)
	}
	code, _, stderr = program(t, encode(t, oneSide(1, 1)), "compare", "-", file)
	if code != 1 || !strings.Contains(stderr, "loadtest swarm run has written it") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
	code, _, stderr = program(t, `{"swarm_format":99}`, "report", "-", "--html", filepath.Join(dir, "x.html"))
	if code != 1 || !strings.Contains(stderr, "no result of a swarm in format 1") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
}

// An interruption stops the users, and shows what was measured.
func TestAnInterruptedSwarmIsStopped(t *testing.T) {
	t.Parallel()
	p := &page{workers: 1}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	code, stdout, stderr := command(ctx, "swarm", "run", "--url", p.serve(t), "--yes")
	if code == 0 || !strings.Contains(stdout, "Interrupted: these are the measurements so far.") || p.asked["/stop"] != 1 || p.runsNow {
		t.Errorf("exit code %d, errors %q, output:\n%s", code, stderr, stdout)
	}
}

// A worker carries ten users without a loss of efficiency, and twelve with 0.8.
func TestASwarmIsTuned(t *testing.T) {
	t.Parallel()
	p := &page{workers: 2}
	code, stdout, stderr := command(t.Context(), "swarm", "tune", "--url", p.serve(t), "--workers", "2", "--max-users", "16", "--step-duration", "100ms", "--baseline-duration", "100ms", "--yes", "--output", "json")
	var r search.TuneResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Users != 12 || len(r.Steps) < 3 || r.Steps[0].Latency != 10 {
		t.Errorf("%v: exit code %d, errors %q, output %s", err, code, stderr, stdout)
	}
	if p.runs[0] != "spawn_rate=20&user_count=2" || p.runs[1] != "spawn_rate=20&user_count=32" {
		t.Errorf("runs %v", p.runs)
	}
	code, stdout, stderr = command(t.Context(), "swarm", "tune", "--url", p.url, "--workers", "2", "--max-users", "4", "--step-duration", "50ms", "--baseline-duration", "50ms", "--yes")
	if code != 0 || !strings.Contains(stderr, "mean 10ms, efficiency 1.00\n4 users: ") || !strings.Contains(stdout, "Workers for 100 users:   25\n") {
		t.Errorf("exit code %d, errors %q, output:\n%s", code, stderr, stdout)
	}

	// Its workers must stay.
	p.workers = 3
	code, _, stderr = command(t.Context(), "swarm", "tune", "--url", p.url, "--workers", "2", "--wait", "10ms", "--yes")
	if code == 0 || !strings.Contains(stderr, "the wrong number of workers is connected to the Locust master: 3 of 2") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
}

// envPort has the port on which the helper forwards, in place of a session.
const envForward = "LOADTEST_FORWARD"

// TestForward is the program that stands in for the AWS command line. It forwards until a
// signal ends it.
func TestForward(t *testing.T) {
	to := os.Getenv(envForward)
	if to == "" {
		return // nobody needs the helper now
	}
	var parameters struct {
		Local []string `json:"localPortNumber"`
	}
	if err := json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &parameters); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Addr: "localhost:" + parameters.Local[0], ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", to, ""
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		_, _ = io.Copy(w, answer.Body)
	})}
	t.Fatal(server.ListenAndServe())
}

// A swarm of a stack says what it costs, forwards the page of the master for its time, and ends
// the session.
func TestASwarmOfAStackNeedsNoOtherTerminal(t *testing.T) {
	clients := deployed(t)
	p := &page{workers: 1}
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	if _, _, err := onAccount(t, clients, "swarm", "run", "-n", "limits", "--yes"); err == nil || !strings.Contains(err.Error(), "aws is missing on this machine") {
		t.Errorf("without aws: %v", err)
	}
	script(t, folder, "session-manager-plugin", "exit 1")
	script(t, folder, "aws", "echo no session; exit 255")
	if _, _, err := onAccount(t, clients, "swarm", "run", "-n", "limits", "--yes"); err == nil || !strings.Contains(err.Error(), "ssm:StartSession) on ecs:limits-load_") || !strings.Contains(err.Error(), "no session") {
		t.Errorf("a session that fails: %v", err)
	}
	ended := filepath.Join(folder, "ended")
	script(t, folder, "aws", fmt.Sprintf("trap 'kill $child; echo yes > %s; exit 0' TERM; %s=%s %s -test.run '^TestForward$' -- \"$@\" & child=$!; wait $child",
		ended, envForward, strings.TrimPrefix(p.serve(t), "http://"), os.Args[0]))
	stdout, stderr, err := onAccount(t, clients, "swarm", "run", "-n", "limits", "--duration", "300ms", "--yes")
	if err != nil || !strings.Contains(stdout, "ACQUIRE") {
		t.Errorf("%v\n%s\n%s", err, stdout, stderr)
	}
	if text, err := os.ReadFile(ended); err != nil || string(text) != "yes\n" {
		t.Errorf("the session did not end: %v", err)
	}

	stdout, stderr, err = answering(t, clients, "n\n", "swarm", "run", "-n", "limits", "--users", "50", "--duration", "1h")
	want := "50 users would run for 1h0m0s on the workers of stack limits-load, and load table limits. 5 workers cost about $0.41, and the table about $"
	if err == nil || !strings.Contains(stderr, want) || !strings.Contains(stderr, "write units") || stdout != "" {
		t.Errorf("%v: it asks %q", err, stderr)
	}
	_, stderr, err = answering(t, clients, "n\n", "swarm", "tune", "-n", "limits")
	if err == nil || !strings.Contains(stderr, "Up to 40 users would run for 1m0s, and fewer some times more, on the workers of stack limits-load") {
		t.Errorf("%v: it asks %q", err, stderr)
	}
	_, _, err = answering(t, clients, "n\n", "swarm", "run", "Nobody", "-n", "limits")
	if err == nil || !strings.Contains(err.Error(), "no such class") {
		t.Errorf("an unknown class: %v", err)
	}
}
