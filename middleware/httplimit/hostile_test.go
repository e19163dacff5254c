package httplimit_test

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// TestHostileKeysAreAnswered: whatever a client writes, the answer is short, tells nothing of the
// server, and is no error of the server.
func TestHostileKeysAreAnswered(t *testing.T) {
	t.Parallel()
	giant := strings.Repeat("x", 60_000)
	claims := func(r *http.Request) (map[string]any, bool) {
		return map[string]any{"sub": r.Header.Get("Sub")}, true
	}
	for name, c := range map[string]struct {
		key    httplimit.Key
		field  string
		value  string
		status int
	}{
		"a giant API key":         {httplimit.APIKey(), "X-Api-Key", giant, 200},
		"a giant bearer token":    {httplimit.APIKey(), "Authorization", "Bearer " + giant, 200},
		"a giant field":           {httplimit.Header("Key"), "Key", giant, 400},
		"a giant claim":           {httplimit.Claim("sub", claims), "Sub", giant, 400},
		"a field that is no text": {httplimit.Header("Key"), "Key", "\xff\xfe\x01", 200},
		"a claim that is no text": {httplimit.Claim("sub", claims), "Sub", "\xff\x00", 200},
		"a key of white space":    {httplimit.APIKey(), "X-Api-Key", " ", 200},
		"a token without a key":   {httplimit.APIKey(), "Authorization", "Bearer      ", 401},
		"a reserved name":         {httplimit.Header("Key"), "Key", "$SYSTEM", 200},
		"a giant list of proxies": {mustAddr(t), "X-Forwarded-For", strings.Repeat("192.0.2.1,", 6_000), 200},
	} {
		limits := limitertest.New(t, limiter.PerMinute("requests", 10))
		h := wrap(t, limits, httplimit.Options{Entity: c.key}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header[c.field] = []string{c.value}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || w.Body.Len() > 300 || strings.Contains(w.Body.String(), "xxxx") {
			t.Errorf("%s: %d, %d bytes: %.300s", name, w.Code, w.Body.Len(), w.Body)
		}
	}
}

func mustAddr(t *testing.T) httplimit.Key {
	t.Helper()
	return clientAddr(t, httplimit.AddrOptions{Trusted: inner})
}

// TestEveryMethodIsLimited: also those without a path, and those that no pattern matches. They
// share few resources, whatever clients send.
func TestEveryMethodIsLimited(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t, limiter.PerDay("requests", 100))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	seen := map[string]int{}
	server := httptest.NewServer(wrap(t, limits, httplimit.Options{
		Entity: httplimit.Constant("me"), Resource: httplimit.Pattern(mux),
		Observe: func(_ *http.Request, d *httplimit.Decision) { seen[d.Request.Resource]++ },
	}, mux))
	defer server.Close()
	for _, request := range []string{
		"GET /items/1", "HEAD /items/2", "OPTIONS /items/3", "POST /items/4", "BREW /coffee", "CONNECT example.org:443", "GET /%ff%00", "GET //a//b",
		"GET /items/" + strings.Repeat("9", 5000), "GET http://[::1%25eth0]/items/1",
	} {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request+" HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"); err != nil {
			t.Error(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode >= 500 || answer.Header.Get("RateLimit") == "" {
			t.Errorf("%.30s: %v, %v", request, answer, err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		_ = conn.Close()
	}
	if want := map[string]int{"GET:/items/:id": 4, "unmatched": 6}; !maps.Equal(seen, want) {
		t.Errorf("resources: %v, want %v", seen, want)
	}
}

// TestOptionsAreCopied: a caller may change its map after New.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t, limiter.PerDay("requests", 10))
	consume := map[string]int64{"requests": 1}
	h := wrap(t, limits, httplimit.Options{Entity: httplimit.Constant("me"), Consume: consume}, http.NotFoundHandler())
	consume["requests"] = 11
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}
