package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// A Server limits the calls that a gRPC server gets. Its methods are interceptors:
//
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary),
//		grpc.ChainStreamInterceptor(limit.Stream),
//	)
//
// A Server is safe for concurrent use. It starts no goroutines.
type Server struct {
	costs costs
	o     Options
}

var (
	_ grpc.UnaryServerInterceptor  = (*Server)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Server)(nil).Stream
)

// NewServer makes a server's interceptors. It fails with a [*limiter.ValidationError] if an
// option is invalid.
func NewServer(limits Acquirer, o Options) (*Server, error) {
	if o.Entity == nil {
		o.Entity = PeerAddr()
	}
	if o.Resource == nil {
		o.Resource = Method()
	}
	ask, err := admission.NewAsker(admission.Asker[*Call]{
		Limits: limits, Entity: o.Entity, Resource: o.Resource, Cost: o.Cost,
		Base: limiter.Request{
			Consume: o.Consume, Fallback: o.Fallback, Slots: o.Slots, SlotFallback: o.SlotFallback, ClampPercent: o.ClampPercent, OnUnavailable: o.OnUnavailable,
		},
		RetryUnavailable: cmp.Or(o.RetryUnavailable, DefaultRetryUnavailable),
	}, DefaultLimit, o.Logger)
	if err != nil {
		return nil, err
	}
	return &Server{costs{ask, o.Settle, o.Received, o.Sent, o.Unenforced || o.Shadow}, o}, nil
}

// Unary is a [grpc.UnaryServerInterceptor].
func (s *Server) Unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	v := &served{of: Call{Method: info.FullMethod, Message: message}}
	limited, _, err := s.begin(ctx, v)
	if err != nil {
		return nil, err
	}
	if !limited {
		return handler(ctx, message)
	}
	c := &v.charge
	returned := false
	defer func() {
		if !returned { // nothing was sent
			c.giveBack(ctx)
		}
	}()
	work, cancel := s.work(ctx, v)
	defer cancel()
	answer, err = handler(admission.With(work, &v.admission), message)
	returned = true
	if err != nil && admission.SlotsLost(work) {
		answer, err = nil, lost(err)
	}
	if err == nil {
		c.settle(ctx, answer, nil)
	} else {
		c.settle(ctx, nil, err)
	}
	return answer, err
}

// Stream is a [grpc.StreamServerInterceptor].
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx := stream.Context()
	v := &served{of: Call{Method: info.FullMethod, Unregistered: srv == nil}}
	isLimited, entity, err := s.begin(ctx, v)
	if err != nil {
		return err
	}
	if !isLimited {
		return handler(srv, stream)
	}
	c := &v.charge
	work, cancel := s.work(ctx, v)
	defer cancel()
	limited := &serverStream{ServerStream: stream, ctx: admission.With(work, &v.admission), charge: c}
	returned := false
	defer func() {
		switch {
		case returned:
			c.settle(ctx, nil, err)
		case limited.begun.Load():
			c.settle(ctx, nil, errPanic)
		default:
			c.giveBack(ctx)
		}
	}()
	err = handler(srv, limited)
	returned = true
	if refused := c.refused.Load(); refused != nil {
		setTrailer(ctx, refused, entity)
		err = refused // whatever the handler made of it
	} else if err != nil && admission.SlotsLost(work) {
		err = lost(err)
	}
	return err
}

// work is the context of a call that is admitted. It ends if the call loses its slots. The caller
// must call cancel.
func (s *Server) work(ctx context.Context, v *served) (_ context.Context, cancel context.CancelFunc) {
	if len(s.o.Slots) == 0 || s.o.Shadow {
		return ctx, func() {}
	}
	return v.lease.Context(ctx)
}

// A served is a call of a client, and what it has taken: one allocation for all.
type served struct {
	of Call
	charge
	admission admission.Admission
}

// begin decides about a call. It reports whether the call is limited, and has a lease.
func (s *Server) begin(ctx context.Context, v *served) (limited bool, entity string, err error) {
	call := &v.of
	v.costs, v.call, v.outer = &s.costs, call, admission.From(ctx)
	if s.o.Skip != nil && s.o.Skip(ctx, call) {
		return false, "", nil
	}
	req, err := s.costs.Request(ctx, call)
	if err == nil {
		v.lease, err = s.costs.Limits.Acquire(ctx, req)
	}
	if s.o.Observe != nil {
		s.observe(ctx, v, &Decision{Request: req, Err: err, Degraded: err == nil && v.lease.Degraded(), Shadow: s.o.Shadow})
	}
	switch {
	case err != nil && s.o.Shadow:
		return false, "", nil
	case err != nil:
		refused := v.errorOf(ctx, err)
		setTrailer(ctx, refused, req.Entity)
		return false, "", refused
	case !s.o.Shadow:
		setHeader(ctx, v.lease, req.Entity)
		v.admission.Entity = req.Entity
	}
	v.admission.Lease, v.admission.Outer = v.lease, v.outer
	return true, req.Entity, nil
}

// observe tells of a decision. If the observer panics, the call is not served, and takes
// nothing.
func (s *Server) observe(ctx context.Context, v *served, d *Decision) {
	returned := false
	defer func() {
		if !returned && d.Err == nil {
			v.giveBack(ctx)
		}
	}()
	s.o.Observe(ctx, v.call, d)
	returned = true
}

// LeaseFrom returns the lease of the call whose context a handler has. There is none if the
// call was skipped, or if a shadow let a refused call through.
//
// The lease may be committed or rolled back early. Otherwise this is done when the handler
// returns.
func LeaseFrom(ctx context.Context) (lease *limiter.Lease, ok bool) {
	return httplimit.LeaseFrom(ctx)
}

// Settle sets what the call of a context really used of a limit, in place of what was taken for
// it. It does nothing if the call has no lease, see [LeaseFrom]. The call must have named the
// limit. Errors are those of [limiter.Lease.Settle].
func Settle(ctx context.Context, limit string, used int64) error {
	return httplimit.Settle(ctx, limit, used)
}

// errPanic is how a stream ended whose handler panicked.
var errPanic = errors.New("the handler panicked")

// A serverStream charges messages.
type serverStream struct {
	grpc.ServerStream
	ctx    context.Context //nolint:containedctx // gRPC hands the context of a stream out through a method
	charge *charge
	begun  atomic.Bool // the client may have got something
}

// Context returns the context with the lease.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg takes what a message costs before the handler gets it.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.charge.take(s.ctx, s.charge.costs.received, m)
}

// SendMsg takes what a message costs before it leaves.
func (s *serverStream) SendMsg(m any) error {
	if err := s.charge.take(s.ctx, s.charge.costs.sent, m); err != nil {
		return err
	}
	s.begun.Store(true)
	return s.ServerStream.SendMsg(m)
}

// SendHeader notes that the answer begins.
func (s *serverStream) SendHeader(md metadata.MD) error {
	s.begun.Store(true)
	return s.ServerStream.SendHeader(md)
}
