package httplimit_test

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// Fields that a layer outside has set stay as they are, in every answer of the middleware. Lists
// may get another line. Only a length of another body goes, as in http.Error.
func TestFieldsOfALayerOutsideStay(t *testing.T) {
	t.Parallel()
	outside := map[string]string{
		"Content-Encoding": "gzip", "Cache-Control": "private", "Etag": `"1"`, "Last-Modified": "Mon, 05 Aug 2019 09:27:00 GMT",
		"Vary": "Origin", "Trailer": "X-Sum", "Www-Authenticate": `Basic realm="x"`, "Expires": "0", "Content-Language": "en",
		"X-Content-Type-Options": "nosniff", "Access-Control-Expose-Headers": "X-Sum", "Link": "</help>", "Set-Cookie": "a=b",
	}
	for _, err := range []error{
		&limiter.ExceededError{}, &limiter.DisabledError{}, limiter.ErrUnavailable, limiter.ErrNotConfigured, limiter.ErrQueueFull,
		&httplimit.HeldError{}, &limiter.ValidationError{Field: "entity"}, &httplimit.RequestError{Status: http.StatusUnauthorized}, nil,
	} {
		o := httplimit.Options{XHeaders: true, ExposeHeaders: true}
		if err != nil {
			o.Entity = func(*http.Request) (string, error) { return "", err }
		}
		s := newServer(t, o, nil, limiter.PerHour("requests", 5))
		w, r := httptest.NewRecorder(), withFields(map[string]string{"Key": "key-1", "Origin": "https://a.example"})
		for name, value := range outside {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Length", "5")
		s.handler.ServeHTTP(w, r)
		for name, value := range outside {
			if got := w.Header().Values(name); len(got) == 0 || got[0] != value {
				t.Errorf("%v: %s is %q", err, name, got)
			}
		}
		if got := w.Header().Get("Content-Length"); err != nil && got != "" {
			t.Errorf("%v: the length of the problem is %s, which a compressing layer does not send", err, got)
		}
	}
}

// A middleware outside compresses every answer, and has said so.
func TestARefusalPassesThroughCompression(t *testing.T) {
	t.Parallel()
	s, server := newServer(t, httplimit.Options{}, nil, limiter.PerDay("requests", 1)), http.NewServeMux()
	server.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		s.handler.ServeHTTP(compressed{w, z}, r)
	})
	listener := httptest.NewServer(server)
	defer listener.Close()
	s.limits.Refuse("key-1", httplimit.DefaultResource)
	res, err := http.DefaultClient.Do(request(t, t.Context(), listener.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var problem struct{ Status int }
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil || problem.Status != http.StatusTooManyRequests {
		t.Errorf("got %+v, %v", problem, err)
	}
}

type compressed struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w compressed) Write(p []byte) (int, error) { return w.z.Write(p) }

// A proxy adds the upstream's fields to the answer. The client gets those of the middlewares,
// once, however many there are.
func TestAnUpstreamsFieldsAreNotAdded(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"RateLimit": `"requests";r=900;t=9`, "RateLimit-Policy": `"requests";q=1000;w=60`, "Retry-After": "7", "Etag": `"1"`,
			"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "900", "X-RateLimit-Reset": "9",
		} {
			w.Header().Set(name, value)
		}
		if r.URL.Path != "/silent" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	o := httplimit.Options{XHeaders: true}
	s := newServer(t, o, proxy.ServeHTTP, limiter.PerHour("requests", 3, limiter.Burst(12)))
	one, o2 := s.handler, httplimit.Options{Entity: httplimit.Constant("everybody"), XHeaders: true}
	two := wrap(t, s.limits, o2, one)
	for _, c := range []struct {
		handler http.Handler
		path    string
		want    map[string][]string
	}{
		{one, "/", map[string][]string{
			"Ratelimit": {`"requests";r=11;t=1200`}, "Ratelimit-Policy": {`"requests";q=3;w=3600;zae-burst=12`},
			"X-Ratelimit-Limit": {"12"}, "X-Ratelimit-Remaining": {"11"}, "X-Ratelimit-Reset": {"1200"}, "Retry-After": {"7"}, "Etag": {`"1"`},
		}},
		{two, "/silent", map[string][]string{
			"Ratelimit": {`"requests";r=11;t=1200`, `"http/requests";r=10;t=2400`}, "X-Ratelimit-Limit": {"12"}, "X-Ratelimit-Remaining": {"10"},
		}},
	} {
		s.handler = c.handler
		listener := httptest.NewServer(c.handler)
		res, err := http.DefaultClient.Do(request(t, t.Context(), listener.URL+c.path))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		for name, want := range c.want {
			if got := res.Header.Values(name); !slices.Equal(got, want) {
				t.Errorf("%s: %s is %q, want %q", c.path, name, got, want)
			}
		}
		listener.Close()
	}
}

