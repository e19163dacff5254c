package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
)

// onLambda starts a program as AWS Lambda does, for one event.
func onLambda(t *testing.T, event string, lasts time.Duration, env []string, args ...string) (api *runtimeAPI, end func() error) {
	t.Helper()
	api = &runtimeAPI{events: []string{event}, answers: make(chan string, 1), lasts: lasts}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	w := &taken{process: &process{T: t}}
	return api, w.run(newLines(), append(env, "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(server.URL, "http://")), args...)
}

// On AWS Lambda, the program asks a Locust master for its users, and calls the function of
// the workers.
func orchestratesLambda(t *testing.T, bin string) {
	t.Helper()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"state":"running","user_count":25,"workers":[]}`)
	}))
	t.Cleanup(page.Close)
	calls := make(chan *http.Request, 8)
	jobs := make(chan fleet.Job, 8)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var j fleet.Job
		if err := json.NewDecoder(r.Body).Decode(&j); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
		calls <- r
		jobs <- j
	}))
	t.Cleanup(service.Close)
	_, end := onLambda(t, `{"source":"aws.events"}`, 15*time.Minute, []string{
		"_HANDLER=loadorchestrator", "AWS_ENDPOINT_URL_LAMBDA=" + service.URL, "MASTER_ADDRESS=master:5557", "MASTER_PAGE=" + page.URL,
		"WORKER_FUNCTION=limits-load-worker", "WORKER_TIMEOUT=900", "MIN_WORKERS=1", "MAX_WORKERS=100", "USERS_PER_WORKER=10", "NAMESPACE=drill", "SCENARIO=simple",
	}, bin)
	for range 3 {
		r, j := <-calls, <-jobs
		if !strings.HasSuffix(r.URL.Path, "/functions/limits-load-worker/invocations") || r.Header.Get("X-Amz-Invocation-Type") != "Event" {
			t.Errorf("it sends %s %v", r.URL, r.Header)
		}
		if err := j.Validate(); err != nil || j.Master != "master:5557" || j.Namespace != "drill" || j.Scenario != "simple" {
			t.Errorf("job %+v: %v", j, err)
		}
	}
	if err := end(); err != nil {
		t.Errorf("ended by Lambda: %v", err)
	}
}

// serveWorker is set where this test program is a worker on AWS Lambda.
const serveWorker = "ZAEL_TEST_SERVE_WORKER"

// carried writes what it is to carry, and carries until it is told to stop.
func carried(_ context.Context, a *app.App, _ *slog.Logger) (fleet.Carry, error) {
	return func(ctx context.Context, j fleet.Job, stop <-chan struct{}) error {
		select {
		case <-stop:
			return os.WriteFile(a.Getenv(serveWorker), []byte(a.Flags.Table+" "+a.Principal()+" "+j.Master+" "+j.File), 0o600)
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// TestServeWorker is no test: it is a worker where [worksForLocust] starts it as one.
func TestServeWorker(t *testing.T) {
	t.Parallel()
	if os.Getenv(serveWorker) == "" {
		return
	}
	a := &app.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	root := &cobra.Command{Use: "zae-limiter"}
	a.Flags.Bind(root.PersistentFlags())
	root.AddCommand(loadtest.NewServeWorker(a, carried))
	root.SetArgs([]string{"serve-worker", "--table", "limits", "--principal", "worker"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// On AWS Lambda, a worker carries the job of its event until its time is up. The runtime
// gives it the deadline.
func worksForLocust(t *testing.T, _ string) {
	t.Helper()
	out := t.TempDir() + "/carried"
	now := time.Now()
	event, err := json.Marshal(fleet.Job{
		ID: "w1", Master: "m:5557", Namespace: "drill", File: "name: mine", ConnectBy: now.Add(time.Minute), Until: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The margin before the deadline is nearly all of the time.
	api, _ := onLambda(t, string(event), fleet.Margin+time.Second, []string{serveWorker + "=" + out}, test, "-test.run=^TestServeWorker$")
	if answer := <-api.answers; !strings.Contains(answer, "/response ") || !strings.Contains(answer, `"id":"w1","reason":"its time was up"`) {
		t.Errorf("Lambda was told %s", answer)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "limits worker m:5557 name: mine" {
		t.Errorf("it carried %q: %v", got, err)
	}
}
