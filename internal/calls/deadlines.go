package calls

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Deadlines bound calls in time, without a timer for each call. Calls that begin within
// the same eighth of the time end together, when the time of the first call is up. So a
// call gets at least seven eighths of the time.
type Deadlines struct {
	time time.Duration

	base   context.Context //nolint:containedctx // it belongs to no call, and ends all of them
	cancel context.CancelCauseFunc

	shared atomic.Pointer[span] // nil if the next call begins one
	mu     sync.Mutex           // held to begin a span
	next   *time.Timer          // ends the sharing of the last span
}

// A span is the common end of several calls.
type span struct {
	ctx    context.Context //nolint:containedctx // it belongs to no call; several share its end
	cancel context.CancelFunc
}

const parts = 8

// NewDeadlines returns deadlines that give calls the time d.
func NewDeadlines(d time.Duration) *Deadlines {
	p := &Deadlines{time: d}
	p.base, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// Time is the most time that a call gets.
func (p *Deadlines) Time() time.Duration { return p.time }

// Part is an eighth of the time, by which a call may end early. It suits waits that
// must be short compared with the time.
func (p *Deadlines) Part() time.Duration { return p.time / parts }

// Detach returns a context with the values of a call, and with a deadline of its own
// instead of the call's end.
func (p *Deadlines) Detach(ctx context.Context) context.Context {
	d := p.Bound(ctx)
	return &d
}

// Bound is Detach for a caller that has room for the context.
func (p *Deadlines) Bound(ctx context.Context) Detached { return Detached{p.span(), ctx} }

// span returns the context that ends with the calls that begin now.
func (p *Deadlines) span() context.Context {
	s := p.shared.Load()
	if s == nil {
		s = p.begin()
	}
	return s.ctx
}

func (p *Deadlines) begin() *span {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shared.Load(); s != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(p.base, p.time)
	s := &span{ctx, cancel}
	p.shared.Store(s)
	p.next = time.AfterFunc(p.Part(), func() { p.shared.CompareAndSwap(s, nil) })
	return s
}

// End ends all calls, and those that begin from now on. why is the cause.
func (p *Deadlines) End(why error) {
	p.cancel(why)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		p.next.Stop()
	}
	if s := p.shared.Load(); s != nil {
		s.cancel()
	}
}

// Detached is a context that ends with one context and has the values of another.
type Detached struct {
	context.Context //nolint:containedctx // it is a context itself

	values context.Context //nolint:containedctx // it is a context itself
}

// Value first asks the context that ends. By its answer, package context recognizes a
// context of its own, so that children need no goroutine to learn of its end.
func (d *Detached) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}
