package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// Bounds of gRPC.
const (
	// maxMessage is the largest message of a caller, in bytes.
	maxMessage = 128 << 10
	// maxStreams is how many calls of one connection are under way at the same time. Proxies have few
	// connections, and further calls wait.
	maxStreams = 1000
	// connectionAge is how long a client keeps a connection, so that new replicas get calls. Calls of gRPC
	// on it then have connectionGrace to end.
	connectionAge   = 5 * time.Minute
	connectionGrace = time.Minute
	// streamWorkers is how many goroutines are kept for calls, with the stacks that those have grown. Further
	// calls get goroutines of their own.
	streamWorkers = 64
	// healthMethods is how the methods of health begin.
	healthMethods = "/grpc.health.v1.Health/"
)

// makeGRPC makes the server of gRPC, with the health that proxies and Kubernetes ask for.
func (s *Server) makeGRPC() {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeader), grpc.ConnectionTimeout(headerTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace, MaxConnectionIdle: idleTime}),
		grpc.UnaryInterceptor(s.intercept), grpc.StreamInterceptor(s.interceptStream), grpc.InTapHandle(s.tap), grpc.NumStreamWorkers(streamWorkers),
	}
	options = append(options, s.o.Spans.GRPC(func(method string) bool { return s.methods[method] && !strings.HasPrefix(method, healthMethods) })...)
	if s.o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.o.TLS.Clone())))
	}
	s.grpc, s.health = grpc.NewServer(options...), health.NewServer()
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if s.o.Register != nil {
		s.o.Register(s.grpc)
		reflection.Register(s.grpc)
		s.methods = map[string]bool{}
		for name, info := range s.grpc.GetServiceInfo() {
			for _, m := range info.Methods {
				s.methods["/"+name+"/"+m.Name] = true
			}
		}
	}
	s.tellHealth()
}

// tellHealth tells whether the service can decide, as a whole and for each service of gRPC. Once the
// server drains, it is not heard any more.
func (s *Server) tellHealth() {
	is := healthpb.HealthCheckResponse_NOT_SERVING
	if s.isReady() {
		is = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", is)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, is)
	}
}

// isReady reports whether the service can decide what it is for.
func (s *Server) isReady() bool {
	if s.o.Ready == nil {
		return true
	}
	select {
	case <-s.o.Ready:
		return true
	default:
		return false
	}
}

// awaitReady tells health once the service can decide, unless the context ends before.
func (s *Server) awaitReady(ctx context.Context) {
	select {
	case <-s.o.Ready: // never, if it was ready at once
		s.tellHealth()
	case <-ctx.Done():
	}
}

// intercept serves only those who may call, and counts calls. Health is told to everybody. The
// methods are those that are registered, so their names are few.
func (s *Server) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	if strings.HasPrefix(info.FullMethod, healthMethods) {
		return next(ctx, in)
	}
	defer func() { s.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc() }()
	if err := s.admitsGRPC(ctx); err != nil {
		return nil, err
	}
	return next(ctx, in)
}

// interceptStream is the same for streams: those of health, and of reflection, which describes the services. Their
// clients end them when they like, so a drain does.
func (s *Server) interceptStream(srv any, in grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	go func() {
		select {
		case <-s.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	if !strings.HasPrefix(info.FullMethod, healthMethods) {
		defer func() { s.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc() }()
		if err := s.admitsGRPC(ctx); err != nil {
			return err
		}
	}
	return next(srv, &stream{in, ctx})
}

// A stream ends with a context of its own.
type stream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // that of the stream, which its handler asks for
}

// Context is the context of the stream.
func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg receives a message, unless the stream ends before.
func (s *stream) RecvMsg(into any) error {
	got := make(chan error, 1)
	go func() { got <- s.ServerStream.RecvMsg(into) }() // until the stream has ended
	select {
	case err := <-got:
		return err
	case <-s.ctx.Done():
		return status.Error(codes.Unavailable, "the service ends: ask another replica")
	}
}
