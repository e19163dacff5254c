package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/tracing"
)

// A keeper keeps spans also after its end.
type keeper struct{ *tracetest.InMemoryExporter }

func (keeper) Shutdown(context.Context) error { return nil }

// traced runs f with a server that makes spans, and returns them.
func traced(t *testing.T, o server.Options, f func(*running)) (spans tracetest.SpanStubs) {
	t.Helper()
	kept := keeper{tracetest.NewInMemoryExporter()}
	var err error
	if o.Spans, err = tracing.New(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	serve(t, o, f)
	if err := o.Spans.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kept.GetSpans()
}

// The trace of the caller, and its span.
const (
	traceOfCaller = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanOfCaller  = "00f067aa0ba902b7"
	traceparent   = "00-" + traceOfCaller + "-" + spanOfCaller + "-01"
)

// attributesOf are the attributes of a span, as text.
func attributesOf(s *tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// A call has a span in the trace of its caller: over HTTP with its path and its status, and what became of it
// and which limit refused. Below it is the span of the limiter, and below that those of the table.
func TestACallHasASpanInTheTraceOfItsCaller(t *testing.T) {
	spans := traced(t, server.Options{Register: register}, func(r *running) {
		for _, rpm := range []int{60, 1} {
			if _, err := r.call("127.0.0.1", fmt.Sprintf(`{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":%d}}`, rpm), "Traceparent", traceparent); err != nil {
				r.Fatal(err)
			}
		}
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		if err := ask(metadata.AppendToOutgoingContext(r.Context(), "traceparent", traceparent), conn, 0); err != nil {
			r.Fatal(err)
		}
		if _, err := healthpb.NewHealthClient(conn).Check(r.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			r.Fatal(err)
		}
		for _, probe := range []string{"/livez", "/readyz"} {
			r.get(r.client, probe)
		}
	})
	parents := map[oteltrace.SpanID]string{} // names by ID
	for i := range spans {
		parents[spans[i].SpanContext.SpanID()] = spans[i].Name
		if got := spans[i].SpanContext.TraceID().String(); got != traceOfCaller {
			t.Errorf("%s is in the trace %s", spans[i].Name, got)
		}
	}
	var got []string
	for i := range spans {
		s := &spans[i]
		has, above := attributesOf(s), parents[s.Parent.SpanID()]
		if s.Parent.SpanID().String() == spanOfCaller {
			above = "caller"
		}
		what := []string{above, ">", s.Name}
		for _, name := range []string{"http.route", "http.request.method", "http.response.status_code", "rpc.response.status_code", "zae_limiter.result", "zae_limiter.limit"} {
			if v, ok := has[name]; ok {
				what = append(what, v)
			}
		}
		got = append(got, strings.Join(what, " "))
	}
	for _, want := range []string{
		"caller > /v1/acquire /v1/acquire POST 200 admitted", "/v1/acquire > acquire admitted",
		"caller > /v1/acquire /v1/acquire POST 429 refused [\"rpm\"]", "/v1/acquire > acquire refused [\"rpm\"]",
		"caller > envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit OK",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no span %q of:\n%s", want, strings.Join(got, "\n"))
		}
	}
	if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "acquire > PutItem ") }) {
		t.Errorf("no span of the write:\n%s", strings.Join(got, "\n"))
	}
	if slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "ealth") || strings.Contains(s, "other") }) {
		t.Errorf("spans of probes:\n%s", strings.Join(got, "\n"))
	}
}

// A key is in no span, wherever a client puts it: in an entity, a path, a query, a host, a field, a name of a method or a
// message of an error. Nor is the address of a client.
func TestNoSpanHasAKey(t *testing.T) {
	const secret = "sk-secret"
	spans := traced(t, server.Options{Register: register, Guard: guard(t, roles)}, func(r *running) {
		fields := []string{
			"Traceparent", traceparent, "Tracestate", "a=" + secret, "Baggage", "a=" + secret, "User-Agent", secret, "X-Forwarded-For", secret,
			"Forwarded", "for=" + secret, "X-Request-Id", secret, "Idempotency-Key", secret, "Authorization", "Bearer call-0123456789ab",
		}
		for _, c := range []struct{ method, host, path, body string }{
			{http.MethodPost, "localhost", "/v1/acquire?key=" + secret, `{"entity_id":"` + secret + `","resource":"gpt-4","consume":{"rpm":1}}`},
			{http.MethodPost, secret, "/v1/acquire", `{"entity_id":"` + secret + `","resource":"gpt-4","consume":{"` + secret + `":1}}`},
			{http.MethodPost, "localhost", "/" + secret, "{}"},
			{http.MethodGet, "localhost", "/ui/" + secret, ""},
			{secret, "localhost", "/v1/check", "{}"},
			{http.MethodPost, "localhost", "/v1/leases/settle", `{"lease":"` + secret + `"}`},
		} {
			q, err := http.NewRequestWithContext(r.Context(), c.method, "http://localhost"+c.path, strings.NewReader(c.body))
			if err != nil {
				r.Fatal(err)
			}
			q.Host = c.host
			q.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(fields); i += 2 {
				q.Header.Set(fields[i], fields[i+1])
			}
			a, err := r.client.Do(q)
			if err != nil {
				r.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, a.Body)
			_ = a.Body.Close()
		}
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		ctx := metadata.AppendToOutgoingContext(r.Context(), "traceparent", traceparent, "tracestate", "a="+secret, "user-agent", secret, "authorization", "Bearer "+secret)
		_ = conn.Invoke(ctx, "/"+secret+"/"+secret, &rls.RateLimitRequest{}, &rls.RateLimitResponse{})
		_, _ = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: secret})
	})
	if len(spans) < 7 {
		t.Errorf("%d spans", len(spans))
	}
	for i := range spans {
		s := &spans[i]
		text := fmt.Sprintf("%q %v %v %v %v %v %v", s.Name, s.Attributes, s.Events, s.Links, s.Status, s.SpanContext, s.Parent)
		if strings.Contains(text, secret) || strings.Contains(text, "localhost") || strings.Contains(text, "pipe") {
			t.Errorf("a span has what a client wrote, or its address: %s", text)
		}
		if s.Status.Code == codes.Error && s.Status.Description != "" {
			t.Errorf("%s has the text of an error: %s", s.Name, s.Status.Description)
		}
	}
}
