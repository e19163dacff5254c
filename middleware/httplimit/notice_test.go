package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// told collects what a log is told, in place of the default logger if wanted.
func told(t *testing.T, isDefault bool) (*bytes.Buffer, *slog.Logger) {
	t.Helper()
	log := new(bytes.Buffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	if !isDefault {
		return log, logger
	}
	was := slog.Default()
	slog.SetDefault(logger)
	t.Cleanup(func() { slog.SetDefault(was) })
	return log, nil
}

// A program without limits, and without a logger, learns of it from the default logger and from
// the answer: what is missing, and what to do. Not parallel: the default logger is the
// process's.
func TestAMiddlewareThatCannotDecideSaysSoOnce(t *testing.T) {
	log, _ := told(t, true)
	s := newServer(t, httplimit.Options{Consume: map[string]int64{"rpm": 1}}, nil)
	for i := range 5 {
		w := s.getAs("key-" + strconv.Itoa(i))
		s.want(w, http.StatusInternalServerError, nil)
		if got := s.problemOf(w)["detail"]; got != "The server has no limit rpm for http: configure it, or set Options.Fallback. The server's log has the error." {
			t.Error(got)
		}
	}
	if text := log.String(); strings.Count(text, "request not decided") != 1 || !strings.Contains(text, "limit rpm of http for key-0 is not configured") ||
		!strings.Contains(text, "answer=500") {
		t.Errorf("logged %s", text)
	}
}

// Each cause is told once: by its kind, and what it concerns, but not by the entity. A decision
// is no cause, and neither is a client that leaves or sends nonsense.
func TestCausesAreToldOnce(t *testing.T) {
	t.Parallel()
	missing := func(entity, resource, limit string) error {
		return &limiter.NotConfiguredError{Entity: entity, Resource: resource, Limits: []string{limit}}
	}
	for _, shadow := range []bool{false, true} {
		log, logger := told(t, false)
		var next error
		limits := httplimit.AcquirerFunc(func(context.Context, limiter.Request) (*limiter.Lease, error) { return nil, next })
		h := wrap(t, limits, httplimit.Options{Entity: httplimit.Constant("me"), Logger: logger, Shadow: shadow}, http.NotFoundHandler())
		for _, c := range []struct {
			err  error
			told int
		}{
			{limiter.ErrExceeded, 0},
			{&limiter.DisabledError{}, 0},
			{&httplimit.RequestError{Status: http.StatusTeapot}, 0},
			{missing("a", "http", "rpm"), 1},
			{missing("b", "http", "rpm"), 0},
			{missing("a", "http", "tpm"), 1},
			{missing("a", "gpt-4", "rpm"), 1},
			{&limiter.ValidationError{Field: "entity", Value: "auth0|1"}, 1},
			{&limiter.ValidationError{Field: "entity", Value: "auth0|2"}, 0},
			{limiter.ErrUnavailable, 1},
			{errors.Join(limiter.ErrUnavailable, errors.New("another address")), 0},
			{&limiter.NotFoundError{Kind: "table", Name: "limits"}, 1},
			{limiter.ErrAccessDenied, 1},
			{errors.New("other"), 1},
		} {
			next = c.err
			before := log.Len()
			h.ServeHTTP(httptest.NewRecorder(), withFields(nil))
			if n := strings.Count(log.String()[before:], "msg="); n != c.told {
				t.Errorf("shadow %t, %v: told %d times, want %d", shadow, c.err, n, c.told)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		before := log.Len()
		next = context.Canceled
		h.ServeHTTP(httptest.NewRecorder(), withFields(nil).WithContext(ctx))
		for i := range 1000 {
			next = missing("a", "r"+strconv.Itoa(i), "rpm")
			h.ServeHTTP(httptest.NewRecorder(), withFields(nil))
		}
		if n := strings.Count(log.String()[before:], "msg="); n == 0 || n >= 100 {
			t.Errorf("%d further causes are told: their number is bounded", n)
		}
	}
}

// The level of the entity itself hides a limit: the answer names it.
func TestAHiddenLimitIsNamed(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t, limiter.PerMinute("rpm", 5), limiter.PerMinute("tpm", 100))
	of := limiter.ConfigKey{Entity: "key-1", Resource: limiter.DefaultResource}
	if err := limits.Store.SetLimits(t.Context(), of, []limiter.Limit{limiter.PerMinute("tpm", 50)}); err != nil {
		t.Fatal(err)
	}
	_, logger := told(t, false)
	s := &server{T: t, handler: wrap(t, limits, httplimit.Options{Entity: key, Consume: map[string]int64{"rpm": 1, "tpm": 5}, Logger: logger}, http.NotFoundHandler())}
	if got := s.problemOf(s.get())["detail"]; !strings.HasPrefix(got.(string), "The server has no limit rpm for http: what is configured for this client has only tpm.") {
		t.Error(got)
	}
}
