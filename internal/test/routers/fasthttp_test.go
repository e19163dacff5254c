package routers_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/fasthttputil"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// TestFiber: the adaptor of fiber runs the handler after the middleware has returned. So the
// middleware decides, and the handler cannot settle.
func TestFiber(t *testing.T) {
	t.Parallel()
	resources, served := []string{}, 0
	route := httplimit.Resource(func(r *http.Request) (string, error) {
		route, _ := r.Context().Value("route").(string)
		return route, nil
	})
	limit, err := httplimit.New(limitertest.New(t, limiter.PerHour("requests", 2)), httplimit.Options{
		Entity: httplimit.APIKey(), Resource: route,
		Observe: func(_ *http.Request, d *httplimit.Decision) { resources = append(resources, d.Request.Resource) },
	})
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New()
	limited := adaptor.HTTPMiddleware(limit.Handler)
	perRoute := func(c *fiber.Ctx) error {
		c.Locals("route", c.Route().Method+" "+c.Route().Path)
		return limited(c)
	}
	app.Get("/items/:id", perRoute, func(c *fiber.Ctx) error {
		served++
		return c.SendString("item " + c.Params("id"))
	})
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/items/7", nil)
		r.Header.Set("X-API-Key", "secret")
		res, err := app.Test(r, -1)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want || res.Header.Get("RateLimit") == "" || want == http.StatusOK && string(body) != "item 7" ||
			want != http.StatusOK && (res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"status":429`)) {
			t.Errorf("want %d: %d, %v, %s", want, res.StatusCode, res.Header, body)
		}
	}
	if served != 2 || !slices.Equal(resources, []string{"GET:/items/:id", "GET:/items/:id", "GET:/items/:id"}) {
		t.Errorf("served %d, resources %q", served, resources)
	}
}

// TestFasthttp: a handler of net/http runs inside the middleware, as it does in net/http.
func TestFasthttp(t *testing.T) {
	t.Parallel()
	limits := limitertest.New(t, limiter.PerHour("requests", 5))
	limit, err := httplimit.New(limits, httplimit.Options{Entity: httplimit.APIKey(), Consume: map[string]int64{"requests": 4}})
	if err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := httplimit.Settle(r.Context(), "requests", 1); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "ok")
	})
	listener := fasthttputil.NewInmemoryListener()
	server := &fasthttp.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(limit.Handler(handler))}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return listener.Dial() }}
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", "secret")
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want || res.Header.Get("RateLimit") == "" {
			t.Errorf("want %d: %d, %v", want, res.StatusCode, res.Header)
		}
	}
	transport.CloseIdleConnections()
	if err := server.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
