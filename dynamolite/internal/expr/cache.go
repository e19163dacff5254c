package expr

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// maxCached limits the texts kept of one kind. A program has a few dozen expressions. If a program
// generates ever new ones, the cache starts over at the limit. Starting over needs no bookkeeping
// on a hit. A list in the order of use would make every hit a write to memory that all requests
// share.
const maxCached = 512

// A cache keeps syntax trees by text. Reading takes no lock: a new tree makes a new map, which is
// rare once the cache knows a program's expressions. Texts that do not parse are not kept: a client
// that sends faulty texts could otherwise push out those in use.
//
// The naive design is a map behind a read-write lock. Its readers then write to the lock's counter,
// and the counter moves between the processors at every expression of every request. A sync.Map has
// no such counter, but does not tell how many entries it has, so the bound would need a count
// beside it.
type cache[T any] struct {
	// trees is the map in force; nil before the first tree. A map that it has once held is never
	// changed, because readers use it without a lock.
	trees atomic.Pointer[map[string]*T]
	mu    sync.Mutex // held to replace trees
}

// get returns the tree of s. parse must be a function of the text alone: requests share its result.
func (c *cache[T]) get(s string, parse func(string) (*T, *Error)) (*T, *Error) {
	if trees := c.trees.Load(); trees != nil {
		if t, ok := (*trees)[s]; ok {
			return t, nil
		}
	}
	return c.add(s, parse)
}

// add parses a text that get has not found. It looks again under the lock, because two requests may
// have missed the same text:
//
//	A: get misses ── lock ─ parse ─ store ─ unlock
//	B: get misses ───────── waits for the lock ────── finds A's tree
//
// Without the second look, B would parse again, and would replace the map for a tree that it has.
// Parsing under the lock delays only other new texts.
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
