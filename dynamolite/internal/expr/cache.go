package expr

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// maxCached limits the texts kept of one kind. A program has a few dozen expressions. If a
// program generates ever new ones, the cache starts over at the limit.
const maxCached = 512

// A cache keeps syntax trees by text. Reading takes no lock: a new tree makes a new map, which is
// rare once the cache knows a program's expressions. Texts that do not parse are not kept.
type cache[T any] struct {
	trees atomic.Pointer[map[string]*T]
	mu    sync.Mutex // held to replace trees
}

func (c *cache[T]) get(s string, parse func(string) (*T, *Error)) (*T, *Error) {
	if trees := c.trees.Load(); trees != nil {
		if t, ok := (*trees)[s]; ok {
			return t, nil
		}
	}
	return c.add(s, parse)
}

func (c *cache[T]) add(s string, parse func(string) (*T, *Error)) (*T, *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var grown map[string]*T
	if trees := c.trees.Load(); trees != nil {
		if t, ok := (*trees)[s]; ok {
			return t, nil
		}
		if len(*trees) < maxCached {
			grown = maps.Clone(*trees)
		}
	}
	// The tree keeps parts of its text alive, and the text may be part of a whole request body.
	s = strings.Clone(s)
	t, err := parse(s)
	if err != nil {
		return nil, err
	}
	if grown == nil {
		grown = make(map[string]*T)
	}
	grown[s] = t
	c.trees.Store(&grown)
	return t, nil
}
