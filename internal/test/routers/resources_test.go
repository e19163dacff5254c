package routers_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// madeUp are requests for paths with and without a route, by methods that routes have, that they
// do not have, and that nobody has.
func madeUp(ctx context.Context) (requests []*http.Request) {
	methods := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, "PROPFIND", "get", "_",
	}
	for i := range 5 {
		methods = append(methods, fmt.Sprint("BREW", i))
	}
	for _, method := range methods {
		for _, path := range []string{
			"/items/1", "/items/2", "/items", "/items/3/", "/items//4", "/items/%2f%ff", "/tree/" + method, "/v1/users/1", "/v1/nothing",
			"/nowhere", "/nowhere/" + method, "/", "//", "/*", "/:id", "/{id}",
		} {
			requests = append(requests, httptest.NewRequestWithContext(ctx, method, path, nil))
		}
	}
	return requests
}

// resources are the resources that requests of one client make.
func resources(t *testing.T, key httplimit.Key, build func(*httplimit.Middleware) http.Handler) []string {
	t.Helper()
	seen := map[string]bool{}
	limit, err := httplimit.New(limitertest.New(t, limiter.PerDay("requests", 10_000)), httplimit.Options{
		Resource: key, Observe: func(_ *http.Request, d *httplimit.Decision) { seen[d.Request.Resource] = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := build(limit)
	for _, r := range madeUp(t.Context()) {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	return slices.Sorted(maps.Keys(seen))
}

// TestClientsMakeNoResources: whatever methods and paths clients make up, there are as many
// resources as routes, and one for requests that no route matches.
func TestClientsMakeNoResources(t *testing.T) {
	t.Parallel()
	for _, r := range routers {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			allowed := []string{r.resource, httplimit.Unmatched}
			got := resources(t, r.key(), func(limit *httplimit.Middleware) http.Handler {
				return r.build(limit, func(http.ResponseWriter, *http.Request, string) {})
			})
			for _, resource := range got {
				if !slices.Contains(allowed, resource) {
					t.Errorf("a client has made %q", resource)
				}
			}
			if !slices.Contains(got, r.resource) {
				t.Errorf("resources: %q", got)
			}
		})
	}
}

// TestRecipesWithoutCareMakeFewResources: a program may give the request's method with a route
// that does not have it. Made-up methods still share one name.
func TestRecipesWithoutCareMakeFewResources(t *testing.T) {
	t.Parallel()
	nothing := func(http.ResponseWriter, *http.Request) {}
	for name, c := range map[string]struct {
		key   httplimit.Key
		build func(*httplimit.Middleware) http.Handler
		want  []string
	}{
		"echo, with every method": {httplimit.Pattern(nil), func(limit *httplimit.Middleware) http.Handler {
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					c.Request().Pattern = c.Request().Method + " " + c.Path()
					return next(c)
				}
			}, echo.WrapMiddleware(limit.Handler))
			e.GET("/items/:id", func(echo.Context) error { return nil })
			return e
		}, []string{
			"CONNECT:/items/:id", "DELETE:/items/:id", "GET:/items/:id", "HEAD:/items/:id", "OPTIONS:/items/:id",
			"OTHER:/items/:id", "PATCH:/items/:id", "POST:/items/:id", "PUT:/items/:id", "TRACE:/items/:id", "unmatched",
		}},
		"gin, by path": {httplimit.Pattern(nil), func(limit *httplimit.Middleware) http.Handler {
			router := gin.New()
			router.Use(func(c *gin.Context) {
				c.Request.Pattern = c.FullPath()
				limit.Handler(http.HandlerFunc(nothing)).ServeHTTP(c.Writer, c.Request)
			})
			router.GET("/items/*path", func(*gin.Context) {})
			return router
		}, []string{"ANY:/items/..path", "unmatched"}},
		"chi, for all routes": {httplimit.Pattern(nil), func(limit *httplimit.Middleware) http.Handler {
			r := chi.NewRouter()
			r.Use(limit.Handler)
			r.Get("/items/{id}", nothing)
			return r
		}, []string{"unmatched"}},
		"chi, for groups and mounts": {httplimit.Pattern(nil), func(limit *httplimit.Middleware) http.Handler {
			r := chi.NewRouter()
			r.Group(func(r chi.Router) {
				r.Use(limit.Handler)
				r.Get("/items/{id}", nothing)
			})
			r.Route("/v1", func(r chi.Router) {
				r.Use(limit.Handler)
				r.Get("/users/{id}", nothing)
			})
			r.Mount("/tree", limit.Handler(http.HandlerFunc(nothing)))
			return r
		}, []string{"ANY:/items/:id", "ANY:/tree/..", "ANY:/v1/.."}},
		// A ServeMux redirects CONNECT to a path of the client, and calls that the pattern.
		"ServeMux with a subtree": {nil, func(limit *httplimit.Middleware) http.Handler { return limit.Handler(subtree()) }, []string{
			"ANY:/tree/:name/", "GET:/items/:id", "OTHER:/v1/", "unmatched",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := c.key
			if key == nil {
				key = httplimit.Pattern(subtree())
			}
			if got := resources(t, key, c.build); !slices.Equal(got, c.want) {
				t.Errorf("resources %q, want %q", got, c.want)
			}
		})
	}
}

func subtree() *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /items/{id}", "/tree/{name}/", "PROPFIND /v1/"} {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return mux
}
