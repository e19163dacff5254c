package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
	"github.com/zeroae/zae-limiter-go/store"
)

func withFields(fields map[string]string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	for name, value := range fields {
		r.Header.Set(name, value)
	}
	return r
}

func TestKeysOfARequest(t *testing.T) {
	t.Parallel()
	type claims struct{}
	verified := func(r *http.Request) (map[string]any, bool) {
		m, ok := r.Context().Value(claims{}).(map[string]any)
		return m, ok
	}
	as := func(m map[string]any) *http.Request {
		r := withFields(nil)
		return r.WithContext(context.WithValue(r.Context(), claims{}, m))
	}
	secret := httplimit.KeyName("s3cret")
	subject := httplimit.Claim("sub", verified)
	anyKey := httplimit.FirstOf(subject, httplimit.APIKey(), httplimit.Constant("anonymous"))
	for name, c := range map[string]struct {
		key  httplimit.Key
		r    *http.Request
		want string
	}{
		"header":                    {httplimit.Header("X-Tenant"), withFields(map[string]string{"X-Tenant": "a|b"}), "aZ_7Cb"},
		"bearer":                    {httplimit.APIKey(), withFields(map[string]string{"Authorization": "Bearer s3cret"}), secret},
		"bearer, spelt differently": {httplimit.APIKey(), withFields(map[string]string{"Authorization": "bEARER  s3cret"}), secret},
		"api key":                   {httplimit.APIKey(), withFields(map[string]string{"X-API-Key": "s3cret"}), secret},
		"api key beside basic":      {httplimit.APIKey(), withFields(map[string]string{"X-API-Key": "s3cret", "Authorization": "Basic eA=="}), secret},
		"claim":                     {subject, as(map[string]any{"sub": "auth0|5f7c"}), "auth0Z_7C5f7c"},
		"the first":                 {anyKey, as(map[string]any{"sub": "me"}), "me"},
		"the second":                {anyKey, withFields(map[string]string{"X-API-Key": "s3cret"}), secret},
		"none of them":              {anyKey, withFields(nil), "anonymous"},
		"host":                      {httplimit.Host(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "https://API.example.com:8443/x", nil), "upstream/api.example.com"},
		"host, IPv6":                {httplimit.Host(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://[::1]:80/x", nil), "upstream/::1"},
	} {
		if got, err := c.key(c.r); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		key    httplimit.Key
		r      *http.Request
		status int
	}{
		"header":              {httplimit.Header("X-Tenant"), withFields(nil), 400},
		"api key":             {httplimit.APIKey(), withFields(nil), 401},
		"an empty key":        {httplimit.APIKey(), withFields(map[string]string{"Authorization": "Bearer "}), 401},
		"another scheme":      {httplimit.APIKey(), withFields(map[string]string{"Authorization": "Basic eA=="}), 401},
		"no token":            {subject, withFields(nil), 401},
		"no claim":            {subject, as(map[string]any{}), 401},
		"a claim of no text":  {subject, as(map[string]any{"sub": 7}), 401},
		"an unverified token": {subject, withFields(map[string]string{"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."}), 401},
	} {
		got, err := c.key(c.r)
		if got != "" || !errors.Is(err, httplimit.ErrNoKey) || httplimit.StatusOf(err) != c.status {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct {
		key   httplimit.Key
		field string
	}{
		"two tenants":        {httplimit.Header("x-tenant"), "X-Tenant"},
		"two authorizations": {httplimit.APIKey(), "Authorization"},
		"two API keys":       {httplimit.APIKey(), "X-Api-Key"},
		"two, or anonymous":  {anyKey, "Authorization"},
	} {
		r := withFields(nil)
		r.Header[c.field] = []string{"Bearer a", "Bearer b"}
		if got, err := c.key(r); got != "" || err == nil || errors.Is(err, httplimit.ErrNoKey) || httplimit.StatusOf(err) != 400 {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	broken := &httplimit.RequestError{Status: 418}
	fails := httplimit.FirstOf(func(*http.Request) (string, error) { return "", broken }, httplimit.Constant("x"))
	if _, err := fails(withFields(nil)); !errors.Is(err, broken) {
		t.Errorf("got %v: an error that is not ErrNoKey does not try the next key", err)
	}
}

func TestAnAPIKeyIsNotInItsName(t *testing.T) {
	t.Parallel()
	name := httplimit.KeyName("s3cret")
	if strings.Contains(name, "s3cret") || len(name) != 36 || name == httplimit.KeyName("s3cret2") || store.CheckEntity(name) != nil {
		t.Errorf("got %q", name)
	}
}

func TestPatternsAreResources(t *testing.T) {
	t.Parallel()
	long := "GET /" + strings.Repeat("a", 80)
	seen := map[string]string{}
	for pattern, want := range map[string]string{
		"GET /items/{id}":         "GET:/items/:id",
		"/items/{id}":             "ANY:/items/:id",
		"/":                       "ANY:/",
		"/{$}":                    "ANY:/:.",
		"example.com/x/{path...}": "example.com/x/:path..",
		"POST example.com/x":      "POST:example.com/x",
		"9p.io/":                  "ANY:9p.io/",
		"GET /a b":                "GET:/a:b",
		"GET /ä":                  "",
		"GET /~":                  "",
		"GET /_":                  "GET:/_",
		"POST /_":                 "POST:/_",
		"BREW /_":                 "OTHER:/_",
		"/files/*":                "ANY:/files/..",
		"/files/*path":            "ANY:/files/..path",
		"}":                       "ANY:",
		"gpt 4":                   "gpt:4",
		long:                      "",
		long + "b":                "",
	} {
		got, err := httplimit.Resource(httplimit.Constant(pattern))(nil)
		if err != nil || want != "" && got != want || store.CheckResource(got) != nil {
			t.Errorf("%q: got %q, %v", pattern, got, err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", pattern, other, got)
		}
		seen[got] = pattern
	}
}

// Texts that clients make up get few names and little memory.
func TestRoutesWithoutAPathOrOfUnknownMethodsShareNames(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		"": "unmatched", "GET ": "unmatched", "BREW ": "unmatched", " ": "unmatched",
		"BREW0 /items/{id}": "OTHER:/items/:id", "get /items/{id}": "OTHER:/items/:id", "PROPFIND example.com/x": "OTHER:example.com/x",
	} {
		if got := httplimit.ResourceName(route); got != want {
			t.Errorf("%q: got %q, want %q", route, got, want)
		}
	}
	if n := httplimit.Remembered(3000); n != 1000 {
		t.Errorf("%d names are remembered", n)
	}
}

// Paths that clients make up do not make resources.
func TestAResourceIsThePatternAndNotThePath(t *testing.T) {
	t.Parallel()
	var seen []string
	o := httplimit.Options{Entity: httplimit.Constant("me"), Observe: func(_ *http.Request, d *httplimit.Decision) { seen = append(seen, d.Request.Resource) }}
	mux := http.NewServeMux()
	s := newServer(t, o, nil, limiter.PerHour("requests", 100))
	o.Resource = httplimit.Pattern(nil)
	mux.Handle("GET /in/{id}", wrap(t, s.limits, o, http.NotFoundHandler()))
	mux.Handle("GET /out/{id}", http.NotFoundHandler())
	o.Resource = httplimit.Pattern(mux)
	outside := wrap(t, s.limits, o, mux)
	for _, c := range []struct {
		h    http.Handler
		path string
		want []string
	}{
		{mux, "/in/1", []string{"GET:/in/:id"}},
		{outside, "/out/1", []string{"GET:/out/:id"}},
		{outside, "/out/2", []string{"GET:/out/:id"}},
		{outside, "/elsewhere", []string{"unmatched"}},
	} {
		seen = nil
		c.h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, c.path, nil))
		if strings.Join(seen, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: got %q", c.path, seen)
		}
	}
}
