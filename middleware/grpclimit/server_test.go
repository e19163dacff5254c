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
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/middleware/grpclimit"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
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
		conn := serve(t, &service{}, w, options())
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
			"ratelimit": `"rpm";r=0;t=600`, "retry-after": "600", "grpc-retry-pushback-ms": "600000",
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
		conn := serve(t, &service{}, w, options(), grpc.WithDefaultServiceConfig(`
			{"methodConfig": [{"name": [{}], "retryPolicy": {
			  "maxAttempts": 2, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
			  "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}
		`))
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
	o := options()
	o.Consume = map[string]int64{"rpm": 7}
	_, trailer, err := call(as(t.Context(), "alice"), serve(t, &service{}, w, o))
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
	w.Must(w.Store.SetLimits(t.Context(), limiter.ConfigKey{Entity: "other-tenant", Resource: resource}, []limiter.Limit{limiter.PerHour("budget", 4_100_007)}))
	w.Entities(limiter.Entity{ID: "other-tenant"}, testbed.Child("alice", "other-tenant"))
	o := options()
	o.Consume = map[string]int64{"rpm": 1, "budget": 3_000_000}
	conn := serve(t, &service{}, w, o)
	header, _, err := call(as(t.Context(), "alice"), conn)
	w.Must(err)
	_, trailer, err := call(as(t.Context(), "alice"), conn)
	if limits, _, _ := details(t, err); !slices.Equal(limits, []string{"budget"}) {
		t.Errorf("refused by %q", limits)
	}
	all := fmt.Sprint(header, trailer, err, status.Convert(err).Proto())
	for _, secret := range []string{"other-tenant", "alice", "4100007"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is in %s", secret, all)
		}
	}
}

// The handler settles what it used, and the interceptor commits that, even when the call
// fails. The server's own Settle decides last.
func TestWhatWasUsedIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if err := grpclimit.Settle(ctx, "tpm", 30); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.DataLoss, "the upstream broke")
	}}
	o := options()
	o.Consume = map[string]int64{"rpm": 1, "tpm": 50}
	if _, _, err := call(as(t.Context(), "alice"), serve(t, s, w, o)); status.Code(err) != codes.DataLoss {
		t.Error(err)
	}
	if left := balance(w, "alice", resource, "tpm"); left != 70 {
		t.Errorf("%d tokens are left, want 70", left)
	}
	o.Settle = func(_ context.Context, _ *grpclimit.Call, outcome *grpclimit.Outcome) map[string]int64 {
		if status.Code(outcome.Err) != codes.DataLoss || outcome.Answer != nil {
			t.Errorf("the outcome is %+v", outcome)
		}
		return map[string]int64{"rpm": 0, "tpm": 0}
	}
	if _, _, err := call(as(t.Context(), "bob"), serve(t, s, w, o)); status.Code(err) != codes.DataLoss {
		t.Error(err)
	}
	if calls, tokens := balance(w, "bob", resource, "rpm"), balance(w, "bob", resource, "tpm"); calls != 6 || tokens != 100 {
		t.Errorf("%d calls and %d tokens are left, want all", calls, tokens)
	}
}

// The cost may depend on the request, and what was used on the answer.
func TestMessagesOfAUnaryCallHaveACost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := options()
	o.Consume = nil
	o.Cost = func(_ context.Context, call *grpclimit.Call) (map[string]int64, error) {
		return map[string]int64{"tpm": int64(call.Message.(*pb.SimpleRequest).GetResponseSize())}, nil
	}
	o.Settle = func(_ context.Context, _ *grpclimit.Call, outcome *grpclimit.Outcome) map[string]int64 {
		return map[string]int64{"tpm": int64(len(outcome.Answer.(*pb.SimpleResponse).GetPayload().GetBody()))}
	}
	conn := serve(t, &service{unary: func(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, 3*req.GetResponseSize())}}, nil
	}}, w, o)
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
		{&limiter.ValidationError{Field: "fallback", Value: errOther.Error()}, codes.Internal},
		{&limiter.NotConfiguredError{Entity: errOther.Error()}, codes.Internal},
		{&httplimit.RequestError{Status: 401}, codes.Unauthenticated},
		{&limiter.DisabledError{Entity: errOther.Error()}, codes.PermissionDenied},
		{errors.Join(limiter.ErrUnavailable, errOther), codes.Unavailable},
		{errors.Join(limiter.ErrThrottled, errOther), codes.Unavailable},
		{errors.Join(limiter.ErrClosed, errOther), codes.Unavailable},
		{errors.Join(limiter.ErrAccessDenied, errOther), codes.Internal},
		{errors.Join(limiter.ErrQueueFull, limiter.ErrExceeded, errOther), codes.ResourceExhausted},
		{status.Error(codes.Aborted, "the limiter's own"), codes.Aborted},
		{errOther, codes.Internal},
	} {
		var log bytes.Buffer
		o := options()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		_, trailer, err := call(as(t.Context(), "alice"), serve(t, &service{}, failing{test.err}, o))
		if status.Code(err) != test.want || strings.Contains(err.Error(), errOther.Error()) {
			t.Errorf("%v is %v", test.err, err)
		}
		noDecision := test.want == codes.Internal || test.want == codes.Unavailable || errors.Is(test.err, limiter.ErrInvalid)
		if logged := log.Len() > 0; logged != noDecision {
			t.Errorf("%v is logged as %q", test.err, &log)
		}
		if pushback := trailer.Get("grpc-retry-pushback-ms"); test.want == codes.Unavailable && !slices.Equal(pushback, []string{"5000"}) {
			t.Errorf("%v: the pushback is %v", test.err, pushback)
		}
	}
	if _, _, err := call(t.Context(), serve(t, &service{}, failing{errOther}, options())); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call without a name: %v", err)
	}
}

