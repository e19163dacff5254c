package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// answerTo serves one request that an acquirer refuses with an error.
func answerTo(t *testing.T, err error, o httplimit.Options) (*server, *httptest.ResponseRecorder) {
	t.Helper()
	o.Entity = httplimit.Constant("me")
	s := &server{T: t, handler: wrap(t, httplimit.AcquirerFunc(func(context.Context, limiter.Request) (*limiter.Lease, error) { return nil, err }), o, http.NotFoundHandler())}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	return s, w
}

// TestEachProblemSaysWhatToDo: the detail fits the status, and names no entity and no table.
func TestEachProblemSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		detail any
	}{
		{limiter.ErrExceeded, "Too many requests wait. Retry later."},
		{&limiter.DisabledError{}, "Requests of this client are disabled."},
		{&limiter.ValidationError{Field: "entity"}, "The request gives a name or an amount that is not valid."},
		{limiter.ErrUnavailable, "The rate limiter is not available. Retry later."},
		{errors.New("a secret"), "The rate limiter cannot decide about this request. The server's log has the error."},
		{limiter.ErrAccessDenied, "The server's credentials do not permit the rate limiter to use its table. The server's log has the error."},
		{&limiter.NotFoundError{Kind: "table", Name: "secret"}, "The rate limiter's table or namespace does not exist. The server's log has the error."},
		{
			&limiter.NotConfiguredError{Entity: "secret", Resource: "gpt-4", Limits: []string{"rpm", "tpm"}},
			"The server has no limit rpm and tpm for gpt-4: configure it, or set Options.Fallback. The server's log has the error.",
		},
		{
			&limiter.NotConfiguredError{Entity: "secret", Resource: "gpt-4"},
			"The server has no limits for gpt-4: configure some, or set Options.Fallback. The server's log has the error.",
		},
		{
			&limiter.NotConfiguredError{Entity: "secret", Resource: "gpt-4", Limits: []string{"rpm"}, Level: "entity secret", Known: []string{"tpm"}},
			"The server has no limit rpm for gpt-4: what is configured for this client has only tpm. Configure it there, too. The server's log has the error.",
		},
		{
			&limiter.NotConfiguredError{Entity: "secret", Resource: "gpt-4", Limits: []string{"rpm"}, Known: []string{"tpm"}},
			"The server has no limit rpm for gpt-4: no limits are configured, and Options.Fallback has only tpm. The server's log has the error.",
		},
		{&httplimit.RequestError{Reason: "say who you are"}, "say who you are"},
	} {
		s, w := answerTo(t, c.err, httplimit.Options{})
		if got := s.problemOf(w)["detail"]; got != c.detail {
			t.Errorf("%v: got %v, want %v", c.err, got, c.detail)
		}
		s.want(w, httplimit.StatusOf(c.err), nil)
	}
}

// TestTheXFieldsAreOfTheTightestLimit: the one with the longest wait, then the one with the
// smallest share left, then the first.
func TestTheXFieldsAreOfTheTightestLimit(t *testing.T) {
	t.Parallel()
	status := func(amount, available int64, wait time.Duration) limiter.Status {
		return limiter.Status{Entity: "me", Limit: limiter.PerMinute("l"+strconv.FormatInt(amount, 10), amount), Available: available, Exceeded: wait > 0, RetryAfter: wait}
	}
	for name, c := range map[string]struct {
		statuses []limiter.Status
		want     string
	}{
		"the longest wait comes last":  {[]limiter.Status{status(10, 0, 3*time.Second), status(20, 19, 9*time.Second)}, "20"},
		"the longest wait comes first": {[]limiter.Status{status(20, 19, 9*time.Second), status(10, 0, 3*time.Second)}, "20"},
		"the smallest share is last":   {[]limiter.Status{status(10, 5, time.Second), status(20, 5, time.Second)}, "20"},
		"the smallest share is first":  {[]limiter.Status{status(20, 5, time.Second), status(10, 5, time.Second)}, "20"},
		"they are alike":               {[]limiter.Status{status(10, 5, time.Second), status(20, 10, time.Second)}, "10"},
	} {
		s, w := answerTo(t, &limiter.ExceededError{Statuses: c.statuses}, httplimit.Options{XHeaders: true})
		if got := w.Header().Get("X-Ratelimit-Limit"); got != c.want {
			s.Errorf("%s: X-RateLimit-Limit is %s, want %s", name, got, c.want)
		}
	}
}

