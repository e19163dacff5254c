package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// resource is the default resource of the calls of UnaryCall.
const resource = "grpc.testing.TestService/UnaryCall"

// A service is a server of gRPC whose methods a test replaces.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	duplex func(pb.TestService_FullDuplexCallServer) error
	input  func(pb.TestService_StreamingInputCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{}, nil
	}
	return s.unary(ctx, req)
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	return s.duplex(stream)
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	return s.input(stream)
}

// options are those of a server whose callers name themselves and pay one token of "rpm".
func options() grpclimit.Options {
	return grpclimit.Options{Entity: grpclimit.Metadata("x-user"), Consume: map[string]int64{"rpm": 1}}
}

// serve starts a server in memory, and returns a connection to it. Both end with the test.
func serve(tb testing.TB, s *service, limits grpclimit.Acquirer, o grpclimit.Options, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	limit, err := grpclimit.NewServer(limits, o)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(recovering, limit.Unary), grpc.ChainStreamInterceptor(recoveringStream, limit.Stream),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "unknown") }),
	)
	pb.RegisterTestServiceServer(server, s)
	return dial(tb, server, opts...)
}

// recovering turns a panic of a handler into an error, as many servers do.
func recovering(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(ctx, req)
}

func recoveringStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(srv, stream)
}

func dial(tb testing.TB, server *grpc.Server, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	listener := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	opts = append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:test", opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return conn
}

// as is a context with the caller's name.
func as(ctx context.Context, user string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-user", user)
}

// call makes one call, and returns the metadata of the answer.
func call(ctx context.Context, conn *grpc.ClientConn) (header, trailer metadata.MD, err error) {
	_, err = pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	return header, trailer, err
}

// details are what a refusal says.
func details(tb testing.TB, err error) (limits []string, retry time.Duration, hasRetry bool) {
	tb.Helper()
	if code := status.Code(err); code != codes.ResourceExhausted {
		tb.Fatalf("the code is %s: %v", code, err)
	}
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				limits = append(limits, v.GetQuotaId())
			}
		case *errdetails.RetryInfo:
			retry, hasRetry = d.GetRetryDelay().AsDuration(), true
		default:
			tb.Errorf("a detail %T", d)
		}
	}
	return limits, retry, hasRetry
}

// newWorld is a table with limits for every resource: 6 calls an hour, 100 tokens an hour.
func newWorld(tb testing.TB) *testbed.World {
	tb.Helper()
	w := testbed.New(tb, testbed.Options{})
	w.System(limitsOfWorld...)
	return w
}

var limitsOfWorld = []limiter.Limit{limiter.PerHour("rpm", 6), limiter.PerHour("tpm", 100)}

// balance is what an entity has left of a resource.
func balance(w *testbed.World, entity, resource, limit string) int64 {
	w.Helper()
	statuses, err := w.Available(w.Context(), limiter.Request{Entity: entity, Resource: resource, Consume: map[string]int64{limit: 0}})
	w.Must(err)
	return statuses[0].Available
}

// failing is an Acquirer that fails.
type failing struct{ err error }

func (f failing) Acquire(context.Context, limiter.Request) (*limiter.Lease, error) { return nil, f.err }

var errOther = errors.New("a secret of the server")
