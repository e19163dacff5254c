//go:build conformance

package envoy_test

import (
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// Files that envoyproxy/ratelimit refuses are refused here, too, and those that it takes are taken. It serves without
// rules then, and answers each call with an error. Here, they are an error at the start.
func TestFilesThatTheReferenceRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		isValid bool // for the reference
		why     string
	}{
		"good":                        {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]", true, ""},
		"no descriptors":              {"domain: d", true, ""},
		"a name twice":                {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, name: n}}, {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: n}}]", true, ""},
		"no YAML":                     {"domain: [d", false, ""},
		"a list of texts":             {"domain: d\ndescriptors: [a]", false, ""},
		"an empty domain":             {"domain: ''\ndescriptors: [{key: a}]", false, ""},
		"an empty key":                {"domain: d\ndescriptors: [{key: '', value: b}]", false, ""},
		"a key twice":                 {"domain: d\ndescriptors: [{key: a, value: b}, {key: a, value: b}]", false, ""},
		"a misspelled key":            {"domain: d\ndescriptors: [{key: a, ratelimit: {unit: day, requests_per_unit: 1}}]", false, ""},
		"a misspelled key of a limit": {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requestsperunit: 1}}]", false, ""},
		"a key that is no text":       {"domain: d\n1: 2", false, ""},
		"an unknown unit":             {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}}]", false, ""},
		"no end, with a unit":         {"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]", false, ""},
		"replaces nothing":            {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ''}]}}]", false, ""},
		"replaces itself":             {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}}]", false, ""},
		"shares without a wildcard":   {"domain: d\ndescriptors: [{key: a, value: b, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}]", false, ""},
		"a domain that is a number":   {"domain: 1\ndescriptors: [{key: a}]", true, "a name must be a text, in quotes if it looks like a number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mapping.ParseReference(hot.Files{"limits.yaml": []byte(tt.file)})
			if isOurs := tt.isValid && tt.why == ""; (err == nil) != isOurs {
				t.Errorf("%s\nhere: %v %s", tt.file, err, tt.why)
			}
			conn, err := grpc.NewClient("passthrough:"+peers.StartRatelimit(t, tt.file).Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			in := &rls.RateLimitRequest{Domain: "d"}
			in.Descriptors = append(in.Descriptors, descriptor("a", "b"))
			if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), in); (err == nil) != tt.isValid {
				t.Errorf("%s\nenvoyproxy/ratelimit: %v", tt.file, err)
			}
		})
	}
}
