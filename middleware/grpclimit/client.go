package grpclimit

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
	"github.com/zeroae/zae-limiter-go/middleware/internal/hold"
)

// A Client limits the calls that a gRPC client makes, and obeys what the server says about its
// own limits. Its methods are interceptors:
//
//	grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(limit.Unary),
//		grpc.WithChainStreamInterceptor(limit.Stream),
//	)
//
// A call that the limiter refuses is not sent. It fails with a status as a server's refusal
// does, and errors.As finds the [*limiter.ExceededError]. To wait instead, pass
// AcquirerFunc(limits.Wait).
//
// An answer RESOURCE_EXHAUSTED or UNAVAILABLE with a RetryInfo holds further calls for that
// long: those to the same target, of the same entity and resource. Each process learns this by
// itself. Only what the limiter counts is shared.
//
// What a call took goes back if the server answers RESOURCE_EXHAUSTED and nothing else. Any
// other call is charged: the server may have counted it. gRPC retries below its interceptors, so a call that
// it retries is charged once.
//
// A Client is safe for concurrent use, also by several connections. It starts no goroutines.
type Client struct {
	costs costs
	o     ClientOptions
	holds *hold.Holds
}

var (
	_ grpc.UnaryClientInterceptor  = (*Client)(nil).Unary
	_ grpc.StreamClientInterceptor = (*Client)(nil).Stream
)

// NewClient makes a client's interceptors. It fails with a [*limiter.ValidationError] if an
// option is invalid.
func NewClient(limits Acquirer, o ClientOptions) (*Client, error) {
	if o.Entity == nil {
		o.Entity = Constant(DefaultOutbound)
	}
	if o.Resource == nil {
		o.Resource = Method()
	}
	if o.MaxHold == 0 {
		o.MaxHold = DefaultMaxHold
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default
	}
	ask, err := admission.NewAsker(admission.Asker[*Call]{
		Limits: limits, Entity: o.Entity, Resource: o.Resource, Cost: o.Cost,
		Base: limiter.Request{
			Consume: o.Consume, Fallback: o.Fallback, Slots: o.Slots, SlotFallback: o.SlotFallback, ClampPercent: o.ClampPercent, OnUnavailable: o.OnUnavailable,
		},
		RetryUnavailable: DefaultRetryUnavailable,
	}, DefaultLimit, o.Logger)
	if err != nil {
		return nil, err
	}
	return &Client{costs{ask, o.Settle, o.Received, o.Sent, o.Unenforced}, o, hold.New(o.MaxHold, o.Now)}, nil
}

// Unary is a [grpc.UnaryClientInterceptor].
func (c *Client) Unary(
	ctx context.Context, method string, message, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	call := &Call{Method: method, Message: message}
	if c.o.Skip != nil && c.o.Skip(ctx, call) {
		return invoke(ctx, method, message, answer, conn, opts...)
	}
	t, err := c.begin(ctx, conn, call)
	if err != nil {
		return err
	}
	if len(c.o.Slots) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = t.lease.Context(ctx)
		defer cancel()
	}
	err = invoke(ctx, method, message, answer, conn, opts...)
	if err != nil {
		err = t.explain(ctx, err)
		t.finish(ctx, nil, err)
	} else {
		t.finish(ctx, answer, nil)
	}
	return err
}

// explain is the error of a call, which says so if it has lost its slots.
func (t *trip) explain(ctx context.Context, err error) error {
	if admission.SlotsLost(ctx) {
		return lost(err)
	}
	return err
}

// Stream is a [grpc.StreamClientInterceptor].
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := &Call{Method: method}
	if c.o.Skip != nil && c.o.Skip(ctx, call) {
		return streamer(ctx, desc, conn, method, opts...)
	}
	t, err := c.begin(ctx, conn, call)
	if err != nil {
		return nil, err
	}
	ctx, cancel := t.lease.Context(ctx) // ends also if the call loses its slots
	s := &clientStream{ctx: ctx, cancel: cancel, trip: t, isSingle: !desc.ServerStreams}
	// gRPC calls this when the stream ends, however it ends.
	opts = append(slices.Clip(opts), grpc.OnFinish(func(err error) {
		if err != nil || !s.isSingle { // else RecvMsg is about to charge the answer
			s.finish(err)
		}
	}))
	s.ClientStream, err = streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		s.finish(err) // the stream may have failed before it reached gRPC
		return nil, err
	}
	return s, nil
}

// A trip is one call that a client sends.
type trip struct {
	charge
	holds *hold.Holds
	at    hold.Key
	got   atomic.Bool // a message of the server
	once  sync.Once   // finishes
}

// begin waits until nothing holds the call, and asks the limiter.
func (c *Client) begin(ctx context.Context, conn *grpc.ClientConn, call *Call) (*trip, error) {
	t := &trip{charge: charge{costs: &c.costs, call: call}, holds: c.holds}
	req, err := c.costs.Request(ctx, call)
	if err != nil {
		return nil, t.errorOf(ctx, err)
	}
	t.at = hold.Key{Target: conn.Target(), Entity: req.Entity, Resource: req.Resource}
	rest, err := c.holds.Around(ctx, t.at, c.o.WaitHeld, func() (err error) {
		t.lease, err = c.costs.Limits.Acquire(ctx, req)
		return err
	})
	if rest > 0 && err == nil {
		err = &HeldError{Entity: req.Entity, Resource: req.Resource, RetryAfter: rest}
	}
	if err == nil {
		return t, nil
	}
	if t.lease != nil {
		t.giveBack(ctx)
	}
	return nil, t.errorOf(ctx, err)
}

// finish ends a call once: it learns from the server's answer, and settles. A stream may have
// ended because this client refused a message; then the server has said nothing.
func (t *trip) finish(ctx context.Context, answer any, err error) {
	t.once.Do(func() {
		refused := t.refused.Load()
		if refused != nil {
			err = refused
		}
		st, _ := status.FromError(err)
		exhausted := refused == nil && st.Code() == codes.ResourceExhausted
		if exhausted || refused == nil && st.Code() == codes.Unavailable {
			if pause, ok := retryDelay(st); ok {
				t.holds.Learn(t.at, pause)
			}
		}
		if exhausted && !t.got.Load() {
			t.giveBack(ctx)
			return
		}
		t.settle(ctx, answer, err)
	})
}

// A clientStream charges messages.
type clientStream struct {
	grpc.ClientStream
	ctx    context.Context //nolint:containedctx // the methods of a stream have no other
	cancel context.CancelFunc
	trip   *trip
	// isSingle says that the server sends one answer, with which the stream ends.
	isSingle bool
}

func (s *clientStream) finish(err error) {
	defer s.cancel()
	s.trip.finish(s.ctx, nil, err)
}

// SendMsg takes what a message costs before it leaves. A refusal ends the stream.
func (s *clientStream) SendMsg(m any) error {
	if err := s.trip.take(s.ctx, s.trip.costs.sent, m); err != nil {
		s.cancel()
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg takes what a message costs before the caller gets it. A refusal ends the stream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.trip.got.Store(true)
		err = s.trip.take(s.ctx, s.trip.costs.received, m)
		if s.isSingle {
			s.finish(err)
		}
	}
	if refused := s.trip.refused.Load(); refused != nil {
		s.cancel()
		return refused
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.trip.explain(s.ctx, err)
	}
	return err
}
