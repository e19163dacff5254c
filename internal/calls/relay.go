package calls

import (
	"context"
	"sync"
)

// A Relay lets callers share work whose result must be no older than their calls. For each key, one
// run of the work is under way at a time. Callers that come meanwhile share the next run, which begins when
// that one has ended, so after each of them has called. The zero value is ready for use.
//
//	A   ├── run 1 ──┤
//	B      waits    ├── run 2 ──┤
//	C        waits  . . . . . . ┤      shares run 2
//	D                  waits    ├── run 3 ──┤
//
// A caller waits for one other run at most. A [Group] would give C the result of run 1, which may have read
// what was changed before C called.
type Relay[K comparable, V any] struct {
	mu    sync.Mutex
	lines map[K]*line[V]
}

// A line has the run of a key that is under way, and the one after it, nil if nobody waits.
type line[V any] struct{ now, next *run[V] }

// A run is work of one caller, its leader, and then its result.
type run[V any] struct {
	done  chan struct{}
	value V
	// left says that the leader's context has ended. Then the result is not for the others.
	left bool
}

// Do returns the result of work that began after the call. The work is the caller's if no other caller's
// can serve. Otherwise Do calls meanwhile, and waits for that work. It fails with the cause when ctx ends first.
func (r *Relay[K, V]) Do(ctx context.Context, key K, work func() V, meanwhile func()) (V, error) {
	for {
		mine, l, leads := r.join(key)
		if leads {
			return r.lead(ctx, key, l, mine, work)
		}
		meanwhile()
		select {
		case <-mine.done:
		case <-ctx.Done():
			return *new(V), context.Cause(ctx)
		}
		if !mine.left {
			return mine.value, nil
		}
	}
}

// join returns the run that serves a caller, and whether the caller leads it.
func (r *Relay[K, V]) join(key K) (_ *run[V], _ *line[V], leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines == nil {
		r.lines = map[K]*line[V]{}
	}
	l := r.lines[key]
	switch {
	case l == nil:
		l = &line[V]{now: &run[V]{done: make(chan struct{})}}
		r.lines[key] = l
		return l.now, l, true
	case l.next == nil:
		l.next = &run[V]{done: make(chan struct{})}
		return l.next, l, true
	}
	return l.next, l, false
}

// lead waits until the run of a caller is the one under way, and does its work.
func (r *Relay[K, V]) lead(ctx context.Context, key K, l *line[V], mine *run[V], work func() V) (value V, _ error) {
	r.mu.Lock()
	before := l.now
	r.mu.Unlock()
	if before != mine {
		select {
		case <-before.done:
		case <-ctx.Done():
			if r.leave(l, mine) {
				return *new(V), context.Cause(ctx)
			}
		}
	}
	left := true // also if the work panics
	defer func() { r.end(key, l, mine, value, left) }()
	value = work()
	left = ctx.Err() != nil
	return value, nil
}

// end ends the run that is under way.
func (r *Relay[K, V]) end(key K, l *line[V], mine *run[V], value V, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine.value, mine.left = value, left
	close(mine.done)
	if l.now, l.next = l.next, nil; l.now == nil {
		delete(r.lines, key)
	}
}

// leave gives up a run that is not under way yet; false if it is.
func (r *Relay[K, V]) leave(l *line[V], mine *run[V]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.next != mine {
		return false
	}
	l.next, mine.left = nil, true
	close(mine.done)
	return true
}
