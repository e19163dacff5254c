package routers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/julienschmidt/httprouter"
	"github.com/labstack/echo/v4"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// A handler answers a request for an item, whose id the router has found: with a status, or
// by reading nothing but the id. It settles 2 tokens of "tpm".
type handler func(w http.ResponseWriter, r *http.Request, id string)

// A router makes a handler of a middleware and of the handler of "GET /items/{id}".
type router struct {
	name string
	// resource is the bucket of requests for items.
	resource string
	// settles: Options.Settle sees what the handler has answered.
	settles bool
	// route is Options.Resource. Default: Pattern(nil).
	route httplimit.Key
	build func(*httplimit.Middleware, handler) http.Handler
}

var template = httplimit.Resource(func(r *http.Request) (string, error) {
	return mux.CurrentRoute(r).GetPathTemplate()
})

var routers = []router{
	{"ServeMux around the middleware", "GET:/items/:id", true, nil, func(limit *httplimit.Middleware, h handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("GET /items/{id}", limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, r.PathValue("id")) })))
		return mux
	}},
	{"chi", "ANY:/items/:id", true, nil, func(limit *httplimit.Middleware, h handler) http.Handler {
		r := chi.NewRouter()
		// A middleware of With or Group runs once the route is known; one of Use runs before.
		r.With(limit.Handler).Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { h(w, r, chi.URLParam(r, "id")) })
		return r
	}},
	{"echo", "GET:/items/:id", true, nil, func(limit *httplimit.Middleware, h handler) http.Handler {
		e := echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if c.Get(echo.ContextKeyHeaderAllow) == nil { // the route has this method
					c.Request().Pattern = c.Request().Method + " " + c.Path()
				}
				return next(c)
			}
		})
		e.Use(echo.WrapMiddleware(limit.Handler))
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if err := next(c); err != nil {
					c.Error(err) // answers now, so that Options.Settle sees the status
				}
				return nil
			}
		})
		e.GET("/items/:id", func(c echo.Context) error {
			if c.Param("id") == "missing" {
				return echo.ErrNotFound
			}
			h(c.Response(), c.Request(), c.Param("id"))
			return nil
		})
		return e
	}},
	{"gin", "GET:/items/:id", false, nil, func(limit *httplimit.Middleware, h handler) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		router := gin.New()
		router.Use(func(c *gin.Context) {
			admitted := false
			c.Request.Pattern = c.Request.Method + " " + c.FullPath()
			limit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				admitted, c.Request = true, r
				c.Next()
			})).ServeHTTP(c.Writer, c.Request)
			if !admitted {
				c.Abort()
			}
		})
		router.GET("/items/:id", func(c *gin.Context) { h(c.Writer, c.Request, c.Param("id")) })
		return router
	}},
	{"gorilla/mux", "ANY:/items/:id", true, template, func(limit *httplimit.Middleware, h handler) http.Handler {
		r := mux.NewRouter()
		r.Use(limit.Handler) // runs only if a route matches
		r.HandleFunc("/items/{id}", func(w http.ResponseWriter, r *http.Request) { h(w, r, mux.Vars(r)["id"]) }).Methods(http.MethodGet)
		return r
	}},
	{"httprouter", "GET:/items/:id", true, nil, func(limit *httplimit.Middleware, h handler) http.Handler {
		router := httprouter.New()
		handle := func(method, path string, next http.Handler) {
			limited := limit.Handler(next)
			router.HandlerFunc(method, path, func(w http.ResponseWriter, r *http.Request) {
				r.Pattern = method + " " + path
				limited.ServeHTTP(w, r)
			})
		}
		handle(http.MethodGet, "/items/:id", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h(w, r, httprouter.ParamsFromContext(r.Context()).ByName("id"))
		}))
		return router
	}},
}

// key is what a router's requests use.
func (r router) key() httplimit.Key {
	if r.route != nil {
		return r.route
	}
	return httplimit.Pattern(nil)
}

// A site is a router with the middleware, on a limiter of its own.
type site struct {
	*testing.T
	router
	limits  *limitertest.Limits
	handler http.Handler

	mu      sync.Mutex
	served  []string // ids
	settled []int    // statuses that Settle was told
}

func (r router) site(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, router: r, limits: limitertest.New(t, limiter.PerHour("rpm", 3), limiter.PerHour("tpm", 100))}
	limit, err := httplimit.New(s.limits, httplimit.Options{
		Entity: httplimit.Header("Key"), Resource: r.key(), Consume: map[string]int64{"rpm": 1, "tpm": 50},
		Settle: func(_ *http.Request, res *httplimit.Response) map[string]int64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.settled = append(s.settled, res.Status)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.handler = r.build(limit, func(w http.ResponseWriter, r *http.Request, id string) {
		s.mu.Lock()
		s.served = append(s.served, id)
		s.mu.Unlock()
		if err := httplimit.Settle(r.Context(), "tpm", 2); err != nil {
			t.Error(err)
		}
		if id == "missing" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "item "+id)
	})
	return s
}

