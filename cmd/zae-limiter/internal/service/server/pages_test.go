package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

// Without tokens, only this machine sees the pages, by a name of it: no page of another site, and nobody
// where other machines reach the address. Refusals have the fields that protect browsers, too.
func TestWhoSeesThePages(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a page")) })
	for name, c := range map[string]struct {
		server.Options

		here, there int
	}{
		"loopback": {server.Options{}, http.StatusOK, http.StatusForbidden},
		"exposed":  {server.Options{Exposed: true, Open: true}, http.StatusForbidden, http.StatusForbidden},
		"open":     {server.Options{Open: true}, http.StatusOK, http.StatusForbidden},
		"tokens":   {server.Options{Exposed: true, Guard: guard(t, roles)}, http.StatusOK, http.StatusOK}, // the pages ask for them
	} {
		t.Run(name, func(t *testing.T) {
			c.Pages = pages
			serve(t, c.Options, func(r *running) {
				for host, want := range map[string]int{"127.0.0.1": c.here, "localhost:8080": c.here, "evil.example": c.there} {
					for _, path := range []string{"/ui/", "/ui/entity?id=a", "/ui"} {
						q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+host+path, http.NoBody)
						if err != nil {
							r.Fatal(err)
						}
						a, err := r.newClient(r.calls).Do(q)
						if err != nil {
							r.Fatal(err)
						}
						_ = a.Body.Close()
						if a.StatusCode != want {
							r.Errorf("%s%s: %d, want %d", host, path, a.StatusCode, want)
						}
						if !strings.HasPrefix(a.Header.Get("Content-Security-Policy"), "default-src 'self'") {
							r.Errorf("%s%s has no policy", host, path)
						}
					}
				}
				if _, metrics := r.get(r.newClient(r.admin), "/metrics"); !strings.Contains(metrics, `path="/ui/"`) || strings.Contains(metrics, "/ui/entity") {
					r.Error("the metrics do not count the pages together")
				}
			})
		})
	}
}
