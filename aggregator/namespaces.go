package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// forgetMissing is how long the aggregator takes a missing namespace for missing.
const forgetMissing = time.Minute

// namespaces are the namespaces that were opened or found missing, until they are
// forgotten.
type namespaces struct {
	open   Opener
	keeper process.Options // of the keepers
	// opening is held while a batch opens a namespace. It is a channel, so that a batch
	// whose context ends does not wait for another batch's opener.
	opening chan struct{}

	mu      sync.Mutex
	lru     *simplelru.LRU[string, *namespace]
	dropped []*namespace // forgotten in this call, and not in use
}

// namespace is one of them. The lock of all guards its mutable fields.
type namespace struct {
	Namespace

	keeper    *upkeep.Keeper // of the store's buckets; nil leaves them alone
	missing   bool
	missingAt time.Time
	users     int          // batches that use it
	told      upkeep.Stats // of its keeper, as far as results of batches have them
	forgotten bool         // to be closed when its last user ends
}

func newNamespaces(open Opener, o Options) *namespaces {
	n := &namespaces{
		open: open, opening: make(chan struct{}, 1),
		keeper: process.Options{Memory: o.Memory, TTLMultiplier: o.TTLMultiplier, Logger: o.Logger, Rand: o.Rand},
	}
	lru, err := simplelru.NewLRU(o.Namespaces, func(_ string, ns *namespace) {
		ns.forgotten = true
		if ns.users == 0 {
			n.dropped = append(n.dropped, ns)
		}
	})
	if err != nil {
		panic("aggregator: " + err.Error()) // only for a size that is not positive
	}
	n.lru = lru
	return n
}

// get returns an open namespace, and opens it if necessary. The caller uses it until it
// calls release.
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
		return ns, nil // another batch has opened it meanwhile
	}
	ns := &namespace{users: 1}
	var err error
	if ns.Namespace, err = n.open(ctx, id); err == nil && ns.Store != nil {
		ns.keeper, err = upkeep.NewKeeper(ns.Store, n.keeper)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		ns.missing, ns.missingAt = true, now
	case err != nil:
		return nil, fmt.Errorf("open namespace %s: %w", id, err)
	}
	n.mu.Lock()
	defer n.unlock()
	n.lru.Add(id, ns)
	return ns, nil
}

// known returns a remembered namespace and marks it as in use; nil if there is none.
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

// end ends the use of namespaces. It returns how many items their keepers have healed, and
// how many refills they have not sent, since the last call for each.
func (n *namespaces) end(used map[string]opened) (healed, braked int) {
	n.mu.Lock()
	defer n.unlock()
	for _, ns := range used {
		if ns.err != nil {
			continue
		}
		if ns.keeper != nil {
			now := ns.keeper.Stats()
			healed += int(now.Healed - ns.told.Healed) //nolint:gosec // no batch does that many
			braked += int(now.Braked - ns.told.Braked) //nolint:gosec // as above
			ns.told = now
		}
		n.releaseLocked(ns.namespace)
	}
	return healed, braked
}

// release ends the use of a namespace.
func (n *namespaces) release(ns *namespace) {
	n.mu.Lock()
	defer n.unlock()
	n.releaseLocked(ns)
}

func (n *namespaces) releaseLocked(ns *namespace) {
	if ns.users--; ns.users == 0 && ns.forgotten {
		n.dropped = append(n.dropped, ns)
	}
}

// unlock releases the lock, and then closes what was dropped under it.
func (n *namespaces) unlock() {
	dropped := n.dropped
	n.dropped = nil
	n.mu.Unlock()
	for _, ns := range dropped {
		if ns.keeper != nil {
			_ = ns.keeper.Close() // it waits, and then cuts off what goes on
		}
		if ns.Close != nil {
			ns.Close()
		}
	}
}

// close forgets all namespaces.
func (n *namespaces) close() {
	n.mu.Lock()
	defer n.unlock()
	n.lru.Purge()
}
