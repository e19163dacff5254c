package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// limited are the options of a connection whose calls are limited.
func limited(tb testing.TB, limits grpclimit.Acquirer, o grpclimit.ClientOptions) []grpc.DialOption {
	tb.Helper()
	limit, err := grpclimit.NewClient(limits, o)
	if err != nil {
		tb.Fatal(err)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream)}
}

// clientOptions pay one token of "rpm" for each call.
func clientOptions() grpclimit.ClientOptions {
	return grpclimit.ClientOptions{Consume: map[string]int64{"rpm": 1}}
}

// unlimited serves without limits.
func unlimited(tb testing.TB, s *service, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, s)
	return dial(tb, server, opts...)
}

// A call that the client's own limit refuses is not sent, and the caller can tell.
func TestAClientObeysItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var served atomic.Int32
		conn := unlimited(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			served.Add(1)
			return &pb.SimpleResponse{}, nil
		}}, limited(t, w, clientOptions())...)
		for range 6 {
			_, _, err := call(t.Context(), conn)
			w.Must(err)
		}
		_, _, err := call(t.Context(), conn)
		if _, retry, _ := details(t, err); retry != 10*time.Minute || !errors.Is(err, limiter.ErrExceeded) || served.Load() != 6 {
			t.Errorf("%v for %v, and %d calls were served", err, retry, served.Load())
		}
	})
}

// A client that passes Wait is admitted in its turn instead.
func TestAClientWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := unlimited(t, &service{}, limited(t, grpclimit.AcquirerFunc(w.Wait), clientOptions())...)
		began := time.Now()
		for range 8 {
			_, _, err := call(t.Context(), conn)
			w.Must(err)
		}
		// A waiter sleeps until the tokens are there, and then a little.
		if took := time.Since(began); took < 20*time.Minute || took > 20*time.Minute+time.Second {
			t.Errorf("eight calls took %v", took)
		}
	})
}

// After a refusal the client asks the server for nothing until the time that it told, and then
// is admitted. What the refused call took from the client's own limit goes back.
func TestAClientLearnsFromTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := newWorld(t), testbed.New(t, testbed.Options{})
		client.System(limiter.PerHour("rpm", 100))
		var asked atomic.Int32
		o := options()
		o.Observe = func(context.Context, *grpclimit.Call, *grpclimit.Decision) { asked.Add(1) }
		dialled := limited(t, client, clientOptions())
		conn := serve(t, &service{}, server, o, dialled...)
		ctx := as(t.Context(), "alice")
		for range 7 {
			_, _, _ = call(ctx, conn)
		}
		if left := balance(client, grpclimit.DefaultOutbound, resource, "rpm"); left != 94 {
			t.Errorf("%d calls are left, want 94", left)
		}
		time.Sleep(time.Second)
		_, _, err := call(ctx, conn)
		var held *grpclimit.HeldError
		if !errors.As(err, &held) || held.RetryAfter != 5*time.Minute-time.Second || asked.Load() != 7 {
			t.Errorf("%v, and the server was asked %d times", err, asked.Load())
		}
		if _, retry, _ := details(t, err); retry != held.RetryAfter {
			t.Errorf("the status says %v", retry)
		}
		// The longest hold is 5 minutes; the server told 10.
		time.Sleep(held.RetryAfter)
		if _, _, err := call(ctx, conn); status.Code(err) != codes.ResourceExhausted || asked.Load() != 8 {
			t.Errorf("%v, and the server was asked %d times", err, asked.Load())
		}
		time.Sleep(5 * time.Minute)
		if _, _, err := call(ctx, conn); err != nil {
			t.Error(err)
		}
	})
}

// While the client's limiter decides about one call, the server refuses another. The first is
// held, and what it took goes back.
func TestACallThatWasJustAdmittedIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := newWorld(t), testbed.New(t, testbed.Options{})
		client.System(limiter.PerHour("rpm", 100))
		ctx, first := as(t.Context(), "alice"), true
		var conn *grpc.ClientConn
		slow := grpclimit.AcquirerFunc(func(inner context.Context, req limiter.Request) (*limiter.Lease, error) {
			if first {
				first = false
				for range 7 { // one more than the server admits
					_, _, _ = call(ctx, conn)
				}
			}
			return client.Acquire(inner, req)
		})
		conn = serve(t, &service{}, server, options(), limited(t, slow, clientOptions())...)
		if _, _, err := call(ctx, conn); !errors.Is(err, grpclimit.ErrHeld) {
			t.Error(err)
		}
		if left := balance(client, grpclimit.DefaultOutbound, resource, "rpm"); left != 94 {
			t.Errorf("%d calls are left, want 94", left)
		}
	})
}

