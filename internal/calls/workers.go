package calls

import "sync"

// Workers run functions on their own goroutines and reuse those. The calls of an SDK
// client are deep: the stack of a new goroutine would have to grow, and be copied,
// several times for each call. The zero value is ready for use.
type Workers struct {
	mu     sync.Mutex
	idle   []chan func() // the last one to become idle works first: its stack is warm
	closed bool
	all    sync.WaitGroup
}

// maxIdle is the maximum number of goroutines that wait for work.
const maxIdle = 64

// Run starts f.
func (p *Workers) Run(f func()) {
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

func (p *Workers) work(w chan func()) {
	for f := range w {
		f()
		if !p.rest(w) {
			return
		}
	}
}

// rest makes a worker wait for work. It returns false if the worker must end.
func (p *Workers) rest(w chan func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}

// Close ends the workers and waits for them. The caller ensures that nothing runs and
// that nothing more is started.
func (p *Workers) Close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.idle {
		close(w)
	}
	p.idle = nil
	p.mu.Unlock()
	p.all.Wait()
}
