package xds_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/xds"
)

// Whatever a management server sends: all of it is in use, or it is refused with a reason, and what was in use
// stays. The answer is a message that can be sent, with the nonce of the response.
func FuzzResponse(f *testing.F) {
	limited := &ratelimit.RateLimitConfig{Name: "n", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_WEEK, RequestsPerUnit: 7, Replaces: []*ratelimit.RateLimitReplace{{Name: "m"}}},
	}}}
	of := func(messages ...*ratelimit.RateLimitConfig) (all []*anypb.Any) {
		for _, m := range messages {
			a, err := anypb.New(m)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, a)
		}
		return all
	}
	for _, r := range []*discovery.DiscoveryResponse{
		{TypeUrl: typeURL, VersionInfo: "1", Nonce: "a", Resources: of(limited)},
		{TypeUrl: typeURL, VersionInfo: "2", Resources: of(limited, limited)},
		{TypeUrl: typeURL, VersionInfo: strings.Repeat("ü", 99), Resources: of(&ratelimit.RateLimitConfig{Name: "\x00", Descriptors: make([]*ratelimit.RateLimitDescriptor, 200)})},
		{TypeUrl: typeURL, Resources: []*anypb.Any{{TypeUrl: typeURL, Value: []byte("\xff")}}},
		{TypeUrl: typeURL, Resources: []*anypb.Any{{TypeUrl: "x"}}},
		{TypeUrl: "x"},
		{TypeUrl: typeURL},
	} {
		text, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		response := &discovery.DiscoveryResponse{}
		if proto.Unmarshal(text, response) != nil {
			return // gRPC refuses it
		}
		rules := hot.Await[*mapping.Rules](time.Now)
		before := &mapping.Rules{}
		log := &strings.Builder{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		rules.Receive(t.Context(), logger, "rules", nil, "0", before, nil)
		client := xds.New(xds.Options{Rules: rules, Logger: logger})
		answer, refused := client.Answer(response)
		if _, err := proto.Marshal(answer); err != nil || answer.GetResponseNonce() != response.GetNonce() {
			t.Errorf("%v: %v", answer, err)
		}
		const longest = 64 << 10
		if size := proto.Size(answer); size > longest+len(text) {
			t.Errorf("the answer has %d bytes", size)
		}
		state := rules.State()
		switch {
		case (refused == nil) != (answer.GetErrorDetail() == nil) || (refused == nil) != (state.Error == ""):
			t.Errorf("%v: %v, %+v", refused, answer, state)
		case refused != nil && (rules.Get() != before || state.Version != "0" || answer.GetErrorDetail().GetMessage() == ""):
			t.Errorf("%v is not in use, and %+v", refused, state)
		case refused == nil && (rules.Get() == before || state.Version != response.GetVersionInfo() || answer.GetVersionInfo() != state.Version):
			t.Errorf("%+v", state)
		}
	})
}
