package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// workers run functions on goroutines of their own, which are used again. What
// an SDK client does is deep: a new goroutine's stack would have to grow, and be
// copied, several times for each call. The zero value is ready for use.
type workers struct {
	mu     sync.Mutex
	idle   []chan func() // the last one to rest works first: its stack is warm
	closed bool
	all    sync.WaitGroup
}

// maxIdle bounds the goroutines that wait for work.
const maxIdle = 64

// run starts f.
func (p *workers) run(f func()) {
	var w chan func()
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		w, p.idle = p.idle[last], p.idle[:last]
	}
	p.mu.Unlock()
	if w == nil {
		w = make(chan func(), 1)
		p.all.Go(func() { p.work(w) })
	}
	w <- f
}

func (p *workers) work(w chan func()) {
	for f := range w {
		f()
		if !p.rest(w) {
			return
		}
	}
}

// rest makes a worker wait for work; false tells it to end.
func (p *workers) rest(w chan func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}

// close ends the workers and waits for them. By then nothing is running, and nothing
// will be run.
func (p *workers) close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.idle {
		close(w)
	}
	p.idle = nil
	p.mu.Unlock()
	p.all.Wait()
}

// A tally counts the calls under way and the work that they have left behind, so
// that closing can wait for all of it.
type tally struct {
	n     atomic.Int64  // less closedTally, once it is closed
	empty chan struct{} // made by who makes the tally; closed when it is closed and nothing is under way
	once  sync.Once
}

const closedTally = 1 << 62

// begin counts a call, unless the tally is closed.
func (t *tally) begin() bool {
	if t.n.Add(1) > 0 {
		return true
	}
	t.end()
	return false
}

// more counts work for a call that is counted: that may begin when the tally is
// closed.
func (t *tally) more() { t.n.Add(1) }

func (t *tally) end() {
	if t.n.Add(-1) == -closedTally {
		t.once.Do(func() { close(t.empty) })
	}
}

func (t *tally) isClosed() bool { return t.n.Load() < 0 }

// close closes the tally. It is called once.
func (t *tally) close() {
	t.n.Add(1 - closedTally)
	t.end()
}

// A patience bounds calls in time, without a timer for each of them: calls that
// begin within the same eighth of the time end together, when the first of them has
// had all of it. So a call gets seven eighths of the time at least.
type patience struct {
	time time.Duration

	base   context.Context //nolint:containedctx // it belongs to no call, and ends all of them
	cancel context.CancelCauseFunc

	shared atomic.Pointer[span] // nil if the next call begins one
	mu     sync.Mutex           // held to begin a span
	next   *time.Timer          // ends the sharing of the last span
}

// A span is the time of the calls that end together.
type span struct {
	ctx    context.Context //nolint:containedctx // it belongs to no call; several share its end
	cancel context.CancelFunc
}

const patienceParts = 8

func (p *patience) init(d time.Duration) {
	p.time = d
	p.base, p.cancel = context.WithCancelCause(context.Background())
}

// detach is a context with the values of a call and the end that patience has,
// instead of the call's own.
func (p *patience) detach(ctx context.Context) context.Context {
	return &detached{p.span(), ctx}
}

// span is what ends with the calls that begin now.
func (p *patience) span() context.Context {
	s := p.shared.Load()
	if s == nil {
		s = p.begin()
	}
	return s.ctx
}

func (p *patience) begin() *span {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shared.Load(); s != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(p.base, p.time)
	s := &span{ctx, cancel}
	p.shared.Store(s)
	p.next = time.AfterFunc(p.time/patienceParts, func() { p.shared.CompareAndSwap(s, nil) })
	return s
}

// end ends all calls, and those that begin from now on, for a reason.
func (p *patience) end(why error) {
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

// detached is a context that ends with one context and has the values of
// another.
type detached struct {
	context.Context //nolint:containedctx // it is a context itself

	values context.Context //nolint:containedctx // it is a context itself
}

// Value asks the context that ends first: by its answer, package context knows it
// for one of its own, and children need no goroutine to be told of its end.
func (d *detached) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}
