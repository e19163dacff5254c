// Package hold remembers the pauses for which servers have asked, and makes calls wait for
// their end. Clients of every protocol share it.
package hold

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// most is how many pauses are remembered. The least recently used one is forgotten first:
// its next call is then sent, and learns the pause again.
const most = 10_000

// A Key names the calls that a pause holds.
type Key struct{ Target, Entity, Resource string }

// Holds are the pauses for which servers have asked. They are safe for concurrent use.
type Holds struct {
	longest time.Duration
	now     func() time.Time

	mu  sync.Mutex // never held during a wait
	end *simplelru.LRU[Key, time.Time]
}

// New remembers pauses of at most longest, and none if longest is negative. now is the clock.
func New(longest time.Duration, now func() time.Time) *Holds {
	end, err := simplelru.NewLRU[Key, time.Time](most, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Holds{longest: longest, now: now, end: end}
}

// Learn remembers a pause that begins now. It never shortens a pause: answers arrive in any
// order.
func (h *Holds) Learn(at Key, pause time.Duration) {
	pause = min(pause, h.longest)
	if pause <= 0 {
		return
	}
	end := h.now().Add(pause)
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, ok := h.end.Get(at); !ok || was.Before(end) {
		h.end.Add(at, end)
	}
}

// Pass returns 0 when nothing holds a call. If the call does not wait, or would wait beyond
// its context's deadline, Pass returns the rest of the pause at once. Its only error is the
// context's, if the context ends during the wait.
func (h *Holds) Pass(ctx context.Context, at Key, waits bool) (rest time.Duration, err error) {
	for {
		now := h.now()
		if rest = h.rest(at, now); rest == 0 {
			return 0, nil
		}
		if deadline, bounded := ctx.Deadline(); !waits || bounded && deadline.Before(now.Add(rest)) {
			return rest, nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return rest, ctx.Err()
		}
	}
}

// Around passes, takes what a call needs, and passes again: taking has its time, and the server may
// have answered others since. It returns at the first rest of a pause or error.
func (h *Holds) Around(ctx context.Context, at Key, waits bool, take func() error) (rest time.Duration, err error) {
	if rest, err = h.Pass(ctx, at, waits); err != nil || rest > 0 {
		return rest, err
	}
	if err = take(); err != nil {
		return 0, err
	}
	return h.Pass(ctx, at, waits)
}

// rest is the rest of a pause, 0 if there is none.
func (h *Holds) rest(at Key, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	end, ok := h.end.Get(at)
	if !ok {
		return 0
	}
	rest := end.Sub(now)
	if rest <= 0 {
		h.end.Remove(at)
	}
	return max(rest, 0)
}
