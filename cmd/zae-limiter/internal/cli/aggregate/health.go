package aggregate

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is how long a shard may make no progress beyond the pause between two reads. A
// batch, with the retries of its requests, takes less.
const stuckAfter = time.Minute

// A healthCheck answers whether the command follows the stream. It is ready if it has begun
// to read a shard, and each shard that it reads has made progress lately: a page was read and
// its records were processed. It is not ready before the first shard, and while DynamoDB
// cannot be reached or batches fail. Then nothing is lost, because the stream keeps its
// records for a day. So a process that is not ready needs a person to look, not a restart: the
// probe that restarts it asks /livez, which answers as long as the process serves.
type healthCheck struct {
	now   func() time.Time
	after time.Duration // without progress, a shard is stuck

	mu     sync.Mutex
	begun  bool
	shards map[string]time.Time // last progress of the shards under way
}

func newHealthCheck(now func() time.Time, poll time.Duration) *healthCheck {
	return &healthCheck{now: now, after: poll + stuckAfter, shards: map[string]time.Time{}}
}

// progress notes that a shard goes on, or that it was left.
func (h *healthCheck) progress(shard string, ended bool) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun = true; ended {
		delete(h.shards, shard)
		return
	}
	h.shards[shard] = now
}

// A healthView is the answer of /healthz.
type healthView struct {
	Status string `json:"status"` // ok, starting or stuck
	// Shard made no progress for Seconds, if the status is stuck: the longest of all.
	Shard   string `json:"shard,omitempty"`
	Seconds int64  `json:"seconds_without_progress,omitempty"`
}

// look judges the progress.
func (h *healthCheck) look() healthView {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begun {
		return healthView{Status: "starting"}
	}
	v, longest := healthView{Status: "ok"}, h.after
	for shard, at := range h.shards {
		if quiet := now.Sub(at); quiet > longest {
			longest = quiet
			v = healthView{"stuck", shard, int64(quiet / time.Second)}
		}
	}
	return v
}

// ServeHTTP answers 200 if the command follows the stream, else 503, and says why.
func (h *healthCheck) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	v := h.look()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if v.Status != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(v) // the peer may be gone
}

// alive answers 200 as long as the process serves.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n")) // the peer may be gone
}