// Remaining is never above the limit: nor for a burst above the rate, nor for one below it, nor in a
// bucket that holds more than its capacity.
func TestRemainingIsNeverAboveTheLimit(t *testing.T) {
	t.Parallel()
	for want, limit := range map[string]limiter.Limit{
		"100 100": limiter.PerMinute("l", 10, limiter.Burst(100)), "5 5": limiter.PerMinute("l", 10, limiter.Burst(5)), "10 10": limiter.PerMinute("l", 10),
	} {
		full := limiter.Status{Entity: "me", Limit: limit, Available: limit.Capacity + 1}
		_, w := answerTo(t, &limiter.ExceededError{Statuses: []limiter.Status{full}}, httplimit.Options{XHeaders: true})
		if got := w.Header().Get("X-Ratelimit-Limit") + " " + w.Header().Get("X-Ratelimit-Remaining"); got != want {
			t.Errorf("%v: %s, want %s", limit, got, want)
		}
	}
}

// Several middlewares with a limit of one name: their policies have different names, a refusal
// says which one and which resource, and the X fields are those of the tightest limit.
func TestPoliciesOfSeveralMiddlewaresDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, limiter.PerMinute("requests", 6))
		rest := wrap(t, limits, httplimit.Options{Entity: key, Resource: httplimit.Constant("GET:/x"), XHeaders: true}, http.NotFoundHandler())
		rest = wrap(t, limits, httplimit.Options{Entity: httplimit.Constant("shadow"), Shadow: true}, rest)
		rest = wrap(t, limits, httplimit.Options{Entity: key, XHeaders: true}, rest)
		s := &server{T: t, limits: limits, handler: wrap(t, limits, httplimit.Options{Entity: httplimit.Constant("everybody"), XHeaders: true}, rest)}
		limits.Refuse("everybody", "http", "requests")
		w := s.get()
		if p := s.problemOf(w); !slices.Equal(p["violated-policies"].([]any), []any{"requests"}) {
			t.Errorf("the outermost refuses: %v", p)
		}
		limits.Restore()
		policies := func(w *httptest.ResponseRecorder, field string) (names []string) {
			for _, line := range w.Header().Values(field) {
				names = append(names, strings.SplitN(line, `"`, 3)[1])
			}
			return names
		}
		w = s.get()
		for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
			if got := policies(w, field); !slices.Equal(got, []string{"requests", "http/requests", "GET:/x/requests"}) {
				t.Errorf("%s has %q", field, got)
			}
		}
		lease, err := limits.Acquire(t.Context(), limiter.Request{Entity: "everybody", Resource: "http", Consume: map[string]int64{"requests": 3}})
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Commit(t.Context())
		w = s.get()
		s.want(w, http.StatusNotFound, map[string]string{"X-RateLimit-Remaining": "1"}) // the outermost has the least left
		limits.Refuse("key-1", "GET:/x")
		w = s.get()
		s.want(w, http.StatusTooManyRequests, map[string]string{"X-RateLimit-Remaining": "0", "Retry-After": "10"})
		if p := s.problemOf(w); !slices.Equal(p["violated-policies"].([]any), []any{"GET:/x/requests"}) ||
			p["detail"] != "The limit requests of GET:/x left no room for this request. Retry in 10 seconds." {
			t.Errorf("the innermost refuses: %v", p)
		}
		if got := policies(w, "RateLimit"); len(got) != 3 {
			t.Errorf("a refusal has %q", got)
		}
	})
}

