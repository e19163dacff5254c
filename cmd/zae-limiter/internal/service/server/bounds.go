package server

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
)

// MaxUnderWay is how much work of callers is under way at the same time, in bodies of
// [httpapi.MaxBody] bytes. It bounds the memory: a connection may carry a thousand calls.
const MaxUnderWay = 4096

// weightOfBatch is what a batch counts for.
const weightOfBatch = httpapi.MaxBatchBody / httpapi.MaxBody

// work counts what is under way.
type work struct{ n atomic.Int64 }

// enter adds a weight, unless there is too much.
func (w *work) enter(weight int64) bool {
	if w.n.Add(weight) <= MaxUnderWay {
		return true
	}
	w.n.Add(-weight)
	return false
}

func (w *work) leave(weight int64) { w.n.Add(-weight) }

// bounded serves while not too much is under way.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		weight := int64(1)
		if r.URL.Path == "/v1/batch" {
			weight = weightOfBatch
		}
		if !s.work.enter(weight) {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusServiceUnavailable, "too many calls are under way: retry later, or run more replicas")
			return
		}
		defer s.work.leave(weight)
		next.ServeHTTP(w, r)
	})
}

// tap refuses a call of gRPC before its message is read if too much is under way.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if strings.HasPrefix(info.FullMethodName, healthMethods) {
		return ctx, nil
	}
	if !s.work.enter(1) {
		path := info.FullMethodName
		if !s.methods[path] {
			path = other // callers choose names
		}
		s.calls.WithLabelValues(path, codes.Unavailable.String()).Inc()
		return ctx, status.Error(codes.Unavailable, "too many calls are under way: retry later, or run more replicas")
	}
	context.AfterFunc(ctx, func() { s.work.leave(1) })
	return ctx, nil
}

// answerTime is how long a client may take to take a part of an answer.
const answerTime = 10 * time.Second

// timed cuts off clients that are slow with a body or an answer, also where the handler reads none of
// the body: the server of net/http reads the rest before it answers.
func (s *Server) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			// The server lifts it at the end of the body: a call may wait longer than that. Without a body, it
			// would end the call.
			_ = http.NewResponseController(w).SetReadDeadline(s.o.Now().Add(httpapi.BodyTime)) // a connection has one
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of the server, which began with the header
		next.ServeHTTP(&timedWriter{w, s.o.Now}, r)
	})
}

// A timedWriter gives each part of an answer its time.
type timedWriter struct {
	http.ResponseWriter

	now func() time.Time
}

// WriteHeader begins an answer.
func (t *timedWriter) WriteHeader(code int) {
	t.begin()
	t.ResponseWriter.WriteHeader(code)
}

// Write writes a part.
func (t *timedWriter) Write(part []byte) (int, error) {
	t.begin()
	return t.ResponseWriter.Write(part)
}

// Unwrap lets controllers reach the connection.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *timedWriter) begin() {
	_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(t.now().Add(answerTime)) // a connection has one
}

// ageKey is the key of a connection's end in the context of its requests.
type ageKey struct{}

// aged gives a connection its end: connectionAge after its begin, more or less, so that those that
// began together do not end together.
func (s *Server) aged(ctx context.Context, _ net.Conn) context.Context {
	const tenth = connectionAge / 10
	return context.WithValue(ctx, ageKey{}, s.o.Now().Add(connectionAge-tenth+rand.N(2*tenth))) //nolint:gosec // it spreads load
}

// isAged reports whether the connection of a request has reached its end.
func (s *Server) isAged(r *http.Request) bool {
	end, ok := r.Context().Value(ageKey{}).(time.Time)
	return ok && s.o.Now().After(end)
}
