package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Bounds of gRPC.
const (
	// maxMessage is the largest message of a caller, in bytes.
	maxMessage = 128 << 10
	// maxStreams is how many calls of one connection are under way at the same time. Proxies have few
	// connections, and further calls wait.
	maxStreams = 1000
	// connectionAge is how long a proxy keeps a connection, so that new replicas get calls. The calls
	// on it then have connectionGrace to end.
	connectionAge   = 5 * time.Minute
	connectionGrace = time.Minute
	// streamWorkers is how many goroutines are kept for calls, with the stacks that those have grown. Further
	// calls get goroutines of their own.
	streamWorkers = 64
)

// makeGRPC makes the server of gRPC, with the health that proxies and Kubernetes ask for.
func (s *Server) makeGRPC() {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeader), grpc.ConnectionTimeout(headerTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace, MaxConnectionIdle: idleTime}),
		grpc.UnaryInterceptor(s.intercept), grpc.NumStreamWorkers(streamWorkers),
	}
	if s.o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.o.TLS.Clone())))
	}
	s.grpc, s.health = grpc.NewServer(options...), health.NewServer()
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if s.o.Register == nil {
		return
	}
	s.o.Register(s.grpc)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
}

// intercept serves only those who may call, and counts calls. Health is told to everybody. The
// methods are those that are registered, so their names are few.
func (s *Server) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	if strings.HasPrefix(info.FullMethod, "/grpc.health.v1.Health/") {
		return next(ctx, in)
	}
	defer func() { s.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc() }()
	if !s.o.Tokens.admits(ctx) {
		return nil, status.Error(codes.Unauthenticated, "give a token of the service: authorization: Bearer TOKEN, in the initial metadata of the proxy")
	}
	return next(ctx, in)
}

// admits reports whether a call of gRPC has a token, if there are any. A browser cannot call: it
// has no access to the frames of HTTP/2.
func (t *Tokens) admits(ctx context.Context) bool {
	if t == nil {
		return true
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return slices.ContainsFunc(md.Get("authorization"), t.isIn)
}
