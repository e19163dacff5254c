//go:build conformance

package emulated_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/peers"
	"github.com/zeroae/zae-limiter-go/loadtest/fleet"
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
		if j := <-jobs; j.Validate() != nil || j.Namespace != "drill" || j.Until.Sub(j.ConnectBy) < fleet.Lead {
			t.Errorf("job %+v", j)
		}
	}
	if err := e.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-ended
}
