package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// A roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer makes a response with header fields.
func answer(status int, body string, fields ...string) *http.Response {
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(fields); i += 2 {
		res.Header.Add(fields[i], fields[i+1])
	}
	return res
}

// An upstream counts the requests that reach it.
type upstream struct {
	*testing.T
	limits *limitertest.Limits
	client *http.Client
	sent   atomic.Int64
}

// inUpstream runs f in a bubble with a client of an upstream. A nil base answers 200.
func inUpstream(t *testing.T, o httplimit.TransportOptions, base roundTripper, f func(*upstream), limits ...limiter.Limit) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{T: t, limits: limitertest.New(t, limits...)}
		if base == nil {
			base = func(*http.Request) (*http.Response, error) { return answer(http.StatusOK, "ok"), nil }
		}
		o.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
			u.sent.Add(1)
			return base(r)
		})
		u.client = &http.Client{Transport: transport(t, u.limits, o)}
		f(u)
	})
}

func transport(t *testing.T, limits httplimit.Acquirer, o httplimit.TransportOptions) *httplimit.Transport {
	t.Helper()
	tr, err := httplimit.NewTransport(limits, o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// get sends a request, reads the answer, and returns its status.
func (u *upstream) get() (status int, err error) { return u.do(u.Context(), "http://api.example/") }

func (u *upstream) do(ctx context.Context, url string) (status int, err error) {
	u.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		u.Fatal(err)
	}
	res, err := u.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func (u *upstream) wantLeft(want int64) {
	u.Helper()
	statuses, err := u.limits.Available(u.Context(), limiter.Request{
		Entity: httplimit.DefaultOutbound, Resource: "upstream/api.example", Consume: map[string]int64{"requests": 0},
	})
	if err != nil {
		u.Fatal(err)
	}
	if statuses[0].Available != want {
		u.Errorf("%d are left, want %d", statuses[0].Available, want)
	}
}

// A closer notes that it was closed.
type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

func TestATransportSendsNothingThatTheLimiterRefuses(t *testing.T) {
	inUpstream(t, httplimit.TransportOptions{}, nil, func(u *upstream) {
		if _, err := u.get(); err != nil {
			u.Fatal(err)
		}
		body := &closer{Reader: strings.NewReader("x")}
		r := httptest.NewRequestWithContext(u.Context(), http.MethodPost, "http://api.example/", nil)
		r.Body = body
		res, err := u.client.Transport.RoundTrip(r)
		if res != nil {
			res.Body.Close()
		}
		var refused *limiter.ExceededError
		if !errors.As(err, &refused) || refused.RetryAfter() != time.Minute || body.closed != 1 || u.sent.Load() != 1 {
			u.Errorf("got %v, closed %d times, sent %d", err, body.closed, u.sent.Load())
		}
		if _, err := u.do(u.Context(), "http://other.example/"); err != nil {
			u.Errorf("another host: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := u.get(); err != nil {
			u.Error(err)
		}
	}, limiter.PerMinute("requests", 1))
}

func TestATransportDoesNotChangeTheRequest(t *testing.T) {
	inUpstream(t, httplimit.TransportOptions{}, nil, func(u *upstream) {
		r := httptest.NewRequestWithContext(u.Context(), http.MethodGet, "http://api.example/", nil)
		before := fmt.Sprintf("%+v", r)
		res, err := u.client.Transport.RoundTrip(r)
		if err != nil {
			u.Fatal(err)
		}
		_ = res.Body.Close()
		_ = res.Body.Close()
		if after := fmt.Sprintf("%+v", r); after != before {
			u.Errorf("got %s, was %s", after, before)
		}
		u.wantLeft(9)
	}, limiter.PerMinute("requests", 10))
}

func TestAnUpstreamsPauseHoldsFurtherRequests(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 5, 23, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status int
		fields []string
		want   time.Duration
	}{
		"Retry-After in seconds":            {429, []string{"Retry-After", "20"}, 20 * time.Second},
		"Retry-After of a 503":              {503, []string{"Retry-After", "20"}, 20 * time.Second},
		"Retry-After of another status":     {301, []string{"Retry-After", "20"}, 0},
		"Retry-After as a date":             {429, []string{"Date", date.Format(http.TimeFormat), "Retry-After", date.Add(5 * time.Second).Format(http.TimeFormat)}, 5 * time.Second},
		"Retry-After in the past":           {429, []string{"Date", date.Format(http.TimeFormat), "Retry-After", date.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		"Retry-After that is bounded":       {429, []string{"Retry-After", "86400"}, 5 * time.Minute},
		"Retry-After without end":           {429, []string{"Retry-After", "99999999999999999999999"}, 5 * time.Minute},
		"Retry-After that is malformed":     {429, []string{"Retry-After", "soon"}, time.Second},
		"Retry-After that is negative":      {429, []string{"Retry-After", "-5"}, time.Second},
		"a 429 that says nothing":           {429, nil, time.Second},
		"a 503 that says nothing":           {503, nil, 0},
		"B.1.1: exhausted":                  {200, []string{"RateLimit", `"default";r=0;t=50`}, 50 * time.Second},
		"B.1.2: some are left":              {200, []string{"RateLimit", `"dayLimit";r=100;t=36000`}, 0},
		"B.1.4: throttled":                  {429, []string{"Date", "Mon, 05 Aug 2019 09:27:00 GMT", "Retry-After", "Mon, 05 Aug 2019 09:27:05 GMT", "RateLimit", `"default";r=0;t=50`}, 5 * time.Second},
		"B.2.3: pushed back":                {429, []string{"RateLimit-Policy", `"dynamic";q=15;w=20`, "RateLimit", `"dynamic";r=0;t=20`}, 20 * time.Second},
		"B.3: Retry-After takes precedence": {429, []string{"Retry-After", "20", "RateLimit", `"dynamic";r=15;t=40`}, 20 * time.Second},
		"6: a redirection":                  {301, []string{"RateLimit", `"problemPolicy";r=0;t=10`}, 10 * time.Second},
		"several limits":                    {200, []string{"RateLimit", `"a";r=5;t=90, "b";r=0;t=7`, "RateLimit", `"c";r=0;t=9`}, 9 * time.Second},
		"a partition key":                   {200, []string{"RateLimit", `"default";r=0;t=60;pk=:QXBwLTk5OQ==:`}, time.Minute},
		"no window":                         {200, []string{"RateLimit", `"default";r=0`}, 0},
		"a window without end":              {200, []string{"RateLimit", `"default";r=0;t=999999999999999`}, 5 * time.Minute},
		"fresh from a cache":                {200, []string{"Age", "0", "RateLimit", `"default";r=0;t=50`}, 50 * time.Second},
		"from a cache":                      {200, []string{"Age", "3", "RateLimit", `"default";r=0;t=50`}, 0},
		"malformed":                         {200, []string{"RateLimit", `"default;r=0;t=50`}, 0},
		"malformed, a token":                {200, []string{"RateLimit", `default;r=0;t=50`}, 0},
		"malformed, a decimal":              {200, []string{"RateLimit", `"default";r=0.0;t=50`}, 0},
		"malformed, a negative":             {200, []string{"RateLimit", `"default";r=0;t=-50`}, 0},
		"malformed, no r":                   {200, []string{"RateLimit", `"default";t=50`}, 0},
		"malformed, an inner list":          {200, []string{"RateLimit", `("default");r=0;t=50`}, 0},
		"an old draft":                      {200, []string{"RateLimit-Limit", "5", "RateLimit-Remaining", "0", "RateLimit-Reset", "50"}, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			first := true
			base := func(*http.Request) (*http.Response, error) {
				if first {
					first = false
					return answer(c.status, "", c.fields...), nil
				}
				return answer(http.StatusOK, ""), nil
			}
			inUpstream(t, httplimit.TransportOptions{}, base, func(u *upstream) {
				u.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				if _, err := u.get(); err != nil {
					u.Fatal(err)
				}
				_, err := u.get()
				var pause *httplimit.HeldError
				if errors.As(err, &pause) != (c.want > 0) || pause != nil && (pause.RetryAfter != c.want || !errors.Is(err, httplimit.ErrHeld)) {
					u.Fatalf("got %v, want a pause of %v", err, c.want)
				}
				if _, err := u.do(u.Context(), "http://other.example/"); err != nil {
					u.Errorf("another host is held: %v", err)
				}
				time.Sleep(c.want - time.Nanosecond)
				if _, err := u.get(); c.want > 0 && !errors.Is(err, httplimit.ErrHeld) {
					u.Errorf("a moment before the end: %v", err)
				}
				time.Sleep(time.Nanosecond)
				if _, err := u.get(); err != nil {
					u.Errorf("after the pause: %v", err)
				}
			}, limiter.PerMinute("requests", 10))
		})
	}
}

// A response to an earlier request may arrive late, and ask for less.
func TestAPauseIsNotShortened(t *testing.T) {
	release := make(chan struct{})
	base := func(r *http.Request) (*http.Response, error) {
		switch r.URL.Path {
		case "/slow":
			<-release
			return answer(http.StatusTooManyRequests, "", "Retry-After", "1"), nil
		case "/":
			return answer(http.StatusTooManyRequests, "", "Retry-After", "30"), nil
		}
		return nil, errors.ErrUnsupported
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		u := &upstream{T: t, limits: limitertest.New(t, limiter.PerMinute("requests", 10))}
		u.client = &http.Client{Transport: transport(t, u.limits, httplimit.TransportOptions{Base: roundTripper(base)})}
		done := make(chan struct{})
		go func() { defer close(done); _, _ = u.do(t.Context(), "http://api.example/slow") }()
		synctest.Wait()
		_, _ = u.get()
		close(release)
		<-done
		_, err := u.get()
		if pause := (*httplimit.HeldError)(nil); !errors.As(err, &pause) || pause.RetryAfter != 30*time.Second {
			t.Errorf("got %v", err)
		}
	})
}

// While the limiter decides about one request, the upstream refuses another.
func TestAPauseHoldsRequestsThatWereJustAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, first := &upstream{T: t, limits: limitertest.New(t, limiter.PerMinute("requests", 10))}, true
		slow := func(ctx context.Context, req limiter.Request) (*limiter.Lease, error) {
			if first {
				first = false
				if _, err := u.do(context.WithoutCancel(ctx), "http://api.example/"); err != nil { // another request
					t.Error(err)
				}
			}
			return u.limits.Acquire(ctx, req)
		}
		base := func(*http.Request) (*http.Response, error) {
			u.sent.Add(1)
			return answer(http.StatusTooManyRequests, "", "Retry-After", "30"), nil
		}
		u.client = &http.Client{Transport: transport(t, httplimit.AcquirerFunc(slow), httplimit.TransportOptions{Base: roundTripper(base)})}
		if _, err := u.get(); !errors.Is(err, httplimit.ErrHeld) || u.sent.Load() != 1 {
			t.Errorf("got %v, sent %d", err, u.sent.Load())
		}
		u.wantLeft(10)
	})
}

