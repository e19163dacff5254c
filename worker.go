package limiter

import (
	"context"
	"sync"
	"time"
)

// workers run functions on goroutines of their own, which are used again. What
// an SDK client does is deep: a new goroutine's stack would have to grow, and be
// copied, several times for each call. The zero value is ready for use.
type workers struct {
	mu     sync.Mutex
	idle   []chan func() // the last one to rest works first: its stack is warm
	closed bool
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
		go p.work(w)
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

// close ends the workers that wait, and the others once they have finished.
func (p *workers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w)
	}
	p.idle = nil
}

// A patience bounds calls in time, without a timer for each of them: calls that
// begin within the same eighth of the time end together, up to that much late.
type patience struct {
	time time.Duration

	mu     sync.Mutex
	shared context.Context //nolint:containedctx // it belongs to no call; those that begin now share its end
}

const patienceParts = 8

// detach is a context with the values of a call and the end that patience has,
// instead of the call's own.
func (p *patience) detach(ctx context.Context) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		part := p.time / patienceParts
		shared, cancel := context.WithTimeout(context.Background(), p.time+part)
		context.AfterFunc(shared, cancel)
		time.AfterFunc(part, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.shared = nil
		})
		p.shared = shared
	}
	return &detached{p.shared, ctx}
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
