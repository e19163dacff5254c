package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// oneSlot are the slots of the tests: one call of an entity runs at a time.
var oneSlot = []limiter.SlotLimit{limiter.Slots("inflight", 1)}

// slotOptions are those of a server whose calls hold a slot.
func slotOptions() grpclimit.Options {
	return grpclimit.Options{Entity: grpclimit.Metadata("x-user"), Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot}
}

// wantHeld fails the test unless the slot of an entity is held, or not.
func wantHeld(tb testing.TB, limits *limitertest.Limits, entity, resource string, want bool) {
	tb.Helper()
	lease, err := limits.Acquire(tb.Context(), limiter.Request{
		Entity: entity, Resource: resource, Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot,
	})
	if err == nil {
		err = lease.Commit(tb.Context())
	}
	if isHeld := errors.Is(err, limiter.ErrSlotsFull); isHeld != want || err != nil && !isHeld {
		tb.Errorf("the slot is held: %t, want %t: %v", isHeld, want, err)
	}
}

// A call holds its slot while its handler runs. Another one is refused, and its client chooses when
// it comes again.
func TestACallHoldsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t)
		begun, proceed := make(chan struct{}), make(chan struct{})
		conn := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			close(begun)
			<-proceed
			return &pb.SimpleResponse{}, nil
		}}, limits, slotOptions())
		ctx, done := as(t.Context(), "alice"), make(chan error)
		go func() {
			_, _, err := call(ctx, conn)
			done <- err
		}()
		<-begun
		_, trailer, err := call(ctx, conn)
		names, _, hasRetry := details(t, err)
		if !slices.Equal(names, []string{"inflight"}) || hasRetry || len(trailer.Get("grpc-retry-pushback-ms")) > 0 {
			t.Errorf("refused for %q, with a wait: %t, %v", names, hasRetry, trailer)
		}
		close(proceed)
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait() // the server commits
		wantHeld(t, limits, "alice", resource, false)
	})
}

// No wait helps a call that asks for more slots than there are.
func TestTooManySlotsAreNeverThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := slotOptions()
		o.Slots = map[string]int64{"inflight": 2}
		_, trailer, err := call(as(t.Context(), "alice"), serve(t, &service{}, limitertest.New(t), o))
		details(t, err)
		if got := first(t, trailer, "grpc-retry-pushback-ms"); got != "-1" {
			t.Errorf("the pushback is %s", got)
		}
	})
}

// A stream holds its slot until its handler returns: on a server, whatever the client does, and on
// a client, until the stream has ended.
func TestAStreamHoldsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := limitertest.New(t), limitertest.New(t)
		conn := serve(t, &service{duplex: echo}, server, slotOptions(), limited(t, client, grpclimit.ClientOptions{
			Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot,
		})...)
		for name, end := range map[string]func(pb.TestService_FullDuplexCallClient, context.CancelFunc){
			"ended": func(stream pb.TestService_FullDuplexCallClient, _ context.CancelFunc) {
				_ = stream.CloseSend()
				if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			},
			"left": func(_ pb.TestService_FullDuplexCallClient, leave context.CancelFunc) { leave() },
		} {
			ctx, leave := context.WithCancel(as(t.Context(), "alice"))
			stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := ask(stream, 1); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			wantHeld(t, server, "alice", duplex, true)
			wantHeld(t, client, grpclimit.DefaultOutbound, duplex, true)
			end(stream, leave)
			time.Sleep(2 * time.Second)
			t.Log(name)
			wantHeld(t, server, "alice", duplex, false)
			wantHeld(t, client, grpclimit.DefaultOutbound, duplex, false)
			leave()
		}
	})
}

// A call that loses its slots ends with ABORTED, on either side.
func TestLostSlotsAbortCalls(t *testing.T) {
	t.Parallel()
	until := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	s := &service{
		unary:  func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) { return nil, until(ctx) },
		duplex: func(stream pb.TestService_FullDuplexCallServer) error { return until(stream.Context()) },
	}
	calls := map[string]func(context.Context, pb.TestServiceClient) error{
		"unary": func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
			return err
		},
		"stream": func(ctx context.Context, c pb.TestServiceClient) error {
			stream, err := c.FullDuplexCall(ctx)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	}
	for name, one := range calls {
		synctest.Test(t, func(t *testing.T) {
			limits := limitertest.New(t)
			lose := func() {
				time.Sleep(time.Second)
				limits.Stall()
				time.Sleep(20 * time.Second)
				limits.Restore()
			}
			go lose()
			err := one(as(t.Context(), "alice"), pb.NewTestServiceClient(serve(t, s, limits, slotOptions())))
			if status.Code(err) != codes.Aborted {
				t.Errorf("%s on a server: %v", name, err)
			}
			time.Sleep(time.Minute)
			o := grpclimit.ClientOptions{Slots: map[string]int64{"inflight": 1}, SlotFallback: oneSlot}
			go lose()
			err = one(t.Context(), pb.NewTestServiceClient(unlimited(t, s, limited(t, limits, o)...)))
			if status.Code(err) != codes.Aborted || !errors.Is(err, limiter.ErrSlotsLost) {
				t.Errorf("%s on a client: %v", name, err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// In the shadow a call goes on without its slots.
func TestLostSlotsEndNothingInTheShadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t)
		o := slotOptions()
		o.Shadow = true
		conn := serve(t, &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			limits.Stall()
			time.Sleep(time.Minute)
			limits.Restore()
			return &pb.SimpleResponse{}, ctx.Err()
		}}, limits, o)
		if _, _, err := call(as(t.Context(), "alice"), conn); err != nil {
			t.Error(err)
		}
	})
}
