package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// newExample makes a limiter on a table in memory.
func newExample(ctx context.Context) *limiter.Limiter {
	engine := dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(ctx, engine, dynamo.TableOptions{Name: "limits"}); err != nil {
		log.Fatal(err)
	}
	store, err := dynamo.Open(ctx, dynamo.Options{API: engine, Table: "limits"})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := limiter.New(store, limiter.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return limits
}

// connect serves in memory, and returns a connection.
func connect(server *grpc.Server, opts ...grpc.DialOption) *grpc.ClientConn {
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }() // Stop ends it
	conn, err := grpc.NewClient("passthrough:example", append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

// A server takes one token for each call. The third call is refused.
func ExampleNewServer() {
	ctx := context.Background()
	limits := newExample(ctx)
	defer limits.Close()
	limit, err := grpclimit.NewServer(limits, grpclimit.Options{
		Entity:   grpclimit.Constant("everybody"),
		Consume:  map[string]int64{"rpm": 1},
		Fallback: []limiter.Limit{limiter.PerHour("rpm", 2)},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	pb.RegisterTestServiceServer(server, &service{})
	conn := connect(server)
	defer server.Stop()
	defer conn.Close()

	for range 3 {
		_, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// A client does not send what its own limit refuses. AcquirerFunc(limits.Wait) in place of
// limits would wait instead.
func ExampleNewClient() {
	ctx := context.Background()
	limits := newExample(ctx)
	defer limits.Close()
	limit, err := grpclimit.NewClient(limits, grpclimit.ClientOptions{
		Consume:  map[string]int64{"calls": 1},
		Fallback: []limiter.Limit{limiter.PerHour("calls", 1)},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, &service{})
	conn := connect(server, grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream))
	defer server.Stop()
	defer conn.Close()

	for range 2 {
		_, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{})
		fmt.Println(status.Code(err), errors.Is(err, limiter.ErrExceeded))
	}
	// Output:
	// OK false
	// ResourceExhausted true
}
