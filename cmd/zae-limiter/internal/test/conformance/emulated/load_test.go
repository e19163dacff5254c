//go:build conformance

package emulated_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/fleet"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

// Under the emulator, the orchestrator of load tests reads its environment and the deadline,
// asks the master and calls the function of the workers. Without a master it ends at once.
func TestTheOrchestratorStartsWorkers(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !on.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, `{"state":"running","user_count":25,"workers":[]}`)
	}))
	t.Cleanup(page.Close)
	jobs := make(chan fleet.Job, 8)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var j fleet.Job
		if err := json.NewDecoder(r.Body).Decode(&j); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
		jobs <- j
	}))
	t.Cleanup(service.Close)
	e := peers.RuntimeEmulator(t, bootstrap(t), []string{
		"AWS_LAMBDA_FUNCTION_TIMEOUT=900", "_HANDLER=loadorchestrator", "AWS_ENDPOINT_URL_LAMBDA=" + service.URL, "MASTER_ADDRESS=master:5557", "MASTER_PAGE=" + page.URL,
		"WORKER_FUNCTION=limits-load-worker", "MAX_WORKERS=100", "USERS_PER_WORKER=10", "NAMESPACE=drill", "SCENARIO=simple", "AWS_REGION=" + peers.Region,
		"AWS_ACCESS_KEY_ID=" + peers.AccessKey, "AWS_SECRET_ACCESS_KEY=" + peers.SecretKey, "AWS_EC2_METADATA_DISABLED=true",
	})
	const tick = `{"source":"aws.events","detail-type":"Scheduled Event"}`
	if answer, err := e.Invoke(t.Context(), []byte(tick)); err != nil || !strings.Contains(string(answer), fleet.NoMaster) {
		t.Errorf("without a master: %s, %v", answer, err)
	}
	on.Store(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = e.Invoke(t.Context(), []byte(tick)) // the signal ends it
	}()
	for range 3 {
		if j := <-jobs; j.Validate() != nil || j.Namespace != "drill" || j.Until.Sub(j.ConnectBy) < fleet.Handover {
			t.Errorf("job %+v", j)
		}
	}
	if err := e.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-ended
}

// Under the emulator, a worker carries load for a real Locust master until the time of its
// function is nearly up. The master then has counted what the table has.
func TestAFunctionWorksForLocust(t *testing.T) {
	t.Parallel()
	f := newFunction(t, "loadworker")
	if err := f.store.SetLimits(t.Context(), store.ConfigKey{Resource: "api"}, []store.Limit{limiter.PerMinute("rpm", 1_000_000)}); err != nil {
		t.Fatal(err)
	}
	l := peers.StartLocust(t, "../../../../../../examples/locust/simple.py", "--stop-timeout", "5")
	now := time.Now()
	job, err := json.Marshal(fleet.Job{
		ID: "w1", Master: l.Master, Namespace: dynamo.DefaultNamespace, Scenario: "simple", ConnectBy: now.Add(time.Minute), Until: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan string, 1)
	go func() {
		answer, err := f.Invoke(t.Context(), job)
		answers <- fmt.Sprintf("%s %v", answer, err)
	}()
	until(t, "the worker is ready", func(ctx context.Context) (bool, error) {
		of := l.Stats(ctx, t).Workers
		return len(of) == 1 && strings.HasPrefix(of[0].ID, "w1_") && of[0].State == swarm.Ready, nil
	})
	l.Swarm(t, 8, 8)
	if answer := <-answers; !strings.Contains(answer, `"id":"w1","reason":"`+fleet.Replaced+`"`) || !strings.HasSuffix(answer, " <nil>") {
		t.Errorf("the function answers %s; it wrote:\n%s", answer, f.Log(t))
	}
	var taken int64
	for images, err := range f.store.ResourceBuckets(t.Context(), "api") {
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			taken += image.Limits[0].ConsumedSince(&store.LimitState{}) / 1000
		}
	}
	until(t, fmt.Sprintf("Locust has counted %d acquires", taken), func(ctx context.Context) (bool, error) {
		var counted, failed int64
		for _, e := range l.Stats(ctx, t).Stats {
			if e.Method == "ACQUIRE" {
				counted, failed = counted+e.Requests, failed+e.Failures
			}
		}
		return counted == taken && failed == 0 && counted > 0, nil
	})
}
