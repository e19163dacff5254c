package grpclimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// codesOf are the codes that stand for the statuses of HTTP.
var codesOf = map[int]codes.Code{
	http.StatusNotFound: codes.OK, // the handler's own answer, in both protocols
	http.StatusOK:       codes.OK, http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated,
	http.StatusForbidden: codes.PermissionDenied, http.StatusPaymentRequired: codes.FailedPrecondition,
	http.StatusInternalServerError: codes.Internal, http.StatusBadGateway: codes.Internal,
}

// Names that come from outside are treated alike in both protocols: the same names, and the same
// refusals for the same reasons.
func TestNamesAreAlikeOverHTTPAndGRPC(t *testing.T) {
	t.Parallel()
	long := "google.ai.generativelanguage.v1beta.GenerativeService/StreamGenerateContent"
	refuses := func(httpStatus int) error { return &httplimit.RequestError{Status: httpStatus, Reason: "because"} }
	for name, c := range map[string]struct {
		route  string
		fields http.Header
		// the keys of entities; nil is APIKey
		overHTTP httplimit.Key
		overGRPC grpclimit.Key
		status   int
	}{
		"a method":           {"a.B/C", http.Header{"X-Api-Key": {"k"}}, nil, nil, 200},
		"a long method":      {long, http.Header{"X-Api-Key": {"k"}}, nil, nil, 200},
		"64 characters":      {"a.B/" + strings.Repeat("c", 60), http.Header{"X-Api-Key": {"k"}}, nil, nil, 200},
		"65 characters":      {"a.B/" + strings.Repeat("c", 61), http.Header{"X-Api-Key": {"k"}}, nil, nil, 200},
		"an odd method":      {"_a.B/C$", http.Header{"X-Api-Key": {"k"}}, nil, nil, 200},
		"a bearer":           {"a.B/C", http.Header{"Authorization": {"bearer  k"}}, nil, nil, 200},
		"both keys":          {"a.B/C", http.Header{"Authorization": {"Bearer k"}, "X-Api-Key": {"l"}}, nil, nil, 200},
		"a long key":         {"a.B/C", http.Header{"X-Api-Key": {strings.Repeat("k", 5000)}}, nil, nil, 200},
		"no key":             {"a.B/C", nil, nil, nil, 401},
		"an empty key":       {"a.B/C", http.Header{"Authorization": {"Bearer "}}, nil, nil, 401},
		"another scheme":     {"a.B/C", http.Header{"Authorization": {"Basic eA=="}}, nil, nil, 401},
		"two keys":           {"a.B/C", http.Header{"X-Api-Key": {"k", "l"}}, nil, nil, 400},
		"two authorizations": {"a.B/C", http.Header{"Authorization": {"Bearer k", "Bearer l"}}, nil, nil, 400},
		"a tenant":           {"a.B/C", http.Header{"X-Tenant": {"a|b"}}, httplimit.Header("X-Tenant"), grpclimit.Metadata("X-Tenant"), 200},
		"256 characters":     {"a.B/C", http.Header{"X-Tenant": {strings.Repeat("k", 256)}}, httplimit.Header("X-Tenant"), grpclimit.Metadata("X-Tenant"), 200},
		"257 characters":     {"a.B/C", http.Header{"X-Tenant": {strings.Repeat("k", 257)}}, httplimit.Header("X-Tenant"), grpclimit.Metadata("X-Tenant"), 400},
		"encoded to more":    {"a.B/C", http.Header{"X-Tenant": {strings.Repeat("|", 65)}}, httplimit.Header("X-Tenant"), grpclimit.Metadata("X-Tenant"), 400},
		"no tenant":          {"a.B/C", nil, httplimit.Header("X-Tenant"), grpclimit.Metadata("X-Tenant"), 400},
		"two tenants":        {"a.B/C", http.Header{"X-Tenant": {"a", "b"}}, httplimit.Header("X-Tenant"), grpclimit.Metadata("X-Tenant"), 400},
		"a key's 402":        {"a.B/C", nil, failsHTTP(refuses(402)), failsGRPC(refuses(402)), 402},
		"a key's 403":        {"a.B/C", nil, failsHTTP(refuses(403)), failsGRPC(refuses(403)), 403},
		"a key's 502":        {"a.B/C", nil, failsHTTP(refuses(502)), failsGRPC(refuses(502)), 502},
	} {
		if c.overHTTP == nil {
			c.overHTTP, c.overGRPC = httplimit.APIKey(), grpclimit.APIKey()
		}
		one, httpStatus, why := askHTTP(t, c.overHTTP, c.route, c.fields)
		two, err := askGRPC(t, c.overGRPC, c.route, c.fields)
		if httpStatus != c.status || status.Code(err) != codesOf[c.status] {
			t.Errorf("%s: %d and %v, want %d", name, httpStatus, err, c.status)
		}
		if one.Entity != two.Entity || one.Resource != two.Resource {
			t.Errorf("%s: %q of %q over HTTP, %q of %q over gRPC", name, one.Resource, one.Entity, two.Resource, two.Entity)
		}
		if c.status >= 400 && strings.Contains(why, "because") != strings.Contains(status.Convert(err).Message(), "because") {
			t.Errorf("%s: %s and %v", name, why, err)
		}
	}
}

