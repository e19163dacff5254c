package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

func TestARefusalIsA429ThatSaysWhen(t *testing.T) {
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		for i, left := range []string{"2", "1", "0"} {
			s.want(s.get(), http.StatusNoContent, map[string]string{
				"RateLimit-Policy": `"requests";q=3;w=60`, "RateLimit": `"requests";r=` + left + `;t=` + []string{"20", "40", "60"}[i],
				"Retry-After": "", "X-RateLimit-Limit": "",
			})
		}
		time.Sleep(500 * time.Millisecond)
		w := s.get()
		s.want(w, http.StatusTooManyRequests, map[string]string{
			"Retry-After": "20", "RateLimit-Policy": `"requests";q=3;w=60`, "RateLimit": `"requests";r=0;t=20`, "Cache-Control": "no-store",
		})
		p := s.problemOf(w)
		if p["type"] != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p["status"] != 429.0 ||
			!slices.Equal(p["violated-policies"].([]any), []any{"requests"}) || p["detail"] != "The limit requests of http left no room for this request. Retry in 20 seconds." {
			s.Errorf("got %v", p)
		}
		time.Sleep(20 * time.Second)
		s.want(s.get(), http.StatusNoContent, nil)
	}, limiter.PerMinute("requests", 3))
}

func TestARequestForMoreThanTheCapacityHasNoRetryAfter(t *testing.T) {
	inBubble(t, httplimit.Options{Consume: map[string]int64{"requests": 4}}, nil, func(s *server) {
		w := s.get()
		s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": "", "RateLimit": `"requests";r=3`})
		if detail := s.problemOf(w)["detail"]; detail != "The limit requests of http left no room for this request. The request asks for more than the limit can hold: ask for less." {
			s.Error(detail)
		}
	}, limiter.PerMinute("requests", 3))
}

func TestSeveralLimitsHaveOneItemEach(t *testing.T) {
	o := httplimit.Options{
		Cost: func(r *http.Request) (map[string]int64, error) {
			return map[string]int64{"rpm": 1, "bytes": r.ContentLength}, nil
		},
		Units: map[string]string{"bytes": "content-bytes"}, XHeaders: true,
	}
	inBubble(t, o, nil, func(s *server) {
		post := func(body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Key", "key-1")
			return s.serve(r)
		}
		w := post(strings.Repeat("x", 900))
		items := strings.Split(w.Header().Get("RateLimit-Policy"), ", ")
		slices.Sort(items)
		if !slices.Equal(items, []string{`"bytes";q=600;w=60;qu="content-bytes";zae-burst=1000`, `"rpm";q=100;w=60`}) {
			s.Errorf("got %q", items)
		}
		s.want(w, http.StatusNoContent, map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "100", "X-RateLimit-Reset": "90"})
		w = post(strings.Repeat("x", 101))
		s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": "1", "X-RateLimit-Remaining": "100", "X-RateLimit-Reset": "1"})
		items = strings.Split(w.Header().Get("RateLimit"), ", ")
		slices.Sort(items)
		if !slices.Equal(items, []string{`"bytes";r=100;t=1`, `"rpm";r=99;t=1`}) { // t is no later than Retry-After
			s.Errorf("got %q", items)
		}
		if got := s.problemOf(w)["violated-policies"]; !slices.Equal(got.([]any), []any{"bytes"}) {
			s.Errorf("got %v", got)
		}
		s.wantLeft("rpm", 99)
	}, limiter.PerMinute("rpm", 100), limiter.PerMinute("bytes", 600, limiter.Burst(1000)))
}

func TestAParentsRefusalNamesTheLimitAndNobody(t *testing.T) {
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		for _, e := range []limiter.Entity{{ID: "acme"}, {ID: "key-1", Parent: "acme", Cascade: true}} {
			if _, err := s.limits.Store.CreateEntity(s.Context(), e); err != nil {
				s.Fatal(err)
			}
		}
		s.want(s.get(), http.StatusNoContent, map[string]string{"RateLimit": `"requests";r=9;t=6`})
		s.limits.Refuse("acme", httplimit.DefaultResource)
		w := s.get()
		s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": "6", "RateLimit": `"requests";r=9;t=6`})
		if p := s.problemOf(w); p["detail"] != "The shared limit requests of http left no room for this request. Retry in 6 seconds." ||
			!slices.Equal(p["violated-policies"].([]any), []any{"requests"}) {
			s.Errorf("got %v", p)
		}
		answer := new(strings.Builder)
		_ = w.Header().Write(answer)
		for _, name := range []string{"acme", "key-1"} {
			if strings.Contains(answer.String()+w.Body.String(), name) {
				s.Errorf("the answer names %s: %s%s", name, answer, w.Body)
			}
		}
	}, limiter.PerMinute("requests", 10))
}