// A caller that leaves during the decision takes nothing, and one that leaves during the
// work pays for it.
func TestACallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testACallerLeaves)
}

func testACallerLeaves(t *testing.T) {
	w := testbed.New(t, testbed.Options{Remote: true})
	w.System(limitsOfWorld...)
	var log bytes.Buffer
	o := options()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	entered, ended := make(chan struct{}), make(chan struct{})
	conn := serve(t, &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		defer close(ended)
		close(entered)
		<-ctx.Done()
		lease, _ := grpclimit.LeaseFrom(ctx)
		return nil, lease.Adjust("rpm", 2)
	}}, w, o)
	ctx, cancel := context.WithCancel(as(t.Context(), "alice"))
	go func() {
		<-entered
		cancel()
	}()
	if _, _, err := call(ctx, conn); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	<-ended
	synctest.Wait() // the server commits
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
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
	conn := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { panic("a defect") }}, w, options())
	if _, _, err := call(as(t.Context(), "alice"), conn); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	if left := balance(w, "alice", resource, "rpm"); left != 6 {
		t.Errorf("%d calls are left, want 6", left)
	}
}

// An observer that panics refuses the call, and nothing stays taken.
func TestAnObserverThatPanicsTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := options()
	o.Resource = grpclimit.Constant("calls")
	o.Observe = func(context.Context, *grpclimit.Call, *grpclimit.Decision) { panic("a defect") }
	conn := serve(t, &service{}, w, o)
	ctx := as(t.Context(), "alice")
	if _, _, err := call(ctx, conn); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctx)
	w.Must(err)
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	if left := balance(w, "alice", "calls", "rpm"); left != 6 {
		t.Errorf("%d calls are left, want 6", left)
	}
}

// In shadow mode every call is served and what can be taken is taken. Observe tells what would
// happen.
func TestTheShadowRefusesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := 0
	o := options()
	o.Shadow = true
	o.Observe = func(_ context.Context, call *grpclimit.Call, d *grpclimit.Decision) {
		if !d.Shadow || d.Request.Entity != "alice" || call.Method != "/"+resource {
			t.Errorf("observed %+v of %+v", d, call)
		}
		if errors.Is(d.Err, limiter.ErrExceeded) {
			refused++
		}
	}
	conn := serve(t, &service{}, w, o)
	for range 8 {
		header, trailer, err := call(as(t.Context(), "alice"), conn)
		w.Must(err)
		if len(header.Get("ratelimit")) > 0 || len(trailer) > 0 {
			t.Errorf("metadata: %v %v", header, trailer)
		}
	}
	if refused != 2 || balance(w, "alice", resource, "rpm") != 0 {
		t.Errorf("%d calls would be refused, want 2", refused)
	}
}

func TestACallIsSkipped(t *testing.T) {
	t.Parallel()
	o := options()
	o.Skip = func(_ context.Context, call *grpclimit.Call) bool {
		return strings.HasSuffix(call.Method, "/UnaryCall")
	}
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if _, ok := grpclimit.LeaseFrom(ctx); ok {
			return nil, errors.New("a lease")
		}
		return &pb.SimpleResponse{}, nil
	}}
	if _, _, err := call(t.Context(), serve(t, s, failing{errOther}, o)); err != nil {
		t.Error(err)
	}
}

// Clients cannot make up resources: all unknown methods have one.
func TestUnknownMethodsShareAResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := serve(t, &service{}, w, options())
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

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	cost := func(context.Context, *grpclimit.Call) (map[string]int64, error) { return nil, nil }
	one := map[string]int64{"rpm": 1}
	for _, test := range []struct {
		field  string
		limits grpclimit.Acquirer
		o      grpclimit.Options
	}{
		{"limits", nil, grpclimit.Options{}},
		{"cost", failing{}, grpclimit.Options{Consume: one, Cost: cost}},
		{"consume rpm", failing{}, grpclimit.Options{Consume: map[string]int64{"rpm": -1}}},
		{"on unavailable", failing{}, grpclimit.Options{OnUnavailable: "perhaps"}},
		{"retry unavailable", failing{}, grpclimit.Options{RetryUnavailable: -1}},
	} {
		_, err := grpclimit.NewServer(test.limits, test.o)
		if invalid := (*limiter.ValidationError)(nil); !errors.As(err, &invalid) || invalid.Field != test.field {
			t.Errorf("%s: %v", test.field, err)
		}
		if test.field == "retry unavailable" {
			continue // clients have no such option
		}
		_, err = grpclimit.NewClient(test.limits, grpclimit.ClientOptions{
			Consume: test.o.Consume, Cost: test.o.Cost, OnUnavailable: test.o.OnUnavailable,
		})
		if invalid := (*limiter.ValidationError)(nil); !errors.As(err, &invalid) || invalid.Field != test.field {
			t.Errorf("client, %s: %v", test.field, err)
		}
	}
}

// A degraded lease has no balances to tell.
func TestADegradedCallHasNoFields(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	w.System(limiter.PerHour("rpm", 6))
	w.Must(w.Engine.Close())
	o := options()
	o.OnUnavailable = limiter.Allow
	header, _, err := call(as(t.Context(), "alice"), serve(t, &service{}, w, o))
	if err != nil || len(header.Get("ratelimit")) > 0 {
		t.Errorf("%v: %v", header, err)
	}
}
