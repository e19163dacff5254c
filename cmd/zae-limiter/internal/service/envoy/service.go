// Package envoy answers the rate limit service of Envoy, version 3: ShouldRateLimit. Rules map
// the descriptors of a call. All that the call takes is one decision (ADR 059).
package envoy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/tracing"
)

// MaxDescriptors is how many descriptors a call has at most.
const MaxDescriptors = 64

// Options configure a [Service].
type Options struct {
	Limiter decide.Limiter
	Policy  decide.Policy
	// Rules returns the rules in force; nil if there are none yet.
	Rules func() *mapping.Rules
	// Refusals has observed Limiter, and gives refusals their IDs; nil gives none.
	Refusals *refusals.Log
	// Known counts under the names of envoyproxy/ratelimit, too; nil does not.
	Known *Known
	// Now is the clock of the times of calls.
	Now func() time.Time
	// Logger gets the errors that proxies are not told.
	Logger *slog.Logger
}

// A Service is a server of the protocol.
type Service struct {
	rls.UnimplementedRateLimitServiceServer

	o           Options
	descriptors *prometheus.CounterVec
}

// New makes a service. It registers its metrics.
func New(o Options, registry prometheus.Registerer) *Service {
	s := &Service{o: o, descriptors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "zae_limiter_service_descriptors_total",
		Help: "Descriptors by domain and outcome: ok, over_limit, undecided, shadow_ok, shadow_over_limit, charged, settled, no_lease, returned, disabled, failed, unlimited, unmapped.",
	}, []string{"domain", "outcome"})}
	registry.MustRegister(s.descriptors)
	return s
}

// Register adds the service to a server of gRPC.
func (s *Service) Register(to grpc.ServiceRegistrar) { rls.RegisterRateLimitServiceServer(to, s) }

// ShouldRateLimit decides about the descriptors of a call.
func (s *Service) ShouldRateLimit(ctx context.Context, in *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	begun := s.o.Now()
	c, err := s.decide(ctx, in)
	s.o.Known.answered(c, s.o.Now().Sub(begun))
	if err != nil {
		return nil, err
	}
	s.count(c)
	tracing.Decided(ctx, c)
	return c.response(ctx), nil
}

// decide decides a call, or says why not as a status of gRPC.
func (s *Service) decide(ctx context.Context, in *rls.RateLimitRequest) (*call, error) {
	switch n := len(in.GetDescriptors()); {
	case in.GetDomain() == "":
		return nil, status.Error(codes.InvalidArgument, "domain is missing: give the domain of the filter")
	case n == 0 || n > MaxDescriptors:
		return nil, status.Errorf(codes.InvalidArgument, "descriptors: give from 1 to %d of them, not %d", MaxDescriptors, n)
	}
	rules := s.o.Rules()
	if rules == nil {
		return nil, status.Error(codes.Unavailable, "there are no rules yet: the management server has not sent any")
	}
	c, err := s.read(in, rules)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.run(ctx, c); err != nil {
		return nil, s.failed(ctx, err)
	}
	return c, nil
}

// count counts the descriptors of a call. A domain without rules has no series of its own.
func (s *Service) count(c *call) {
	domain := "other"
	if c.isKnown {
		domain = c.domain
	}
	for i := range c.asks {
		s.descriptors.WithLabelValues(domain, c.asks[i].outcome()).Inc()
	}
}

// failed is what a proxy is told of an error. It has no names of entities.
//
// A proxy that gets an error serves the request, unless it is told to fail closed. So what refuses
// for sure is no error: a disabled entity is over its limit.
func (s *Service) failed(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil {
		return status.FromContextError(end).Err()
	}
	code, text := codes.Internal, "the service cannot decide: its log has the error"
	invalid := (*limiter.ValidationError)(nil)
	switch {
	case errors.As(err, &invalid):
		code, text = codes.InvalidArgument, "the rules of the domain make a request that is not valid: "+invalid.Field+": "+invalid.Reason
	case errors.Is(err, limiter.ErrNotConfigured):
		code, text = codes.FailedPrecondition, "no level of the configuration has a limit that a rule names: configure it, or start the service with --fallback"
	case errors.Is(err, limiter.ErrAccessDenied):
		code, text = codes.Internal, "the credentials of the service do not permit its requests: its log has the error"
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrThrottled), errors.Is(err, limiter.ErrConflict), errors.Is(err, limiter.ErrClosed):
		code, text = codes.Unavailable, "the store cannot be reached, or did not answer in time"
	}
	s.o.Logger.ErrorContext(ctx, "call failed", "call", "ShouldRateLimit", "code", code.String(), "error", err)
	return status.Error(code, text)
}