func (s *site) get(path string) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, path, nil)
	r.Header.Set("Key", "key-1")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// left is what key-1 has left of the bucket of requests for items.
func (s *site) left(limit string) int64 {
	s.Helper()
	statuses, err := s.limits.Available(s.Context(), limiter.Request{Entity: "key-1", Resource: s.resource, Consume: map[string]int64{limit: 0}})
	if err != nil {
		s.Fatal(err)
	}
	return statuses[0].Available
}

// onEach runs a test with each router.
func onEach(t *testing.T, f func(*site)) {
	t.Helper()
	t.Parallel()
	for _, r := range routers {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			f(r.site(t))
		})
	}
}

// TestARequestIsAdmittedAndRefused: an admitted request reaches its handler, with the path's
// parameters, and the answer has the header fields. A refused request reaches no handler.
func TestARequestIsAdmittedAndRefused(t *testing.T) {
	onEach(t, func(s *site) {
		for range 3 {
			w := s.get("/items/7")
			if w.Code != http.StatusOK || w.Body.String() != "item 7" || w.Header().Get("Ratelimit") == "" {
				s.Errorf("admitted: %d, %q, %v", w.Code, w.Body, w.Header())
			}
		}
		w := s.get("/items/8")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" ||
			w.Header().Get("Content-Type") != "application/problem+json" || !strings.HasPrefix(w.Body.String(), "{") || strings.Count(w.Body.String(), "}") != 1 {
			s.Errorf("refused: %d, %q, %v", w.Code, w.Body, w.Header())
		}
		if got := strings.Join(s.served, " "); got != "7 7 7" {
			s.Errorf("handlers have seen %q", got)
		}
	})
}

// TestTheBucketIsTheRoutesAndTheHandlerSettles: all items share the bucket of their route,
// and what the handler settles through its request's context holds.
func TestTheBucketIsTheRoutesAndTheHandlerSettles(t *testing.T) {
	onEach(t, func(s *site) {
		s.get("/items/1")
		s.get("/items/2")
		if rpm, tpm := s.left("rpm"), s.left("tpm"); rpm != 1 || tpm != 96 {
			s.Errorf("%d of rpm and %d of tpm are left, want 1 and 96", rpm, tpm)
		}
	})
}

// TestSettleSeesTheHandlersAnswer: also if the handler returns an error that the router turns
// into an answer. gin's handlers write past the middleware, as docs/http.md says.
func TestSettleSeesTheHandlersAnswer(t *testing.T) {
	onEach(t, func(s *site) {
		if w := s.get("/items/missing"); w.Code != http.StatusNotFound {
			s.Errorf("answered %d", w.Code)
		}
		want := http.StatusNotFound
		if !s.settles {
			want = http.StatusOK
		}
		if len(s.settled) != 1 || s.settled[0] != want {
			s.Errorf("Settle is told %v, want %d", s.settled, want)
		}
	})
}

// TestAPanicReturnsWhatWasTaken: a handler that panics before it answers takes nothing.
func TestAPanicReturnsWhatWasTaken(t *testing.T) {
	t.Parallel()
	for _, r := range routers {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := r.site(t)
			limit, err := httplimit.New(s.limits, httplimit.Options{
				Entity: httplimit.Header("Key"), Resource: r.key(), Consume: map[string]int64{"rpm": 1},
			})
			if err != nil {
				t.Fatal(err)
			}
			s.handler = r.build(limit, func(http.ResponseWriter, *http.Request, string) { panic("a defect") })
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				s.get("/items/1")
			}()
			if left := s.left("rpm"); left != 3 {
				t.Errorf("%d of rpm are left, want 3", left)
			}
		})
	}
}

// TestAServeMuxInsideTheMiddleware: the middleware around a ServeMux reads the pattern from
// the mux, and requests that match none share a bucket.
func TestAServeMuxInsideTheMiddleware(t *testing.T) {
	t.Parallel()
	s := routers[0].site(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	limit, err := httplimit.New(s.limits, httplimit.Options{
		Entity: httplimit.Header("Key"), Resource: httplimit.Pattern(mux), Consume: map[string]int64{"rpm": 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.handler = limit.Handler(mux)
	s.get("/items/1")
	if w := s.get("/nothing"); w.Code != http.StatusNotFound {
		t.Errorf("answered %d", w.Code)
	}
	for _, resource := range []string{"GET:/items/:id", "unmatched"} {
		s.resource = resource
		if left := s.left("rpm"); left != 2 {
			t.Errorf("%d of %s are left, want 2", left, resource)
		}
	}
}