// Two middlewares of one resource, and a third.
func TestPoliciesOfOneResourceAreNumbered(t *testing.T) {
	o := httplimit.Options{Entity: httplimit.Constant("a")}
	inBubble(t, o, nil, func(s *server) {
		for _, entity := range []string{"b", "c"} {
			s.handler = wrap(s.T, s.limits, httplimit.Options{Entity: httplimit.Constant(entity)}, s.handler)
		}
		lines := s.get().Header().Values("RateLimit")
		if want := []string{`"requests";r=5;t=10`, `"http/requests";r=5;t=10`, `"http/requests/2";r=5;t=10`}; !slices.Equal(lines, want) {
			s.Errorf("got %q, want %q", lines, want)
		}
	}, limiter.PerMinute("requests", 6))
}

// A browser asks first what it may send, without a key. That is neither refused nor charged.
// The middleware limits requests that no browser sends.
func TestPreflightsPass(t *testing.T) {
	t.Parallel()
	preflight := func(extra ...string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/", nil)
		r.Header.Set("Origin", "https://a.example")
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		for i := 0; i < len(extra); i += 2 {
			r.Header.Set(extra[i], extra[i+1])
		}
		return r
	}
	post, body := preflight(), preflight()
	post.Method, body.ContentLength = http.MethodPost, 2
	for name, c := range map[string]struct {
		r    *http.Request
		want int
	}{
		"a preflight":    {preflight(), http.StatusNoContent},
		"of no method":   {preflight("Access-Control-Request-Method", ""), http.StatusUnauthorized},
		"of no origin":   {preflight("Origin", ""), http.StatusUnauthorized},
		"with a key":     {preflight("Authorization", "Basic eA=="), http.StatusUnauthorized},
		"with a cookie":  {preflight("Cookie", "a=b"), http.StatusUnauthorized},
		"with a body":    {body, http.StatusUnauthorized},
		"another method": {post, http.StatusUnauthorized},
	} {
		s := newServer(t, httplimit.Options{Entity: httplimit.APIKey()}, nil, limiter.PerHour("requests", 5))
		if w := s.serve(c.r); w.Code != c.want || w.Code == http.StatusNoContent && w.Header().Get("RateLimit") != "" {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
	}
}

// Scripts of other origins may read the fields, if the program says so.
func TestFieldsAreExposedOnRequest(t *testing.T) {
	t.Parallel()
	all := "RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	for name, c := range map[string]struct {
		o      httplimit.Options
		origin string
		want   string
	}{
		"to others":     {httplimit.Options{ExposeHeaders: true}, "https://a.example", "RateLimit, RateLimit-Policy, Retry-After"},
		"X fields, too": {httplimit.Options{ExposeHeaders: true, XHeaders: true}, "https://a.example", all},
		"of one's own":  {httplimit.Options{ExposeHeaders: true}, "", ""},
		"by default":    {httplimit.Options{}, "https://a.example", ""},
		"of a shadow":   {httplimit.Options{ExposeHeaders: true, Shadow: true}, "https://a.example", ""},
	} {
		s := newServer(t, c.o, nil, limiter.PerHour("requests", 1))
		for range 2 { // admitted and refused
			r := withFields(map[string]string{"Key": "key-1"})
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if w := s.serve(r); w.Header().Get("Access-Control-Expose-Headers") != c.want {
				t.Errorf("%s: %d, %v", name, w.Code, w.Header())
			}
		}
	}
}