func TestOutages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy limiter.OnUnavailable
		err    error
		status int
		retry  string
	}{
		"closed":           {limiter.Block, limiter.ErrUnavailable, http.StatusServiceUnavailable, "5"},
		"open":             {limiter.Allow, limiter.ErrUnavailable, http.StatusNoContent, ""},
		"as configured":    {"", limiter.ErrUnavailable, http.StatusServiceUnavailable, "5"},
		"throttled":        {"", limiter.ErrThrottled, http.StatusServiceUnavailable, "5"},
		"contention":       {"", limiter.ErrConflict, http.StatusServiceUnavailable, "5"},
		"credentials":      {limiter.Allow, limiter.ErrAccessDenied, http.StatusInternalServerError, ""},
		"table is missing": {limiter.Allow, limiter.ErrNotFound, http.StatusInternalServerError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, httplimit.Options{OnUnavailable: c.policy}, nil, func(s *server) {
				s.want(s.get(), http.StatusNoContent, nil)
				s.limits.Fail(c.err)
				w := s.get()
				s.want(w, c.status, map[string]string{"Retry-After": c.retry, "RateLimit": "", "RateLimit-Policy": ""})
				if strings.Contains(w.Body.String(), "limits") {
					s.Errorf("the answer tells of the table: %s", w.Body)
				}
				s.limits.Restore()
				time.Sleep(time.Minute)
				s.want(s.get(), http.StatusNoContent, nil)
			}, limiter.PerMinute("requests", 3))
		})
	}
}

func TestAStatusForEachError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 200},
		{&limiter.ExceededError{}, 429},
		{limiter.ErrExceeded, 429},
		{&httplimit.HeldError{}, 429},
		{&limiter.ValidationError{Field: "entity"}, 400},
		{&limiter.ValidationError{Field: "consume tpm"}, 400},
		{&limiter.ValidationError{Field: "limit name"}, 500},
		{limiter.ErrInvalid, 500},
		{&limiter.DisabledError{}, 403},
		{limiter.ErrUnavailable, 503},
		{limiter.ErrThrottled, 503},
		{limiter.ErrConflict, 503},
		{limiter.ErrClosed, 503},
		{errors.Join(limiter.ErrAccessDenied, limiter.ErrUnavailable), 500},
		{limiter.ErrCorrupt, 500},
		{errors.New("other"), 500},
		{context.Canceled, 500},
		{context.DeadlineExceeded, 500},
		{errors.Join(context.DeadlineExceeded, limiter.ErrUnavailable), 503},
		{&httplimit.RequestError{}, 400},
		{&httplimit.RequestError{Status: 402}, 402},
	} {
		if got := httplimit.StatusOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestErrorsOfTheRequestAndOfTheServerDiffer(t *testing.T) {
	inBubble(t, httplimit.Options{}, nil, func(s *server) {
		s.want(s.getAs(""), http.StatusBadRequest, nil)
		s.want(s.getAs(strings.Repeat("k", 257)), http.StatusBadRequest, nil)
		s.want(s.get(), http.StatusInternalServerError, map[string]string{"Retry-After": ""}) // no limit is configured
		s.handler = wrap(s.T, s.limits, httplimit.Options{Entity: httplimit.APIKey()}, nil)
		w := s.get()
		s.want(w, http.StatusUnauthorized, map[string]string{"WWW-Authenticate": "Bearer"})
		if p := s.problemOf(w); p["type"] != "about:blank" || p["title"] != "Unauthorized" {
			s.Errorf("got %v", p)
		}
	})
}

func TestAShadowServesAndTells(t *testing.T) {
	var seen []httplimit.Decision
	o := httplimit.Options{Shadow: true, XHeaders: true, Observe: func(_ *http.Request, d *httplimit.Decision) { seen = append(seen, *d) }}
	h := func(w http.ResponseWriter, r *http.Request) {
		if err := httplimit.Settle(r.Context(), "requests", 1); err != nil {
			t.Error(err)
		}
	}
	inBubble(t, o, h, func(s *server) {
		for range 2 {
			s.want(s.get(), http.StatusOK, map[string]string{"RateLimit": "", "RateLimit-Policy": "", "X-RateLimit-Limit": ""})
		}
		if len(seen) != 2 || seen[0].Err != nil || !errors.Is(seen[1].Err, limiter.ErrExceeded) || !seen[1].Shadow || seen[1].Request.Entity != "key-1" {
			s.Errorf("got %+v", seen)
		}
		s.limits.Fail(limiter.ErrUnavailable)
		s.limits.InvalidateConfig()
		s.want(s.getAs("other"), http.StatusOK, nil)
	}, limiter.PerMinute("requests", 1))
}

func TestSkippedRequestsAreNotLimited(t *testing.T) {
	o := httplimit.Options{Skip: func(r *http.Request) bool { return r.Header.Get("Key") == "probe" }}
	h := func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := httplimit.LeaseFrom(r.Context()); ok {
			t.Error("a skipped request has a lease")
		}
	}
	inBubble(t, o, h, func(s *server) {
		s.limits.Stall()
		s.want(s.getAs("probe"), http.StatusOK, map[string]string{"RateLimit": ""})
	})
}

