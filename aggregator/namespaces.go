package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go"
)

// forgetMissing is for how long a namespace that was found missing is taken for
// that.
const forgetMissing = time.Minute

// namespaces are those that were opened, or found missing, and not forgotten.
type namespaces struct {
	open Opener
	// opening is held by who opens one: a channel, so that a batch whose context
	// ends does not wait for another's opener.
	opening chan struct{}

	mu      sync.Mutex
	lru     *simplelru.LRU[string, *namespace]
	dropped []*namespace // forgotten in this call, and not in use
}

// namespace is one of them. What is not immutable is guarded by the lock of all.
type namespace struct {
	Namespace

	missing   bool
	missingAt time.Time
	users     int  // batches that work on it
	forgotten bool // to be closed when the last of them has ended
}

func newNamespaces(open Opener, size int) *namespaces {
	n := &namespaces{open: open, opening: make(chan struct{}, 1)}
	lru, err := simplelru.NewLRU(size, func(_ string, ns *namespace) {
		ns.forgotten = true
		if ns.users == 0 {
			n.dropped = append(n.dropped, ns)
		}
	})
	if err != nil {
		panic("aggregator: " + err.Error()) // it only refuses a size that is not positive
	}
	n.lru = lru
	return n
}

// get is a namespace that is open, or is opened now. It is in use until it is
// released.
func (n *namespaces) get(ctx context.Context, id string, now time.Time) (*namespace, error) {
	if ns := n.known(id, now); ns != nil {
		return ns, nil
	}
	select {
	case n.opening <- struct{}{}:
		defer func() { <-n.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("open namespace %s: %w", id, ctx.Err())
	}
	if ns := n.known(id, now); ns != nil {
		return ns, nil // opened by another batch meanwhile
	}
	opened, err := n.open(ctx, id)
	ns := &namespace{Namespace: opened, users: 1}
	switch {
	case errors.Is(err, limiter.ErrNotFound):
		ns.missing, ns.missingAt = true, now
	case err != nil:
		return nil, fmt.Errorf("open namespace %s: %w", id, err)
	}
	n.mu.Lock()
	defer n.unlock()
	n.lru.Add(id, ns)
	return ns, nil
}

// known is a namespace that is remembered, and then in use; nil if there is none.
func (n *namespaces) known(id string, now time.Time) *namespace {
	n.mu.Lock()
	defer n.unlock()
	ns, ok := n.lru.Get(id)
	if !ok || ns.missing && now.Sub(ns.missingAt) >= forgetMissing {
		return nil
	}
	ns.users++
	return ns
}

// release says that namespaces are not in use any more.
func (n *namespaces) release(used ...*namespace) {
	n.mu.Lock()
	defer n.unlock()
	for _, ns := range used {
		if ns.users--; ns.users == 0 && ns.forgotten {
			n.dropped = append(n.dropped, ns)
		}
	}
}

// unlock closes what was dropped under the lock, after it.
func (n *namespaces) unlock() {
	dropped := n.dropped
	n.dropped = nil
	n.mu.Unlock()
	for _, ns := range dropped {
		if ns.Close != nil {
			ns.Close()
		}
	}
}
