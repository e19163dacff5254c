package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// open makes a limiter on a table in memory. A program opens a table on AWS.
func open(limits ...limiter.Limit) *limiter.Limiter {
	ctx, engine := context.Background(), dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		panic(err)
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		panic(err)
	}
	if err := store.SetSystem(ctx, limits, ""); err != nil {
		panic(err)
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		panic(err)
	}
	return l
}

func Example() {
	limits := open(limiter.PerHour("rph", 1))
	limit, err := httplimit.New(limits, httplimit.Options{
		Entity:  httplimit.APIKey(),
		Consume: map[string]int64{"rph": 1},
	})
	if err != nil {
		panic(err)
	}
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))

	for range 2 {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer s3cret")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		left, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";t=")
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
		fmt.Println(w.Header().Get("RateLimit-Policy"), left)
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// "rph";q=1;w=3600 "rph";r=0
	// 429 application/problem+json
	// "rph";q=1;w=3600 "rph";r=0
}

// A handler reserves 500 tokens, and settles what it has really used. If the client leaves,
// what was used so far is charged.
func ExampleSettle() {
	limits := open(limiter.PerHour("tph", 1000))
	limit, err := httplimit.New(limits, httplimit.Options{
		Entity:  httplimit.APIKey(),
		Consume: map[string]int64{"tph": 500},
	})
	if err != nil {
		panic(err)
	}
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used := int64(0)
		for _, piece := range []string{"hello ", "world"} {
			_, _ = io.WriteString(w, piece)
			used += 10
			if err := httplimit.Settle(r.Context(), "tph", used); err != nil {
				panic(err)
			}
		}
	}))

	for range 2 {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer s3cret")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		left, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";t=")
		fmt.Println(left)
	}
	// Output:
	// "tph";r=500
	// "tph";r=480
}

// A client that keeps to one request an hour, and holds back when the upstream says so.
func ExampleTransport() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer upstream.Close()

	transport, err := httplimit.NewTransport(open(limiter.PerHour("requests", 1)), httplimit.TransportOptions{
		Resource: httplimit.Constant("upstream/geocoder"),
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}

	res, err := client.Get(upstream.URL) //nolint:noctx // an example
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	_, err = client.Get(upstream.URL) //nolint:noctx,bodyclose // an example; nothing was sent
	held := (*httplimit.HeldError)(nil)
	fmt.Println(errors.As(err, &held), held.RetryAfter.Round(time.Second))
	// Output:
	// 429 Too Many Requests
	// true 30s
}

// A program that answers itself takes the status from StatusOf.
func ExampleStatusOf() {
	for _, err := range []error{
		nil,
		&limiter.ExceededError{},
		&limiter.ValidationError{Field: "entity", Value: "a|b"},
		limiter.ErrUnavailable,
		limiter.ErrNotConfigured,
	} {
		fmt.Println(httplimit.StatusOf(err))
	}
	// Output:
	// 200
	// 429
	// 400
	// 503
	// 500
}

// The client's address, behind a proxy of the network 10.0.0.0/8. What the client itself
// wrote into the field is not read.
func ExampleClientAddr() {
	key, err := httplimit.ClientAddr(httplimit.AddrOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	r.RemoteAddr = "10.1.2.3:4711"
	r.Header.Set("X-Forwarded-For", "203.0.113.9, 192.0.2.7")
	fmt.Println(key(r))
	// Output: 192.0.2.7 <nil>
}

// A limit of the client's address stands in front of the key. Forged keys make no bucket, and an
// address that tries many is refused before the next one is looked up.
func Example_addressInFrontOfTheKey() {
	limits := open(limiter.PerHour("attempts", 3), limiter.PerHour("rph", 100))
	outer, err := httplimit.New(limits, httplimit.Options{
		Resource: httplimit.Constant("addresses"), Consume: map[string]int64{"attempts": 1},
	})
	if err != nil {
		panic(err)
	}
	inner, err := httplimit.New(limits, httplimit.Options{
		Entity: httplimit.APIKey(), Consume: map[string]int64{"rph": 1},
	})
	if err != nil {
		panic(err)
	}
	served := inner.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	verified := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") != "known" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		served.ServeHTTP(w, r)
	})
	handler := outer.Handler(verified)
	for _, key := range []string{"known", "forged-1", "forged-2", "forged-3"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(key, w.Code)
	}
	// Output:
	// known 200
	// forged-1 401
	// forged-2 401
	// forged-3 429
}

// Each route is a resource, whatever its paths.
func ExamplePattern() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(http.ResponseWriter, *http.Request) {})
	resource := httplimit.Pattern(mux)
	for _, path := range []string{"/users/1", "/users/2"} {
		fmt.Println(resource(httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)))
	}
	// Output:
	// GET:/users/:id <nil>
	// GET:/users/:id <nil>
}
