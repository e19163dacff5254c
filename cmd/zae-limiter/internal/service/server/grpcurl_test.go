//go:build conformance

package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// The commands of the page run with the real grpcurl, on the rules of the page.
func TestGrpcurl(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	first := func(of, fence string) string {
		_, of, _ = strings.Cut(of, "```"+fence+"\n")
		block, _, _ := strings.Cut(of, "```")
		return block
	}
	_, section, _ := strings.Cut(string(text), "\n## Asking without Envoy\n")
	commands := strings.Split(strings.TrimSpace(first(section, "sh")), "\n")
	rules, err := mapping.Parse(hot.Files{"rules.yaml": []byte(first(string(text), "yaml"))})
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) != 4 {
		t.Fatalf("the page has %q", commands)
	}
	open, guarded := startGRPC(t, rules, ""), startGRPC(t, rules, "0123456789abcdef")
	const header = "-H 'authorization: Bearer 0123456789abcdef' -plaintext"
	var answers []string
	for _, command := range commands {
		args := words.FindAllString(command, -1)[1:]
		out, err := run(t, args, open)
		if err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
		answers = append(answers, out)
		if out, err := run(t, args, guarded); err == nil || !strings.Contains(out, "authorization: Bearer TOKEN") { // of reflection, which grpcurl asks first
			t.Errorf("%s, without a token: %v: %s", command, err, out)
		}
		args = words.FindAllString(strings.Replace(command, "-plaintext", header, 1), -1)[1:]
		if out, err := run(t, args, guarded); err != nil {
			t.Errorf("%s, with a token: %v: %s", command, err, out)
		}
	}
	const service = "envoy.service.ratelimit.v3.RateLimitService"
	for i, want := range []string{service, "repeated .envoy.extensions.common.ratelimit.v3.RateLimitDescriptor descriptors = 2", `"status": "SERVING"`} {
		if !strings.Contains(answers[i], want) {
			t.Errorf("%s says %s", commands[i], answers[i])
		}
	}
	if diff := cmp.Diff(decoded(t, first(section, "json")), decoded(t, answers[3])); diff != "" {
		t.Errorf("(-page +answer):\n%s", diff)
	}
	ask := func(call string) (string, error) {
		return run(t, []string{"-plaintext", "-d", call, "127.0.0.1:8081", service + "/ShouldRateLimit"}, open)
	}
	const body = `{"domain":"gateway","descriptors":[{"entries":[{"key":"tenant","value":"acme"},{"key":"cost","value":"body"}],"hits_addend":7}]}`
	for i, want := range []string{`"overallCode": "OK"`, `"overallCode": "OVER_LIMIT"`} {
		if out, err := ask(body); err != nil || !strings.Contains(out, want) || strings.Contains(out, `"retry-after"`) != (i == 1) {
			t.Errorf("call %d: %v: %s", i+1, err, out)
		}
	}
	for call, want := range map[string]string{
		`{"domain":"another","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`: `"overallCode": "OK"`,
		`{"descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`:                    "Code: InvalidArgument\n  Message: domain is missing",
		`{"domain":"gateway"}`: "Code: InvalidArgument\n  Message: descriptors: give from 1 to 64 of them",
	} {
		if out, _ := ask(call); !strings.Contains(out, want) {
			t.Errorf("%s: %s", call, out)
		}
	}
}

// words are the words of a command: those in quotes have spaces.
var words = regexp.MustCompile(`'[^']*'|[^ ]+`)

// run runs grpcurl on the service at an address.
func run(t *testing.T, args []string, addr string) (string, error) {
	t.Helper()
	var all []string
	for _, a := range args {
		all = append(all, strings.ReplaceAll(strings.Trim(a, "'"), "127.0.0.1:8081", addr))
	}
	return peers.RunGrpcurl(t, all...)
}

// decoded is a text in JSON as a value.
func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// startGRPC starts a service on a port of its own, and returns its address. A token is what its callers need; ""
// is none. Its limits come back in hours, so that nothing depends on how long the test takes.
func startGRPC(t *testing.T, rules *mapping.Rules, token string) string {
	t.Helper()
	limits, registry := limitertest.New(t, limiter.PerMinute("rpm", 5), limiter.PerDay("bytes", 10)), prometheus.NewRegistry()
	logger := slog.New(slog.DiscardHandler)
	service := envoy.New(envoy.Options{Limiter: limits, Rules: func() *mapping.Rules { return rules }, Logger: logger, Now: time.Now}, registry)
	o := server.Options{Register: service.Register, Registry: registry, Logger: logger, Now: time.Now, DrainTime: time.Second}
	if token != "" {
		o.Guard = guard(t, token)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.New(o).Serve(ctx, server.Listeners{GRPC: l}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
