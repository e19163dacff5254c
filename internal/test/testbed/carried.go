package testbed

import (
	"context"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Carrier lets callers carry the bucket writes of a store themselves, as a store on a client
// of package fastclient does: see [calls.Leavable].
type Carrier struct {
	// Odd says now and then that a write takes another way than usual; nil: never.
	Odd func() CarriedWay
}

// A CarriedWay is what a [Carrier] does with a write.
type CarriedWay int

// The ways of a write.
const (
	CarriedHere  CarriedWay = iota // the caller waits for the answer
	CarriedApart                   // the caller cannot leave, so nothing is sent
	CarriedLater                   // another goroutine waits for the answer
)

// Leavable reports that callers can leave.
func (c *Carrier) Leavable() bool { return true }

// Carry sends a write.
func (c *Carrier) Carry(ctx context.Context, send func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	l := calls.LeavableOf(ctx)
	if l == nil {
		return send(ctx)
	}
	if under, ok := l.Rest().(*underWay); ok {
		return under.wait(ctx, l)
	}
	under := &underWay{answers: make(chan carriedAnswer, 1)}
	if c.Odd != nil {
		under.way = c.Odd()
	}
	switch {
	case !calls.MustLeave(ctx):
		return send(alone{l}) //nolint:contextcheck // the same without the Leavable
	case under.way == CarriedApart:
		return store.Outcome{}, calls.ErrApart
	}
	go func() { //nolint:contextcheck // the same without the Leavable
		out, err := send(alone{l})
		under.answers <- carriedAnswer{out, err}
	}()
	return under.wait(ctx, l)
}

// alone is the context of a request whose caller need not be able to leave.
type alone struct{ *calls.Leavable }

// Value hides the Leavable.
func (a alone) Value(key any) any { return a.Detached.Value(key) }

// An underWay is a write that was sent.
type underWay struct {
	way     CarriedWay
	answers chan carriedAnswer // receives one
}

type carriedAnswer struct {
	out store.Outcome
	err error
}

// wait waits for the answer, until the caller leaves.
func (u *underWay) wait(ctx context.Context, l *calls.Leavable) (store.Outcome, error) {
	switch {
	case !calls.MustLeave(ctx):
		a := <-u.answers
		return a.out, a.err
	case !calls.Begins(ctx) && u.way == CarriedHere:
		left := make(chan struct{})
		stop := l.OnLeave(func() { close(left) })
		defer stop()
		select {
		case a := <-u.answers:
			return a.out, a.err
		case <-left:
		case <-l.Done():
		}
	}
	l.Keep(u)
	return store.Outcome{}, calls.ErrGoesOn
}

// A CarriedStore is a store whose bucket writes callers may carry themselves.
type CarriedStore struct {
	*dynamo.Store
	Carrier
}

// NewCarriedStore returns a store of which each seventh write takes an odd way.
func NewCarriedStore(s *dynamo.Store) *CarriedStore {
	var writes atomic.Int64
	return &CarriedStore{s, Carrier{func() CarriedWay {
		const each = 7
		n := writes.Add(1)
		if n%each > 0 {
			return CarriedHere
		}
		return CarriedApart + CarriedWay(n/each%2)
	}}}
}

// Leavable reports that callers can leave.
func (s *CarriedStore) Leavable() bool { return true }

// Take carries a take.
func (s *CarriedStore) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	return s.Carry(ctx, func(ctx context.Context) (store.Outcome, error) { return s.Store.Take(ctx, t) })
}

// Refill carries a refill.
func (s *CarriedStore) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	return s.Carry(ctx, func(ctx context.Context) (store.Outcome, error) { return s.Store.Refill(ctx, r) })
}
