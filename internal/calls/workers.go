package calls

import (
	"slices"
	"sync"
	"time"
)

// Workers run functions on their own goroutines and reuse those. The calls of an SDK
// client are deep: the stack of a new goroutine would have to grow, and be copied,
// several times for each call. The zero value is ready for use.
//
// Workers that had no work for idleTime end. One timer serves all of them, and only while
// one is idle.
type Workers struct {
	mu     sync.Mutex
	idle   []chan func() // the last one to become idle works first: its stack is warm
	closed bool
	all    sync.WaitGroup
	// unused is how many of idle, from the first on, have had no work since the timer was
	// set. It is at most the length of idle.
	unused int
	timer  *time.Timer // ends unused workers; nil if none is idle
}

const (
	// maxIdle is the maximum number of goroutines that wait for work.
	maxIdle = 64
	// idleTime is how long a goroutine waits for work at least. It waits for at most twice
	// that time.
	idleTime = 5 * time.Second
)

// Run starts f.
func (p *Workers) Run(f func()) {
	var w chan func()
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		w, p.idle = p.idle[last], p.idle[:last]
		p.unused = min(p.unused, last)
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
	if p.timer == nil {
		p.timer = time.AfterFunc(idleTime, p.endUnused)
	}
	return true
}

// endUnused ends the workers that have had no work since the timer was set, and sets it again
// if others are idle.
func (p *Workers) endUnused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for _, w := range p.idle[:p.unused] {
		close(w)
	}
	p.idle = slices.Delete(p.idle, 0, p.unused)
	if p.unused = len(p.idle); p.unused > 0 {
		p.timer.Reset(idleTime)
	} else {
		p.timer = nil
	}
}

// Close ends the workers and waits for them. The caller ensures that nothing runs and
// that nothing more is started.
func (p *Workers) Close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, w := range p.idle {
		close(w)
	}
	p.idle = nil
	p.mu.Unlock()
	p.all.Wait()
}
