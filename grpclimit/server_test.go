package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
)

// first is the only value of a key.
func first(tb testing.TB, md metadata.MD, key string) string {
	tb.Helper()
	values := md.Get(key)
	if len(values) != 1 {
		tb.Errorf("%s has the values %q", key, values)
		return ""
	}
	return values[0]
}

// The header says what is left, and a refusal the exact wait: to the millisecond.
func TestACallIsAdmittedAndRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := serve(t, &service{}, options(w))
		ctx := as(t.Context(), "alice")
		for left := 5; left >= 0; left-- {
			header, trailer, err := call(ctx, conn)
			w.Must(err)
			if got, want := first(t, header, "ratelimit"), fmt.Sprintf(`"rpm";r=%d;t=%d`, left, (6-left)*600); got != want {
				t.Errorf("ratelimit: %s, want %s", got, want)
			}
			if got, want := first(t, header, "ratelimit-policy"), `"rpm";q=6;w=3600`; got != want {
				t.Errorf("ratelimit-policy: %s, want %s", got, want)
			}
			if len(trailer) > 0 {
				t.Errorf("the trailer has %v", trailer)
			}
		}
		header, trailer, err := call(ctx, conn)
		limits, retry, _ := details(t, err)
		if retry != 10*time.Minute || !slices.Equal(limits, []string{"rpm"}) {
			t.Errorf("refused by %q for %v", limits, retry)
		}
		if len(header) > 0 {
			t.Errorf("the header has %v: gRPC does not retry then", header)
		}
		for key, want := range map[string]string{
			"ratelimit": `"rpm";r=0;t=3600`, "retry-after": "600", "grpc-retry-pushback-ms": "600000",
		} {
			if got := first(t, trailer, key); got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
		}
		time.Sleep(retry - time.Millisecond)
		if _, _, err := call(ctx, conn); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a millisecond early: %v", err)
		}
		time.Sleep(time.Millisecond)
		if _, _, err := call(ctx, conn); err != nil {
			t.Errorf("after the wait: %v", err)
		}
	})
}

// A client whose service config retries obeys the server's wait, without code.
func TestAClientOfGRPCObeysThePushback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := serve(t, &service{}, options(w), grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
			"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
		ctx := as(t.Context(), "alice")
		began := time.Now()
		for range 7 {
			if _, _, err := call(ctx, conn); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("seven calls took %v", took)
		}
	})
}

// A call that no wait can admit says so.
func TestACallThatAsksTooMuchIsNotRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := options(w)
	o.Cost = grpclimit.Tokens("rpm", 7)
	_, trailer, err := call(as(t.Context(), "alice"), serve(t, &service{}, o))
	if limits, retry, ok := details(t, err); ok || !slices.Equal(limits, []string{"rpm"}) {
		t.Errorf("refused by %q for %v", limits, retry)
	}
	if got := first(t, trailer, "grpc-retry-pushback-ms"); got != "-1" {
		t.Errorf("the pushback is %s", got)
	}
	if after := trailer.Get("retry-after"); len(after) > 0 {
		t.Errorf("retry-after is %s", after)
	}
}

// The caller learns the name of the parent's limit, and nothing else of the parent.
func TestNothingOfAnotherTenantLeaks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must(w.Store.SetLimits(t.Context(), limiter.ConfigKey{Entity: "other-tenant", Resource: resource}, []limiter.Limit{limiter.PerHour("budget", 41)}))
	for _, e := range []limiter.Entity{{ID: "other-tenant"}, {ID: "alice", Parent: "other-tenant", Cascade: true}} {
		_, err := w.Store.CreateEntity(t.Context(), e)
		w.Must(err)
	}
	o := options(w)
	o.Cost = func(context.Context, *grpclimit.Call) (map[string]int64, error) {
		return map[string]int64{"rpm": 1, "budget": 30}, nil
	}
	conn := serve(t, &service{}, o)
	header, _, err := call(as(t.Context(), "alice"), conn)
	w.Must(err)
	_, trailer, err := call(as(t.Context(), "alice"), conn)
	if limits, _, _ := details(t, err); !slices.Equal(limits, []string{"budget"}) {
		t.Errorf("refused by %q", limits)
	}
	all := fmt.Sprint(header, trailer, err, status.Convert(err).Proto())
	for _, secret := range []string{"other-tenant", "alice", "41"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is in %s", secret, all)
		}
	}
}