func TestAHeldRequestWaitsIfItHasTheTime(t *testing.T) {
	refused := false
	base := func(*http.Request) (*http.Response, error) {
		if !refused {
			refused = true
			return answer(http.StatusTooManyRequests, "", "Retry-After", "30"), nil
		}
		return answer(http.StatusOK, ""), nil
	}
	inUpstream(t, httplimit.TransportOptions{WaitHeld: true}, base, func(u *upstream) {
		if _, err := u.get(); err != nil {
			u.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(u.Context(), 29*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := u.do(ctx, "http://api.example/"); !errors.Is(err, httplimit.ErrHeld) || time.Since(begin) != 0 {
			u.Errorf("got %v after %v, want to fail at once", err, time.Since(begin))
		}
		ctx, leave := context.WithCancel(u.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := u.do(ctx, "http://api.example/"); !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
			u.Errorf("got %v after %v, want to fail when the caller leaves", err, time.Since(begin))
		}
		if status, err := u.get(); err != nil || status != http.StatusOK || time.Since(begin) != 30*time.Second {
			u.Errorf("got %d, %v after %v", status, err, time.Since(begin))
		}
	}, limiter.PerMinute("requests", 10))
}

func TestATransportMayIgnoreTheUpstream(t *testing.T) {
	base := func(*http.Request) (*http.Response, error) {
		return answer(http.StatusTooManyRequests, "", "Retry-After", "30"), nil
	}
	inUpstream(t, httplimit.TransportOptions{MaxHold: -1}, base, func(u *upstream) {
		for range 3 {
			if _, err := u.get(); err != nil {
				u.Error(err)
			}
		}
		u.wantLeft(10)
	}, limiter.PerMinute("requests", 10))
}

func TestWhatTheUpstreamDidIsSettled(t *testing.T) {
	t.Parallel()
	fails := errors.New("no route")
	for name, c := range map[string]struct {
		base roundTripper
		o    httplimit.TransportOptions
		left int64
	}{
		"charged":             {nil, httplimit.TransportOptions{}, 90},
		"refused by upstream": {func(*http.Request) (*http.Response, error) { return answer(429, ""), nil }, httplimit.TransportOptions{}, 100},
		"failed, not sent":    {func(*http.Request) (*http.Response, error) { return nil, fails }, httplimit.TransportOptions{}, 100},
		"settled by bytes": {nil, httplimit.TransportOptions{Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
			return map[string]int64{"requests": res.Bytes}
		}}, 98},
		"settled by a field": {func(*http.Request) (*http.Response, error) { return answer(200, "", "X-Used", "x"), nil }, httplimit.TransportOptions{
			Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
				return map[string]int64{"requests": int64(len(res.Header.Get("X-Used")))}
			},
		}, 99},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Consume = map[string]int64{"requests": 10}
			inUpstream(t, c.o, c.base, func(u *upstream) {
				_, _ = u.get()
				u.wantLeft(c.left)
			}, limiter.PerMinute("requests", 100))
		})
	}
}