// file is a reader that leaves the copying to the writer, as a file does.
func file(s string) io.Reader { return io.LimitReader(strings.NewReader(s), int64(len(s))) }

func TestWhatWasUsedIsSettled(t *testing.T) {
	t.Parallel()
	consume := map[string]int64{"tpm": 500, "rpm": 1}
	settle := func(_ *http.Request, res *httplimit.Response) map[string]int64 {
		if res.Status >= 500 {
			return map[string]int64{"tpm": 0, "rpm": 0}
		}
		return map[string]int64{"tpm": res.Bytes}
	}
	for name, c := range map[string]struct {
		settle   func(*http.Request, *httplimit.Response) map[string]int64
		handler  http.HandlerFunc
		tpm, rpm int64 // left of 1000 and 10
	}{
		"nobody": {nil, func(http.ResponseWriter, *http.Request) {}, 500, 9},
		"the handler": {nil, func(_ http.ResponseWriter, r *http.Request) {
			_ = httplimit.Settle(r.Context(), "tpm", 120)
		}, 880, 9},
		"the handler, into debt": {nil, func(_ http.ResponseWriter, r *http.Request) {
			_ = httplimit.Settle(r.Context(), "tpm", 1200)
		}, -200, 9},
		"by bytes":           {settle, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "twelve bytes") }, 988, 9},
		"by bytes of a file": {settle, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, file("twelve bytes")) }, 988, 9},
		"by status":          {settle, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 1000, 10},
		"by the handler, which commits": {settle, func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := httplimit.LeaseFrom(r.Context())
			_ = lease.Settle("tpm", 100)
			_ = lease.Commit(r.Context())
		}, 900, 9},
		"by the handler, which rolls back": {settle, func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := httplimit.LeaseFrom(r.Context())
			_ = lease.Rollback(r.Context())
		}, 1000, 10},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, httplimit.Options{Consume: consume, Settle: c.settle}, c.handler, func(s *server) {
				s.get()
				s.wantLeft("tpm", c.tpm)
				s.wantLeft("rpm", c.rpm)
			}, limiter.PerMinute("tpm", 1000), limiter.PerMinute("rpm", 10))
		})
	}
}

// A lease that is not settled as it should be is logged. That the handler has closed it is no
// mistake.
func TestWhatIsNotSettledIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used    map[string]int64
		handler http.HandlerFunc
		logged  bool
	}{
		"a limit of the request":     {map[string]int64{"requests": 2}, func(http.ResponseWriter, *http.Request) {}, false},
		"a limit that was not named": {map[string]int64{"other": 2}, func(http.ResponseWriter, *http.Request) {}, true},
		"a lease that is closed": {map[string]int64{"requests": 2}, func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := httplimit.LeaseFrom(r.Context())
			_ = lease.Commit(r.Context())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(strings.Builder)
			o := httplimit.Options{
				Settle: func(*http.Request, *httplimit.Response) map[string]int64 { return c.used },
				Logger: slog.New(slog.NewTextHandler(log, nil)),
			}
			inBubble(t, o, c.handler, func(s *server) {
				s.want(s.get(), http.StatusOK, nil)
				if (log.Len() > 0) != c.logged {
					s.Errorf("logged: %q", log)
				}
			}, limiter.PerMinute("requests", 10))
		})
	}
}