// The handler settles what it used, and the interceptor commits that, even when the call
// fails. Refund returns everything.
func TestTheHandlerSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		lease, ok := grpclimit.LeaseFrom(ctx)
		if !ok {
			return nil, errors.New("no lease")
		}
		if err := lease.Adjust("tpm", -20); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.DataLoss, "the upstream broke")
	}}
	o := options(w)
	o.Cost = func(context.Context, *grpclimit.Call) (map[string]int64, error) {
		return map[string]int64{"rpm": 1, "tpm": 50}, nil
	}
	if _, _, err := call(as(t.Context(), "alice"), serve(t, s, o)); status.Code(err) != codes.DataLoss {
		t.Error(err)
	}
	if left := balance(w, "alice", resource, "tpm"); left != 70 {
		t.Errorf("%d tokens are left, want 70", left)
	}
	o.Refund = func(_ context.Context, _ *grpclimit.Call, err error) bool { return status.Code(err) == codes.DataLoss }
	if _, _, err := call(as(t.Context(), "bob"), serve(t, s, o)); status.Code(err) != codes.DataLoss {
		t.Error(err)
	}
	if left := balance(w, "bob", resource, "tpm"); left != 100 {
		t.Errorf("%d tokens are left, want 100", left)
	}
}

// A request costs its message before the handler runs, and its answer afterwards.
func TestTheMessagesOfAUnaryCallCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := options(w)
	o.Cost = func(context.Context, *grpclimit.Call) (map[string]int64, error) {
		return map[string]int64{"rpm": 1, "tpm": 0}, nil
	}
	o.Received = func(_ context.Context, _ *grpclimit.Call, m any) map[string]int64 {
		return map[string]int64{"tpm": int64(m.(*pb.SimpleRequest).GetResponseSize())}
	}
	o.Sent = func(_ context.Context, _ *grpclimit.Call, m any) map[string]int64 {
		return map[string]int64{"tpm": int64(len(m.(*pb.SimpleResponse).GetPayload().GetBody()))}
	}
	conn := serve(t, &service{unary: func(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, 2*req.GetResponseSize())}}, nil
	}}, o)
	ask := func(size int32) error {
		_, err := pb.NewTestServiceClient(conn).UnaryCall(as(t.Context(), "alice"), &pb.SimpleRequest{ResponseSize: size})
		return err
	}
	w.Must(ask(30))
	if left := balance(w, "alice", resource, "tpm"); left != 10 {
		t.Errorf("%d tokens are left, want 10", left)
	}
	if err := ask(11); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	w.Must(ask(10)) // the answer leaves a debt
	if left := balance(w, "alice", resource, "tpm"); left != -20 {
		t.Errorf("%d tokens are left, want -20", left)
	}
}

// Each error has its code, and says nothing of the server.
func TestEveryErrorHasACode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{&limiter.ValidationError{Field: "entity", Value: "a b"}, codes.InvalidArgument},
		{&limiter.ValidationError{Field: "resource", Value: errOther.Error()}, codes.Internal},
		{&limiter.DisabledError{Entity: errOther.Error()}, codes.PermissionDenied},
		{errors.Join(limiter.ErrUnavailable, errOther), codes.Unavailable},
		{errors.Join(limiter.ErrThrottled, errOther), codes.Unavailable},
		{errors.Join(limiter.ErrClosed, errOther), codes.Unavailable},
		{errors.Join(limiter.ErrAccessDenied, errOther), codes.Internal},
		{errors.Join(limiter.ErrExceeded, errOther), codes.ResourceExhausted},
		{status.Error(codes.Aborted, "the limiter's own"), codes.Aborted},
		{errOther, codes.Internal},
	} {
		var log bytes.Buffer
		o := options(failing{test.err})
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		_, trailer, err := call(as(t.Context(), "alice"), serve(t, &service{}, o))
		if status.Code(err) != test.want || strings.Contains(err.Error(), errOther.Error()) {
			t.Errorf("%v is %v", test.err, err)
		}
		if logged := log.Len() > 0; logged != (test.want == codes.Internal) {
			t.Errorf("%v is logged as %q", test.err, &log)
		}
		if pushback := trailer.Get("grpc-retry-pushback-ms"); test.want == codes.Unavailable && !slices.Equal(pushback, []string{"1000"}) {
			t.Errorf("%v: the pushback is %v", test.err, pushback)
		}
	}
	if _, _, err := call(t.Context(), serve(t, &service{}, options(failing{errOther}))); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a name: %v", err)
	}
}

