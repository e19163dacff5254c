package envoy_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
)

// A call takes all or nothing, of several resources and of several entities.
func TestAllOrNothing(t *testing.T) {
	inBubble(t, func(s *service) {
		left := func(entity, resource, limit string, want int64) {
			s.Helper()
			if got := s.left(entity, resource, limit); got != want {
				s.Errorf("%s of %s/%s: %d are left, want %d", limit, entity, resource, got, want)
			}
		}
		// One entity: one request.
		got := s.call(with(600, descriptor("tenant", "a", "model", "m")), descriptor("tenant", "a"), descriptor("route", "/"))
		if !got.isOK() || got.Statuses[2].CurrentLimit != nil || got.header["ratelimit"] != `"tpm";r=400;t=36, "rpm";r=59;t=1` && got.header["ratelimit"] != `"rpm";r=59;t=1, "tpm";r=400;t=36` {
			s.Errorf("%v", got)
		}
		got = s.call(descriptor("tenant", "a"), with(600, descriptor("tenant", "a", "model", "m")))
		if got.isOK() || got.Statuses[0].Code != rls.RateLimitResponse_OK || got.Statuses[1].Code != rls.RateLimitResponse_OVER_LIMIT || got.header["retry-after"] != "12" {
			s.Errorf("%v", got)
		}
		left("a", "api", "rpm", 59)
		// Several: what the first ones gave is returned.
		got = s.call(descriptor("tenant", "b"), with(600, descriptor("tenant", "a", "model", "m")), descriptor("tenant", "c"))
		if got.isOK() || got.Statuses[2].CurrentLimit != nil || s.counted("gateway", "undecided") != 1 {
			s.Errorf("%v", got)
		}
		left("b", "api", "rpm", 60)
		left("a", "m", "tpm", 400)
		// Two descriptors of one limit are two amounts.
		if got := s.call(with(20, descriptor("tenant", "b")), with(30, descriptor("tenant", "b"))); !got.isOK() || got.Statuses[0].LimitRemaining != 10 {
			s.Errorf("%v", got)
		}
	})
}

// Descriptors that no rule fits are admitted, and counted. So are domains that have none.
func TestUnmapped(t *testing.T) {
	inBubble(t, func(s *service) {
		if got := s.call(descriptor("route", "/"), descriptor("user", "z", "tenant", "a")); !got.isOK() || s.counted("gateway", "unmapped") != 2 {
			s.Errorf("%v", got)
		}
		got := s.send(&rls.RateLimitRequest{Domain: "another", Descriptors: []*common.RateLimitDescriptor{descriptor("tenant", "a")}})
		if !got.isOK() || s.counted("other", "unmapped") != 1 || s.left("a", "api", "rpm") != 60 {
			s.Errorf("%v", got)
		}
	})
}

// A limit of the parent refuses, and says so.
func TestTheParentRefuses(t *testing.T) {
	inBubble(t, func(s *service) {
		for _, e := range []limiter.Entity{{ID: "team"}, {ID: "a", Parent: "team", Cascade: true}} {
			if _, err := s.limits.Store.CreateEntity(s.Context(), e); err != nil {
				s.Fatal(err)
			}
		}
		s.call(with(30, descriptor("tenant", "team")))
		got := s.call(with(40, descriptor("tenant", "a")))
		if got.isOK() || got.Statuses[0].Code != rls.RateLimitResponse_OVER_LIMIT || got.Statuses[0].LimitRemaining != 30 || got.header["ratelimit"] != `"rpm";r=60` {
			s.Errorf("%v", got)
		}
	})
}

// Calls that are not valid, or cannot be decided, are errors with a code.
func TestErrors(t *testing.T) {
	inBubble(t, func(s *service) {
		many := make([]*common.RateLimitDescriptor, envoy.MaxDescriptors+1)
		fails := func(want codes.Code, domain string, d ...*common.RateLimitDescriptor) {
			s.Helper()
			if _, err := s.ShouldRateLimit(s.Context(), &rls.RateLimitRequest{Domain: domain, Descriptors: d}); status.Code(err) != want {
				s.Errorf("%v, want %v", err, want)
			}
		}
		fails(codes.InvalidArgument, "", descriptor("tenant", "a"))
		fails(codes.InvalidArgument, "gateway")
		fails(codes.InvalidArgument, "gateway", many...)
		fails(codes.FailedPrecondition, "gateway", descriptor("budget", "a"))
		s.limits.Fail(limiter.ErrAccessDenied)
		fails(codes.Internal, "gateway", descriptor("tenant", "a"))
		s.limits.Fail(limiter.ErrUnavailable)
		fails(codes.Unavailable, "gateway", descriptor("tenant", "a"))
		fails(codes.Unavailable, "gateway", with(1, descriptor("tenant", "a", "settle", "tokens")))
	})
}

// An entity that is disabled is over its limit: a proxy serves requests whose call has failed.
func TestADisabledEntityIsOverItsLimit(t *testing.T) {
	inBubble(t, func(s *service) {
		s.disable("a", "api")
		got := s.call(descriptor("tenant", "b"), descriptor("tenant", "a"))
		if got.isOK() || got.Statuses[1].Code != rls.RateLimitResponse_OVER_LIMIT || got.header["retry-after"] != "" || s.counted("gateway", "disabled") != 1 || s.left("b", "api", "rpm") != 60 {
			s.Errorf("%v", got)
		}
	})
}

// A proxy that does not wait any longer gets an error, and its tokens come back.
func TestTheDeadlineOfAProxy(t *testing.T) {
	inBubble(t, func(s *service) {
		s.limits.Stall()
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := s.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{descriptor("tenant", "a")}})
		if status.Code(err) != codes.DeadlineExceeded || time.Since(began) != 20*time.Millisecond {
			s.Errorf("after %v: %v", time.Since(began), err)
		}
		s.limits.Restore()
		synctest.Wait()
		gone, leave := context.WithCancel(s.Context())
		leave()
		_, err = s.ShouldRateLimit(gone, &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{descriptor("tenant", "b")}})
		if status.Code(err) != codes.Canceled || s.left("b", "api", "rpm") != 60 {
			s.Errorf("%d are left: %v", s.left("b", "api", "rpm"), err)
		}
	})
}

// Calls at the same time do not get more than there is, though those that are refused return tokens.
func TestManyCalls(t *testing.T) {
	inBubble(t, func(s *service) {
		var admitted atomic.Int64
		done := make(chan struct{}, 40)
		for i := range cap(done) {
			go func() {
				defer func() { done <- struct{}{} }()
				other := descriptor("tenant", "b")
				if i%2 == 0 {
					other = with(1001, descriptor("tenant", "b", "model", "m")) // never
				}
				if out, err := s.ShouldRateLimit(s.Context(), &rls.RateLimitRequest{
					Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{with(5, descriptor("tenant", "a")), other},
				}); err != nil {
					s.Error(err)
				} else if out.OverallCode == rls.RateLimitResponse_OK {
					admitted.Add(5)
				}
			}()
		}
		for range cap(done) {
			<-done
		}
		if n := admitted.Load(); n == 0 || n+s.left("a", "api", "rpm") != 60 {
			s.Errorf("%d admitted, %d left", n, s.left("a", "api", "rpm"))
		}
	})
}