func TestAPanicBeforeTheResponseReturnsWhatWasTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin func(http.ResponseWriter)
		left  int64
	}{
		"before":              {func(http.ResponseWriter) {}, 10},
		"after informational": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 10},
		"after the status":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, 9},
		"after some bytes":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, 9},
		"after a flush":       {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 9},
		"after a file":        {func(w http.ResponseWriter) { _, _ = io.Copy(w, file("x")) }, 9},
	} {
		t.Run(name, func(t *testing.T) {
			h := func(w http.ResponseWriter, _ *http.Request) {
				c.begin(w)
				panic("sentinel")
			}
			inBubble(t, httplimit.Options{}, h, func(s *server) {
				func() {
					defer func() {
						if got := recover(); got != "sentinel" {
							s.Errorf("recovered %v", got)
						}
					}()
					s.get()
				}()
				s.wantLeft("requests", c.left)
			}, limiter.PerMinute("requests", 10))
		})
	}
}

// The client leaves while the handler works. The context of the request has ended by the
// time the lease is settled.
func TestAClientThatLeavesIsChargedForWhatWasUsed(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	h := func(_ http.ResponseWriter, r *http.Request) {
		_ = httplimit.Settle(r.Context(), "requests", 4)
		leave()
		<-r.Context().Done()
	}
	inBubble(t, httplimit.Options{}, h, func(s *server) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Header.Set("Key", "key-1")
		s.serve(r)
		s.wantLeft("requests", 6) //nolint:contextcheck // the client's context has ended
	}, limiter.PerMinute("requests", 10))
}

func TestAClientThatLeavesEarlyTakesNothing(t *testing.T) {
	called := false
	inBubble(t, httplimit.Options{OnUnavailable: limiter.Block}, func(http.ResponseWriter, *http.Request) { called = true }, func(s *server) {
		s.limits.Stall()
		ctx, leave := context.WithTimeout(s.Context(), time.Second)
		defer leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Header.Set("Key", "key-1")
		s.want(s.serve(r), httplimit.StatusClientGone, nil)
		if called {
			s.Error("the handler was called")
		}
		s.limits.Restore()
		time.Sleep(time.Minute)
		s.wantLeft("requests", 10)
	}, limiter.PerMinute("requests", 10))
}

func TestMiddlewaresNest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, httplimit.Options{Consume: map[string]int64{"rps": 1}, XHeaders: true}, nil, limiter.PerMinute("rps", 5), limiter.PerMinute("tpm", 100))
		s.handler = wrap(t, s.limits, httplimit.Options{Entity: key, Consume: map[string]int64{"tpm": 10}, XHeaders: true}, s.handler)
		w := s.get()
		if got := w.Header()["Ratelimit"]; !slices.Equal(got, []string{`"tpm";r=90;t=6`, `"rps";r=4;t=12`}) {
			t.Errorf("got %q", got)
		}
		s.want(w, http.StatusNoContent, map[string]string{"X-RateLimit-Remaining": "4"})
	})
}

func TestTheAnswerCanBeReplaced(t *testing.T) {
	o := httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
		w.WriteHeader(httplimit.StatusOf(err))
		_, _ = io.WriteString(w, "slow down")
	}}
	inBubble(t, o, nil, func(s *server) {
		s.limits.Refuse("key-1", httplimit.DefaultResource)
		w := s.get()
		s.want(w, http.StatusTooManyRequests, map[string]string{"Retry-After": "60", "Content-Type": ""})
		if w.Body.String() != "slow down" {
			s.Errorf("got %q", w.Body)
		}
	}, limiter.PerMinute("requests", 1))
}

func TestBadOptionsOfAMiddleware(t *testing.T) {
	t.Parallel()
	limits := httplimit.AcquirerFunc(nil)
	for field, o := range map[string]httplimit.Options{
		"limit name":        {Consume: map[string]int64{"1": 1}},
		"consume rpm":       {Consume: map[string]int64{"rpm": -1}},
		"consume":           {Consume: map[string]int64{}},
		"cost":              {Consume: map[string]int64{"rpm": 1}, Cost: func(*http.Request) (map[string]int64, error) { return nil, nil }},
		"on unavailable":    {OnUnavailable: "maybe"},
		"fallback":          {Fallback: make([]limiter.Limit, limiter.MaxLimits+1)},
		"retry unavailable": {RetryUnavailable: -1},
		"unit of rpm":       {Units: map[string]string{"rpm": `"`}},
	} {
		_, err := httplimit.New(limits, o)
		if bad := (*limiter.ValidationError)(nil); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := httplimit.New(nil, httplimit.Options{}); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("no limiter: %v", err)
	}
}

