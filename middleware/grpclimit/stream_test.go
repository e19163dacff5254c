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

	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
)

// duplex is the resource of the calls of FullDuplexCall.
const duplex = "grpc.testing.TestService/FullDuplexCall"

// echo answers each message with one of the size that it asks for. It stops when the client
// does, and it hides errors of its stream.
func echo(stream pb.TestService_FullDuplexCallServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return hidden(err)
		}
		size := req.GetResponseParameters()[0].GetSize()
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, size)}}); err != nil {
			return hidden(err)
		}
	}
}

func hidden(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return status.Error(codes.Aborted, "the handler's own error")
}

// streamOptions charge 10 tokens for each message that the server receives, and one for each
// byte that it sends.
func streamOptions() grpclimit.Options {
	o := options()
	o.Consume = map[string]int64{"rpm": 1, "tpm": 0}
	o.Received = func(context.Context, *grpclimit.Call, any) map[string]int64 { return map[string]int64{"tpm": 10} }
	o.Sent = func(_ context.Context, _ *grpclimit.Call, m any) map[string]int64 {
		return map[string]int64{"tpm": int64(len(m.(*pb.StreamingOutputCallResponse).GetPayload().GetBody()))}
	}
	return o
}

// ask sends a message, and receives the answer.
func ask(stream pb.TestService_FullDuplexCallClient, size int32) error {
	err := stream.Send(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: size}}})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.Recv()
	return err
}

// Messages are paid for before they are handed on. The first that is refused ends the stream,
// whatever the handler makes of it, with the exact wait.
func TestMessagesOfAStreamAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, sizes := range map[string][]int32{
			"refused when it is sent":     {30, 30, 20},
			"refused when it is received": {30, 50, 0},
		} {
			w := newWorld(t)
			stream, err := pb.NewTestServiceClient(serve(t, &service{duplex: echo}, w, streamOptions())).FullDuplexCall(as(t.Context(), "alice"))
			w.Must(err)
			w.Must(ask(stream, sizes[0]))
			w.Must(ask(stream, sizes[1]))
			if left, want := balance(w, "alice", duplex, "tpm"), int64(80-sizes[0]-sizes[1]); left != want {
				t.Errorf("%s: %d tokens are left, want %d: the messages count at once", name, left, want)
			}
			limits, retry, _ := details(t, ask(stream, sizes[2]))
			want := 6 * time.Minute // ten tokens of 100 an hour
			if !slices.Equal(limits, []string{"tpm"}) || retry != want {
				t.Errorf("%s: refused by %q for %v, want %v", name, limits, retry, want)
			}
			if got := first(t, stream.Trailer(), "retry-after"); got != "360" {
				t.Errorf("%s: retry-after is %s", name, got)
			}
			synctest.Wait() // the server commits
			if left := balance(w, "alice", duplex, "tpm"); left < 0 {
				t.Errorf("%s: a debt of %d tokens", name, -left)
			}
		}
	})
}

// Without enforcement the sum is written at the end, into debt, with one write.
func TestMessagesOfAStreamAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := streamOptions()
		o.Unenforced = true
		stream, err := pb.NewTestServiceClient(serve(t, &service{duplex: echo}, w, o)).FullDuplexCall(as(t.Context(), "alice"))
		w.Must(err)
		for range 3 {
			w.Must(ask(stream, 30))
		}
		if left := balance(w, "alice", duplex, "tpm"); left != 100 {
			t.Errorf("%d tokens are left during the stream", left)
		}
		w.Must(stream.CloseSend())
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		synctest.Wait()
		if left := balance(w, "alice", duplex, "tpm"); left != -20 {
			t.Errorf("%d tokens are left, want -20", left)
		}
	})
}

// A client that leaves a stream pays for what it got.
func TestAClientLeavesAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := streamOptions()
		o.Unenforced = true
		ctx, cancel := context.WithCancel(as(t.Context(), "alice"))
		stream, err := pb.NewTestServiceClient(serve(t, &service{duplex: echo}, w, o)).FullDuplexCall(ctx)
		w.Must(err)
		w.Must(ask(stream, 30))
		cancel()
		synctest.Wait()
		if left := balance(w, "alice", duplex, "tpm"); left != 60 {
			t.Errorf("%d tokens are left, want 60", left)
		}
	})
}

// A stream whose handler panics is charged if the client has got something, and settled as what
// it used.
func TestAStreamPanics(t *testing.T) {
	t.Parallel()
	for _, sends := range []bool{false, true} {
		w := newWorld(t)
		o := options()
		o.Settle = func(_ context.Context, _ *grpclimit.Call, end *grpclimit.Outcome) map[string]int64 {
			if end.Err == nil {
				t.Error("a panic is no error")
			}
			return map[string]int64{"rpm": 3}
		}
		conn := serve(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			if sends {
				w.Check(stream.Send(&pb.StreamingOutputCallResponse{}))
			}
			panic("a defect")
		}}, w, o)
		stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(as(t.Context(), "alice"))
		w.Must(err)
		for err == nil {
			_, err = stream.Recv()
		}
		want := int64(6)
		if sends {
			want = 3
		}
		if left := balance(w, "alice", duplex, "rpm"); status.Code(err) != codes.Internal || left != want {
			t.Errorf("sends %t: %v, and %d calls are left, want %d", sends, err, left, want)
		}
	}
}

// A handler that ends the lease decides what the rest of the stream costs.
func TestAHandlerEndsTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := serve(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
		lease, _ := grpclimit.LeaseFrom(stream.Context())
		if err := lease.Commit(stream.Context()); err != nil {
			return err
		}
		return echo(stream)
	}}, w, streamOptions())
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(as(t.Context(), "alice"))
	w.Must(err)
	w.Must(ask(stream, 30))
	if left := balance(w, "alice", duplex, "tpm"); left != 100 {
		t.Errorf("%d tokens are left, want 100", left)
	}
}
