package aggregate_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/aggregate"
)

// The command is healthy while every shard that it reads goes on, and says which one does not.
func TestHealthFollowsTheSlowestShard(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	check, progress := aggregate.NewHealth(func() time.Time { return now }, 10*time.Second)
	want := func(code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		check.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody))
		if w.Code != code || w.Body.String() != body+"\n" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("at %v: %d %s, want %d %s", now.Unix(), w.Code, w.Body, code, body)
		}
	}
	want(503, `{"status":"starting"}`)
	progress("a", false)
	progress("b", false)
	want(200, `{"status":"ok"}`)
	now = now.Add(40 * time.Second)
	progress("b", false)
	now = now.Add(30 * time.Second) // the pause, and a minute
	want(200, `{"status":"ok"}`)
	now = now.Add(time.Second)
	want(503, `{"status":"stuck","shard":"a","seconds_without_progress":71}`)
	progress("a", false)
	want(200, `{"status":"ok"}`)
	progress("b", true) // read to its end
	now = now.Add(60 * time.Second)
	want(200, `{"status":"ok"}`)
	progress("a", true)
	now = now.Add(time.Hour) // between two shards
	want(200, `{"status":"ok"}`)
}