// A caller that leaves during the decision takes nothing, and one that leaves during the
// work pays for it.
func TestACallerLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entered, ended := make(chan struct{}), make(chan struct{})
	conn := serve(t, &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		defer close(ended)
		close(entered)
		<-ctx.Done()
		lease, _ := grpclimit.LeaseFrom(ctx)
		return nil, lease.Adjust("rpm", 2)
	}}, options(w))
	ctx, cancel := context.WithCancel(as(t.Context(), "alice"))
	go func() {
		<-entered
		cancel()
	}()
	if _, _, err := call(ctx, conn); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	<-ended
	for balance(w, "alice", resource, "rpm") == 5 { // the commit is under way
	}
	if left := balance(w, "alice", resource, "rpm"); left != 3 {
		t.Errorf("%d calls are left, want 3", left)
	}
	if _, _, err := call(ctx, conn); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestAPanicReturnsTheTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { panic("a defect") }}, options(w))
	if _, _, err := call(as(t.Context(), "alice"), conn); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	if left := balance(w, "alice", resource, "rpm"); left != 6 {
		t.Errorf("%d calls are left, want 6", left)
	}
}

// In shadow mode every call is served, what can be taken is taken, and the log tells of
// refusals.
func TestTheShadowRefusesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	o := options(w)
	o.Shadow, o.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
	conn := serve(t, &service{}, o)
	for range 8 {
		header, trailer, err := call(as(t.Context(), "alice"), conn)
		w.Must(err)
		if len(header.Get("ratelimit")) > 0 || len(trailer) > 0 {
			t.Errorf("metadata: %v %v", header, trailer)
		}
	}
	if n := strings.Count(log.String(), "rate limit exceeded"); n != 2 || balance(w, "alice", resource, "rpm") != 0 {
		t.Errorf("%d refusals are logged:\n%s", n, &log)
	}
}

func TestACallIsSkipped(t *testing.T) {
	t.Parallel()
	o := options(failing{errOther})
	o.Skip = func(_ context.Context, call *grpclimit.Call) bool { return strings.HasSuffix(call.Method, "/UnaryCall") }
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if _, ok := grpclimit.LeaseFrom(ctx); ok {
			return nil, errors.New("a lease")
		}
		return &pb.SimpleResponse{}, nil
	}}
	if _, _, err := call(t.Context(), serve(t, s, o)); err != nil {
		t.Error(err)
	}
}

// Clients cannot make up resources: all unknown methods have one.
func TestUnknownMethodsShareAResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := serve(t, &service{}, options(w))
	for i := range 7 {
		stream, err := conn.NewStream(as(t.Context(), "mallory"), &grpc.StreamDesc{}, fmt.Sprintf("/made.up/Method%d", i))
		w.Must(err)
		want := codes.Unimplemented
		if i == 6 {
			want = codes.ResourceExhausted
		}
		if err := stream.RecvMsg(&pb.Empty{}); status.Code(err) != want {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if left := balance(w, "mallory", grpclimit.Unregistered, "rpm"); left != 0 {
		t.Errorf("%d calls are left", left)
	}
}

func TestOptionsOfAServer(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*grpclimit.Options){
		"Limiter": func(o *grpclimit.Options) { o.Limiter = nil },
		"Entity":  func(o *grpclimit.Options) { o.Entity = nil },
		"Cost":    func(o *grpclimit.Options) { o.Cost = nil },
		"Wait":    func(o *grpclimit.Options) { o.Wait = true },
	} {
		o := options(failing{})
		change(&o)
		_, err := grpclimit.NewServer(o)
		var invalid *limiter.ValidationError
		if !errors.As(err, &invalid) || invalid.Field != "grpclimit.Options."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A degraded lease has no balances to tell.
func TestADegradedCallHasNoFields(t *testing.T) {
	t.Parallel()
	w := limitertest.New(t, limitertest.Options{})
	w.System(limiter.PerHour("rpm", 6))
	w.Must(w.Engine.Close())
	o := options(w)
	o.OnUnavailable = limiter.Allow
	header, _, err := call(as(t.Context(), "alice"), serve(t, &service{}, o))
	if err != nil || len(header.Get("ratelimit")) > 0 {
		t.Errorf("%v: %v", header, err)
	}
}
