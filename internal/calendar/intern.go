package calendar

import (
	"runtime"
	"sync"
	"weak"
)

// A key says all about a specification.
type key struct{ code, zone string }

// An interner has at most one value of each key, as long as somebody uses it.
type interner[T any] struct {
	mu     sync.RWMutex
	values map[key]weak.Pointer[T]
}

var (
	renewals  interner[Renewal]
	schedules interner[Schedule]
)

// find returns the value of a key, or nil.
func (i *interner[T]) find(k key) *T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.values[k].Value()
}

// intern returns the value of a key: v, unless there is one already.
func (i *interner[T]) intern(k key, v *T) *T {
	i.mu.Lock()
	defer i.mu.Unlock()
	if there := i.values[k].Value(); there != nil {
		return there
	}
	if i.values == nil {
		i.values = map[key]weak.Pointer[T]{}
	}
	i.values[k] = weak.Make(v)
	runtime.AddCleanup(v, i.forget, k)
	return v
}

// forget deletes a key whose value nobody uses anymore. Meanwhile the key may have another value, which stays.
func (i *interner[T]) forget(k key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.values[k].Value() == nil {
		delete(i.values, k)
	}
}