// A client may wait for the server's time, but not beyond a call's deadline.
func TestAClientWaitsForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := newWorld(t), testbed.New(t, testbed.Options{})
		client.System(limiter.PerHour("rpm", 100))
		o := clientOptions()
		o.WaitHeld, o.MaxHold = true, time.Hour
		conn := serve(t, &service{}, server, options(), limited(t, client, o)...)
		ctx, began := as(t.Context(), "alice"), time.Now()
		for range 7 {
			_, _, _ = call(ctx, conn)
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, _, err := call(soon, conn); !errors.Is(err, grpclimit.ErrHeld) || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, _, err := call(ctx, conn); err != nil || time.Since(began) != 10*time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A stream pays for its messages, ends when one is refused, and is settled when it ends.
func TestAClientsStreamIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := clientOptions()
		o.Consume = map[string]int64{"rpm": 1, "tpm": 0}
		o.Sent = func(context.Context, *grpclimit.Call, any) map[string]int64 { return map[string]int64{"tpm": 10} }
		o.Received = func(context.Context, *grpclimit.Call, any) map[string]int64 { return map[string]int64{"tpm": 35} }
		var outcome error
		o.Settle = func(_ context.Context, _ *grpclimit.Call, end *grpclimit.Outcome) map[string]int64 {
			outcome = end.Err
			return nil
		}
		conn := unlimited(t, &service{duplex: echo}, limited(t, w, o)...)
		stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		w.Must(err)
		w.Must(ask(stream, 1))
		w.Must(ask(stream, 1))
		if left := balance(w, grpclimit.DefaultOutbound, duplex, "tpm"); left != 10 {
			t.Errorf("%d tokens are left, want 10", left)
		}
		details(t, ask(stream, 1))
		synctest.Wait()
		if !errors.Is(outcome, limiter.ErrExceeded) {
			t.Errorf("the outcome is %v", outcome)
		}
		stream, err = pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		w.Must(err)
		details(t, ask(stream, 1))
	})
}

// watching is an interceptor that notes how the context of a stream ends.
func watching(below *func() error) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(
		func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			*below = ctx.Err
			return next(ctx, d, c, method, opts...)
		})
}

// A message that is refused before it leaves ends the stream, on the server too, and settles it.
func TestAMessageThatDoesNotLeaveEndsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := clientOptions()
		o.Consume = map[string]int64{"rpm": 1, "tpm": 0}
		o.Sent = func(context.Context, *grpclimit.Call, any) map[string]int64 { return map[string]int64{"tpm": 60} }
		settled := 0
		o.Settle = func(context.Context, *grpclimit.Call, *grpclimit.Outcome) map[string]int64 {
			settled++
			return map[string]int64{"tpm": 50}
		}
		var ended error
		var below func() error
		conn := unlimited(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			err := echo(stream)
			ended = stream.Context().Err()
			return err
		}}, append(limited(t, w, o), watching(&below))...)
		stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		w.Must(err)
		w.Must(ask(stream, 1))
		details(t, stream.Send(&pb.StreamingOutputCallRequest{}))
		synctest.Wait()
		if !errors.Is(ended, context.Canceled) || settled != 1 || below() == nil {
			t.Errorf("the server's stream ended with %v, settled %d times, the context with %v", ended, settled, below())
		}
		if left := balance(w, grpclimit.DefaultOutbound, duplex, "tpm"); left != 50 {
			t.Errorf("%d tokens are left, want 50", left)
		}
	})
}

// A server that is not available may ask for a pause, too. It holds calls to that target.
func TestAPauseHoldsCallsToItsTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit, err := grpclimit.NewClient(w, clientOptions())
	w.Must(err)
	busy, err := status.New(codes.Unavailable, "restarting").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	w.Must(err)
	send := func(target string, answer error) error {
		conn, err := grpc.NewClient("passthrough:"+target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		w.Must(err)
		defer conn.Close()
		return limit.Unary(t.Context(), "/"+resource, nil, nil, conn, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			return answer
		})
	}
	if err := send("a", busy.Err()); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := send("a", nil); !errors.Is(err, grpclimit.ErrHeld) {
		t.Errorf("the target is not held: %v", err)
	}
	if err := send("b", nil); err != nil {
		t.Errorf("another target is held: %v", err)
	}
	if err := send("b", status.Error(codes.Unavailable, "no pause")); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := send("b", nil); err != nil {
		t.Errorf("held without a pause: %v", err)
	}
}