// Below are the tests with a real server.

// start serves a handler behind a middleware, with real time.
func start(t *testing.T, o httplimit.Options, h http.HandlerFunc, limits ...limiter.Limit) (*server, string) {
	t.Helper()
	s := newServer(t, o, h, limits...)
	listener := httptest.NewServer(s.handler)
	t.Cleanup(listener.Close)
	return s, listener.URL
}

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Key", "key-1")
	return r
}

func TestAStreamPassesPieceByPiece(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	h := func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n")
			w.(http.Flusher).Flush()
			<-next
		}
	}
	settled := make(chan int64, 1)
	o := httplimit.Options{Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
		settled <- res.Bytes
		return nil
	}}
	_, url := start(t, o, h, limiter.PerHour("requests", 3))
	res, err := http.DefaultClient.Do(request(t, t.Context(), url))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("RateLimit"); got != `"requests";r=2;t=1200` {
		t.Errorf("RateLimit: %q", got)
	}
	lines := bufio.NewReader(res.Body)
	for range 3 {
		if line, err := lines.ReadString('\n'); line != "data: x\n" || err != nil {
			t.Fatalf("got %q, %v", line, err)
		}
		next <- struct{}{}
	}
	if bytes := <-settled; bytes != 24 {
		t.Errorf("%d bytes", bytes)
	}
}

func TestAStreamWhoseClientLeavesIsSettled(t *testing.T) {
	t.Parallel()
	h := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: x\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	settled := make(chan int64, 1)
	o := httplimit.Options{Consume: map[string]int64{"tph": 500}, Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
		settled <- res.Bytes
		return map[string]int64{"tph": res.Bytes}
	}}
	s, url := start(t, o, h, limiter.Custom("tph", 1, time.Hour, limiter.Burst(1000)))
	ctx, leave := context.WithCancel(t.Context())
	res, err := http.DefaultClient.Do(request(t, ctx, url))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	leave()
	<-settled
	for end := time.Now().Add(5 * time.Second); s.left("tph") != 992 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the lease is committed after Settle has returned
	}
	s.wantLeft("tph", 992)
}

func TestAHijackedConnectionIsTheHandlers(t *testing.T) {
	t.Parallel()
	settled := make(chan *httplimit.Response, 1)
	o := httplimit.Options{Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
		settled <- res
		return nil
	}}
	h := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello")
		_ = conn.Close()
	}
	_, url := start(t, o, h, limiter.PerHour("requests", 3))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := request(t, t.Context(), url).Write(conn); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello") {
		t.Errorf("got %q, %v", got, err)
	}
	if res := <-settled; !res.Hijacked || res.Status != 0 {
		t.Errorf("got %+v", res)
	}
}

// A handler sees the methods that the server's writer has, and no others.
func TestAWriterHasTheMethodsOfTheServers(t *testing.T) {
	t.Parallel()
	type plain struct{ http.ResponseWriter }
	type hijacks struct {
		http.ResponseWriter
		http.Hijacker
	}
	for name, c := range map[string]struct {
		w               http.ResponseWriter
		flushes, hijack bool
	}{
		"flusher":  {httptest.NewRecorder(), true, false},
		"hijacker": {hijacks{ResponseWriter: httptest.NewRecorder()}, false, true},
		"neither":  {plain{httptest.NewRecorder()}, false, false},
	} {
		h := func(w http.ResponseWriter, _ *http.Request) {
			_, flushes := w.(http.Flusher)
			_, hijack := w.(http.Hijacker)
			if flushes != c.flushes || hijack != c.hijack {
				t.Errorf("%s: flusher %t, hijacker %t", name, flushes, hijack)
			}
		}
		s := newServer(t, httplimit.Options{}, h, limiter.PerHour("requests", 3))
		s.handler.ServeHTTP(c.w, request(t, t.Context(), "/"))
	}
}
