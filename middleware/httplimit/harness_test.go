package httplimit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// key is the entity of requests that send the header field Key.
var key = httplimit.Header("Key")

// A server is a middleware before a handler, on a limiter of its own.
type server struct {
	*testing.T
	limits  *limitertest.Limits
	handler http.Handler
}

// inBubble runs f with a server in a bubble. A nil handler answers 204.
func inBubble(t *testing.T, o httplimit.Options, h http.HandlerFunc, f func(*server), limits ...limiter.Limit) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(newServer(t, o, h, limits...)) })
}

func newServer(t *testing.T, o httplimit.Options, h http.HandlerFunc, limits ...limiter.Limit) *server {
	t.Helper()
	s := &server{T: t, limits: limitertest.New(t, limits...)}
	if o.Entity == nil {
		o.Entity = key
	}
	if h == nil {
		h = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	s.handler = wrap(t, s.limits, o, h)
	return s
}

func wrap(t *testing.T, limits httplimit.Acquirer, o httplimit.Options, h http.Handler) http.Handler {
	t.Helper()
	m, err := httplimit.New(limits, o)
	if err != nil {
		t.Fatal(err)
	}
	return m.Handler(h)
}

// get sends a request of key-1.
func (s *server) get() *httptest.ResponseRecorder { return s.getAs("key-1") }

func (s *server) getAs(entity string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/", nil)
	if entity != "" {
		r.Header.Set("Key", entity)
	}
	return s.serve(r)
}

func (s *server) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// want fails the test unless a response has a status and header fields. "" says that a
// field is missing.
func (s *server) want(w *httptest.ResponseRecorder, status int, fields map[string]string) {
	s.Helper()
	if w.Code != status {
		s.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for name, want := range fields {
		if got := w.Header().Get(name); got != want {
			s.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// left returns the balance of a limit of key-1.
func (s *server) left(limit string) int64 {
	s.Helper()
	statuses, err := s.limits.Available(s.Context(), limiter.Request{
		Entity: "key-1", Resource: httplimit.DefaultResource, Consume: map[string]int64{limit: 0},
	})
	if err != nil {
		s.Fatal(err)
	}
	return statuses[0].Available
}

// wantLeft fails the test unless a limit of key-1 has a balance.
func (s *server) wantLeft(limit string, want int64) {
	s.Helper()
	if got := s.left(limit); got != want {
		s.Errorf("%d of %s are left, want %d", got, limit, want)
	}
}

// problemOf decodes a problem.
func (s *server) problemOf(w *httptest.ResponseRecorder) (members map[string]any) {
	s.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		s.Errorf("the body is %s", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &members); err != nil {
		s.Fatal(err)
	}
	return members
}