// TestTheWindowAtItsEdges: a bucket that holds more than its capacity is full, one that
// earns nothing has no window, and the longest window is the largest integer.
func TestTheWindowAtItsEdges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit     limiter.Limit
		available int64
		want      string
	}{
		"overfull":           {limiter.PerMinute("l", 10), 11, `"l";r=11`},
		"full":               {limiter.PerMinute("l", 10), 10, `"l";r=10`},
		"earns nothing":      {limiter.Limit{Name: "l", Capacity: 10, Period: time.Minute}, 0, `"l";r=0`},
		"in debt":            {limiter.PerMinute("l", 10), -10, `"l";r=0;t=120`},
		"a millisecond more": {limiter.Limit{Name: "l", Capacity: 1, Amount: 1, Period: time.Second + time.Millisecond}, 0, `"l";r=0;t=2`},
		// missing · period / 2⁶⁴ is exactly the amount: the window in nanoseconds has 65 bits.
		"65 bits": {limiter.Limit{Name: "l", Capacity: limiter.MaxTokens, Amount: 4_683_753_385, Period: 24 * time.Hour}, 0, `"l";r=0;t=999999999999999`},
	} {
		if _, got := httplimit.Fields(t.Context(), "me", []limiter.Status{{Entity: "me", Limit: c.limit, Available: c.available}}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestKeysAtTheirEdges: an empty claim is none, and names that are just valid stay.
func TestKeysAtTheirEdges(t *testing.T) {
	t.Parallel()
	empty := httplimit.Claim("sub", func(*http.Request) (map[string]any, bool) { return map[string]any{"sub": ""}, true })
	if name, err := empty(withFields(nil)); name != "" || !errors.Is(err, httplimit.ErrNoKey) {
		t.Errorf("an empty claim: %q, %v", name, err)
	}
	longest := "GET:/" + strings.Repeat("z", 59)
	for route, want := range map[string]string{"GET /v09/aZz/{id}": "GET:/v09/aZz/:id", longest: longest, "zoo/": "zoo/", "Zoo/": "Zoo/", "a/": "a/"} {
		if got, err := httplimit.Resource(httplimit.Constant(route))(nil); got != want || err != nil {
			t.Errorf("%q: got %q, %v", route, got, err)
		}
	}
	if _, err := httplimit.New(httplimit.AcquirerFunc(nil), httplimit.Options{Units: map[string]string{"l": "az-09"}}); err != nil {
		t.Error(err)
	}
}

// TestA429ThatIsNoRefusalSaysWhen: a handler that passes a Transport's error on, and a key that
// refuses.
func TestA429ThatIsNoRefusalSaysWhen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err        error
		retry, why string
	}{
		{fmt.Errorf("request to upstream: %w", &httplimit.HeldError{RetryAfter: 7001 * time.Millisecond}), "8", "The upstream has asked for a pause. Retry in 8 seconds."},
		{&httplimit.RequestError{Status: http.StatusTooManyRequests, Reason: "not so fast"}, "5", "not so fast"},
	} {
		s, w := answerTo(t, c.err, httplimit.Options{})
		s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": c.retry, "RateLimit": ""})
		if got := s.problemOf(w)["detail"]; got != c.why {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestARefusalIsAnsweredAtTheDeadline: a caller of Wait is refused when its deadline ends, and
// that is an answer. A client that has left gets none.
func TestARefusalIsAnsweredAtTheDeadline(t *testing.T) {
	t.Parallel()
	refusal := &limiter.ExceededError{Statuses: []limiter.Status{{Entity: "me", Limit: limiter.PerMinute("requests", 1), Exceeded: true, RetryAfter: time.Second}}}
	for _, c := range []struct {
		err  error
		want int
	}{
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, refusal), http.StatusTooManyRequests},
		{context.DeadlineExceeded, httplimit.StatusClientGone},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		waits := httplimit.AcquirerFunc(func(context.Context, limiter.Request) (*limiter.Lease, error) { return nil, c.err })
		w := httptest.NewRecorder()
		wrap(t, waits, httplimit.Options{Entity: httplimit.Constant("me")}, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if got := w.Header().Get("Retry-After"); w.Code != c.want || (got == "1") != (c.want == http.StatusTooManyRequests) {
			t.Errorf("%v: %d, retry after %q", c.err, w.Code, got)
		}
	}
}

// TestWhoIsNotLimitedIsServed: the handler gets requests that are skipped, and those that a
// shadow refuses.
func TestWhoIsNotLimitedIsServed(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]httplimit.Options{
		"skipped": {Skip: func(*http.Request) bool { return true }},
		"shadow":  {Shadow: true},
	} {
		served := 0
		h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
		o.Entity = httplimit.Constant("me")
		refuses := httplimit.AcquirerFunc(func(context.Context, limiter.Request) (*limiter.Lease, error) { return nil, limiter.ErrUnavailable })
		wrap(t, refuses, o, h).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if served != 1 {
			t.Errorf("%s: served %d times", name, served)
		}
	}
}

// TestABodyClosedTwiceIsSettledOnce, and what cannot be settled is logged.
func TestABodyClosedTwiceIsSettledOnce(t *testing.T) {
	settled, log := 0, new(strings.Builder)
	o := httplimit.TransportOptions{
		Settle: func(*http.Request, *httplimit.Response) map[string]int64 {
			settled++
			return map[string]int64{"other": 1}
		},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	inUpstream(t, o, nil, func(u *upstream) {
		r, err := http.NewRequestWithContext(u.Context(), http.MethodGet, "http://api.example/", http.NoBody)
		if err != nil {
			u.Fatal(err)
		}
		res, err := u.client.Do(r)
		if err != nil {
			u.Fatal(err)
		}
		for range 2 {
			if err := res.Body.Close(); err != nil {
				u.Error(err)
			}
		}
		if settled != 1 || strings.Count(log.String(), "lease not settled") != 1 {
			u.Errorf("settled %d times, logged %q", settled, log)
		}
	}, limiter.PerMinute("requests", 10))
}

// TestNothingIsLoggedOfARequestThatIsSettled: the log is for what went wrong.
func TestNothingIsLoggedOfARequestThatIsSettled(t *testing.T) {
	log := new(strings.Builder)
	inUpstream(t, httplimit.TransportOptions{Logger: slog.New(slog.NewTextHandler(log, nil))}, nil, func(u *upstream) {
		if _, err := u.get(); err != nil || log.Len() > 0 {
			u.Errorf("%v, logged %q", err, log)
		}
	}, limiter.PerMinute("requests", 10))
}
