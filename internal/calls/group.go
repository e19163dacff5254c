package calls

import (
	"context"
	"sync"
)

// A Group lets callers that want the same value at the same time share the work that
// finds it. The zero value is ready for use.
type Group[K comparable, V any] struct {
	mu     sync.Mutex
	shared map[K]*shared[V]
}

// shared is work under way, and then its result.
type shared[V any] struct {
	done  chan struct{}
	value V
}

// Do returns what work finds. If another caller has begun work for the same key, Do
// waits for that result instead, and fails with the cause when ctx ends first.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func() V) (V, error) {
	g.mu.Lock()
	if s, ok := g.shared[key]; ok {
		g.mu.Unlock()
		select {
		case <-s.done:
			return s.value, nil
		case <-ctx.Done():
			return *new(V), context.Cause(ctx)
		}
	}
	s := &shared[V]{done: make(chan struct{})}
	if g.shared == nil {
		g.shared = make(map[K]*shared[V])
	}
	g.shared[key] = s
	g.mu.Unlock()
	s.value = work()
	g.mu.Lock()
	delete(g.shared, key)
	g.mu.Unlock()
	close(s.done)
	return s.value, nil
}