func failsHTTP(err error) httplimit.Key {
	return func(*http.Request) (string, error) { return "", err }
}

func failsGRPC(err error) grpclimit.Key {
	return func(context.Context, *grpclimit.Call) (string, error) { return "", err }
}

func askHTTP(t *testing.T, entity httplimit.Key, route string, fields http.Header) (asked limiter.Request, code int, body string) {
	t.Helper()
	limit, err := httplimit.New(limitertest.New(t, limiter.PerDay("requests", 5)), httplimit.Options{
		Entity: entity, Resource: httplimit.Resource(httplimit.Constant(route)), Logger: slog.New(slog.DiscardHandler),
		Observe: func(_ *http.Request, d *httplimit.Decision) { asked = d.Request },
	})
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Header = fields
	limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return asked, w.Code, w.Body.String()
}

func askGRPC(t *testing.T, entity grpclimit.Key, method string, fields http.Header) (asked limiter.Request, err error) {
	t.Helper()
	limit, err := grpclimit.NewServer(limitertest.New(t, limiter.PerDay("requests", 5)), grpclimit.Options{
		Entity: entity, Logger: slog.New(slog.DiscardHandler),
		Observe: func(_ context.Context, _ *grpclimit.Call, d *grpclimit.Decision) { asked = d.Request },
	})
	if err != nil {
		t.Fatal(err)
	}
	md := metadata.MD{}
	for key, values := range fields {
		md.Append(key, values...)
	}
	_, err = limit.Unary(metadata.NewIncomingContext(t.Context(), md), nil, &grpc.UnaryServerInfo{FullMethod: "/" + method}, nothing)
	return asked, err
}

func nothing(context.Context, any) (any, error) { return 1, nil }

// Two interceptors with a limit of one name: the client can tell their policies apart.
func TestPoliciesOfSeveralInterceptorsDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := options()
	outer, err := grpclimit.NewServer(w, grpclimit.Options{Entity: grpclimit.Constant("everybody"), Resource: grpclimit.Constant("calls"), Consume: o.Consume})
	w.Must(err)
	inner, err := grpclimit.NewServer(w, o)
	w.Must(err)
	info := &grpc.UnaryServerInfo{FullMethod: "/" + resource}
	call := func() (*stream, error) {
		s := new(stream)
		ctx := grpc.NewContextWithServerTransportStream(metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-user", "alice")), s)
		_, err := outer.Unary(ctx, nil, info, func(ctx context.Context, req any) (any, error) { return inner.Unary(ctx, req, info, nothing) })
		return s, err
	}
	s, err := call()
	w.Must(err)
	if got, want := s.header.Get("ratelimit"), []string{`"rpm";r=5;t=600`, `"` + resource + `/rpm";r=5;t=600`}; !slices.Equal(got, want) {
		t.Errorf("ratelimit is %q, want %q", got, want)
	}
	w.Must(drain(t, w))
	_, err = call()
	if limits, _, _ := details(t, err); !slices.Equal(limits, []string{resource + "/rpm"}) || !strings.Contains(err.Error(), "rpm of "+resource) {
		t.Errorf("refused by %q: %v", limits, err)
	}
}

// drain takes what alice has left.
func drain(t *testing.T, w grpclimit.Acquirer) error {
	t.Helper()
	lease, err := w.Acquire(t.Context(), limiter.Request{Entity: "alice", Resource: resource, Consume: map[string]int64{"rpm": 5}})
	if err != nil {
		return err
	}
	return lease.Commit(t.Context())
}

// A stream is what a transport gets.
type stream struct{ header, trailer metadata.MD }

func (s *stream) Method() string { return "/" + resource }
func (s *stream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}
func (s *stream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }
func (s *stream) SetTrailer(md metadata.MD) error {
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// A server without limits, and without a logger, says so once in the default logger, and in each
// answer. Not parallel: the default logger is the process's.
func TestAServerThatCannotDecideSaysSoOnce(t *testing.T) {
	log, was := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	limit, err := grpclimit.NewServer(limitertest.New(t), grpclimit.Options{Entity: grpclimit.Constant("alice")})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := limit.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, nothing)
		if want := "The server has no limit requests for a.B/C: configure it, or set Options.Fallback. The server's log has the error."; status.Code(err) != codes.Internal ||
			status.Convert(err).Message() != want {
			t.Errorf("got %v", err)
		}
	}
	if text := log.String(); strings.Count(text, "call not decided") != 1 || !strings.Contains(text, "limit requests of a.B/C for alice is not configured") {
		t.Errorf("logged %s", text)
	}
}