// A call that fails has no answer to settle by.
func TestACallThatFailsIsSettledWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, fails := range []bool{true, false} {
		o := clientOptions()
		o.Settle = func(_ context.Context, _ *grpclimit.Call, end *grpclimit.Outcome) map[string]int64 {
			if (end.Answer == nil) != fails || (end.Err == nil) == fails {
				t.Errorf("fails %t: %+v", fails, end)
			}
			return nil
		}
		conn := unlimited(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if fails {
				return nil, status.Error(codes.Internal, "broken")
			}
			return &pb.SimpleResponse{}, nil
		}}, limited(t, w, o)...)
		if _, _, err := call(t.Context(), conn); (err != nil) != fails {
			t.Error(err)
		}
	}
}

// The one answer of a stream of requests is charged before the stream is settled.
func TestTheAnswerOfAStreamOfRequestsIsCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := clientOptions()
	settled, below := 0, (func() error)(nil)
	o.Settle = func(context.Context, *grpclimit.Call, *grpclimit.Outcome) map[string]int64 {
		settled++
		return nil
	}
	o.Consume = map[string]int64{"tpm": 1}
	o.Received = func(context.Context, *grpclimit.Call, any) map[string]int64 { return map[string]int64{"tpm": 35} }
	conn := unlimited(t, &service{input: func(stream pb.TestService_StreamingInputCallServer) error {
		for {
			if _, err := stream.Recv(); errors.Is(err, io.EOF) {
				return stream.SendAndClose(&pb.StreamingInputCallResponse{})
			} else if err != nil {
				return err
			}
		}
	}}, append(limited(t, w, o), watching(&below))...)
	stream, err := pb.NewTestServiceClient(conn).StreamingInputCall(t.Context())
	w.Must(err)
	w.Must(stream.Send(&pb.StreamingInputCallRequest{}))
	_, err = stream.CloseAndRecv()
	w.Must(err)
	if left := balance(w, grpclimit.DefaultOutbound, "grpc.testing.TestService/StreamingInputCall", "tpm"); left != 64 {
		t.Errorf("%d tokens are left, want 64", left)
	}
	if settled != 1 || below() == nil {
		t.Errorf("settled %d times, the context has ended with %v", settled, below())
	}
}

// A stream of requests that the server refuses gives back what it took, without an answer that
// could be charged.
func TestAStreamOfRequestsThatIsExhaustedGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := unlimited(t, &service{input: func(pb.TestService_StreamingInputCallServer) error {
			return status.Error(codes.ResourceExhausted, "enough")
		}}, limited(t, w, clientOptions())...)
		stream, err := pb.NewTestServiceClient(conn).StreamingInputCall(t.Context())
		w.Must(err)
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		synctest.Wait()
		if left := balance(w, grpclimit.DefaultOutbound, "grpc.testing.TestService/StreamingInputCall", "rpm"); left != 6 {
			t.Errorf("%d calls are left, want 6", left)
		}
	})
}

// A call that does not begin is settled, too.
func TestAStreamThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := unlimited(t, &service{}, append(limited(t, w, clientOptions()),
		grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, status.Error(codes.ResourceExhausted, "another interceptor")
		}))...)
	if _, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	if left := balance(w, grpclimit.DefaultOutbound, duplex, "rpm"); left != 6 {
		t.Errorf("%d calls are left, want 6", left)
	}
}

func TestAClientSkipsCalls(t *testing.T) {
	t.Parallel()
	o := clientOptions()
	o.Skip = func(context.Context, *grpclimit.Call) bool { return true }
	conn := unlimited(t, &service{duplex: echo}, limited(t, failing{errOther}, o)...)
	if _, _, err := call(t.Context(), conn); err != nil {
		t.Error(err)
	}
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
	if err == nil {
		err = ask(stream, 1)
	}
	if err != nil {
		t.Error(err)
	}
}

// A stream that ends with RESOURCE_EXHAUSTED gives back what it took, unless the client has
// got a message before.
func TestAStreamThatIsExhaustedIsChargedForItsMessages(t *testing.T) {
	t.Parallel()
	for sends, want := range map[bool]int64{false: 6, true: 5} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
				if sends {
					w.Check(stream.Send(&pb.StreamingOutputCallResponse{}))
				}
				return status.Error(codes.ResourceExhausted, "enough")
			}}
			stream, err := pb.NewTestServiceClient(unlimited(t, s, limited(t, w, clientOptions())...)).FullDuplexCall(t.Context())
			w.Must(err)
			for err == nil {
				_, err = stream.Recv()
			}
			synctest.Wait()
			if left := balance(w, grpclimit.DefaultOutbound, duplex, "rpm"); status.Code(err) != codes.ResourceExhausted || left != want {
				t.Errorf("sends %t: %v, and %d calls are left, want %d", sends, err, left, want)
			}
		})
	}
}
