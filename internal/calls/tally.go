package calls

import (
	"sync"
	"sync/atomic"
)

// A Tally counts the calls under way and the work that goes on after them, so that
// closing can wait for all of it.
type Tally struct {
	n     atomic.Int64  // less closedTally, once the tally is closed
	empty chan struct{} // closed when the tally is closed and nothing is under way
	once  sync.Once
}

const closedTally = 1 << 62

// NewTally returns an open tally.
func NewTally() *Tally { return &Tally{empty: make(chan struct{})} }

// Begin counts a call, unless the tally is closed.
func (t *Tally) Begin() bool {
	if t.n.Add(1) > 0 {
		return true
	}
	t.End()
	return false
}

// More counts work for a call that is counted. The work may begin after the tally is
// closed.
func (t *Tally) More() { t.n.Add(1) }

// End takes a call or work off the count.
func (t *Tally) End() {
	if t.n.Add(-1) == -closedTally {
		t.once.Do(func() { close(t.empty) })
	}
}

// IsClosed reports whether the tally is closed.
func (t *Tally) IsClosed() bool { return t.n.Load() < 0 }

// Empty is closed when the tally is closed and nothing is under way.
func (t *Tally) Empty() <-chan struct{} { return t.empty }

// UnderWay is the number of calls and pieces of work that are counted.
func (t *Tally) UnderWay() int64 {
	n := t.n.Load()
	if n < 0 {
		n += closedTally
	}
	return n
}

// Close closes the tally. Call it once.
func (t *Tally) Close() {
	t.n.Add(1 - closedTally)
	t.End()
}