func TestTheCallerSettlesByTheResponsesContext(t *testing.T) {
	inUpstream(t, httplimit.TransportOptions{Consume: map[string]int64{"requests": 10}}, nil, func(u *upstream) {
		r := httptest.NewRequestWithContext(u.Context(), http.MethodGet, "http://api.example/", nil)
		res, err := u.client.Transport.RoundTrip(r)
		if err != nil {
			u.Fatal(err)
		}
		u.wantLeft(90)
		if err := httplimit.Settle(res.Request.Context(), "requests", 3); err != nil {
			u.Error(err)
		}
		_ = res.Body.Close()
		u.wantLeft(97)
	}, limiter.PerMinute("requests", 100))
}

// A request that was sent is charged although no answer came.
func TestARequestWithoutAnAnswerIsCharged(t *testing.T) {
	t.Parallel()
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer listener.Close()
	limits := limitertest.New(t, limiter.PerHour("requests", 10))
	o := httplimit.TransportOptions{Resource: httplimit.Constant("upstream/api.example")}
	u := &upstream{T: t, limits: limits, client: &http.Client{Transport: transport(t, limits, o)}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listener.URL, nil)
	r.RequestURI = ""
	res, err := u.client.Do(r)
	if err == nil {
		_ = res.Body.Close()
		t.Fatal("got an answer")
	}
	u.wantLeft(9)
	listener.Close()
	if _, err := u.do(t.Context(), listener.URL); err == nil {
		t.Fatal("got an answer of a server that is gone")
	}
	u.wantLeft(9)
}

// The body of 101 Switching Protocols is also written.
func TestASwitchedConnectionIsWritable(t *testing.T) {
	t.Parallel()
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	}))
	defer listener.Close()
	limits := limitertest.New(t, limiter.PerHour("requests", 10))
	client := &http.Client{Transport: transport(t, limits, httplimit.TransportOptions{})}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, listener.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.WriteString(res.Body.(io.Writer), "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != "hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestBadOptionsOfATransport(t *testing.T) {
	t.Parallel()
	limits := httplimit.AcquirerFunc(nil)
	for field, o := range map[string]httplimit.TransportOptions{
		"limit name":     {Consume: map[string]int64{"1": 1}},
		"on unavailable": {OnUnavailable: "maybe"},
	} {
		_, err := httplimit.NewTransport(limits, o)
		if bad := (*limiter.ValidationError)(nil); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := httplimit.NewTransport(nil, httplimit.TransportOptions{}); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("no limiter: %v", err)
	}
}
