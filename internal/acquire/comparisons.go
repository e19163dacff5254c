package acquire

import (
	"sync"
	"time"
)

// comparisons are the reads of a bucket's configuration by which a process compares
// the bucket.
type comparisons struct {
	mu       sync.Mutex
	current  *comparison   // under way; nil if there is none
	failure  error         // why the last read failed; nil if it did not
	failedAt time.Duration // when that was
}

// A comparison is a read of a bucket's configuration that is under way. Callers that
// come meanwhile wait for it too.
type comparison struct {
	done chan struct{} // closed when the read has ended
	err  error
}

// failedPause is how long after a failed comparison no other is tried.
const failedPause = time.Second

// begin returns the comparison under way, if the caller may join it. Otherwise it
// returns a new one, which the caller must carry out: then first is true. It returns
// nil if the last comparison has just failed.
func (c *comparisons) begin(up time.Duration, join bool) (cmp *comparison, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current != nil && join:
		return c.current, false
	case c.failure != nil && up-c.failedAt < failedPause:
		return nil, false
	}
	c.current = &comparison{done: make(chan struct{})}
	return c.current, true
}

// end releases the callers that wait for a comparison.
func (c *comparisons) end(cmp *comparison, err error, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == cmp {
		c.current = nil
	}
	cmp.err, c.failure, c.failedAt = err, err, up
	close(cmp.done)
}

// note records the result of a read that nobody waits for.
func (c *comparisons) note(err error, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure, c.failedAt = err, up
}

// failedLately is why a recent read failed, nil if none did.
func (c *comparisons) failedLately(up time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if up-c.failedAt >= failedPause {
		return nil
	}
	return c.failure
}
