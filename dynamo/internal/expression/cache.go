package expression

import (
	"maps"
	"sync"
	"sync/atomic"
)

// A Cache has the shapes of writes by key. Reading takes no lock: a new shape replaces
// the whole map, and after a while no new shapes appear. The zero Cache is empty; a nil
// Cache keeps nothing.
type Cache struct {
	byKey atomic.Pointer[map[string]*Shape]
	mu    sync.Mutex
}

// maxShapes bounds the cache. A full cache is emptied: more combinations of limits
// occur only if users invent limit names.
const maxShapes = 4096

// get returns the shape of a key, and compiles it if the cache has none.
func (c *Cache) get(key []byte) (*Shape, error) {
	if c == nil {
		return compile(string(key))
	}
	if m := c.byKey.Load(); m != nil {
		if sh, ok := (*m)[string(key)]; ok {
			return sh, nil
		}
	}
	kept := string(key) // the caller's key is on its stack
	sh, err := compile(kept)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]*Shape)
	if m := c.byKey.Load(); m != nil && len(*m) < maxShapes {
		maps.Copy(next, *m)
	}
	next[kept] = sh
	c.byKey.Store(&next)
	return sh, nil
}
