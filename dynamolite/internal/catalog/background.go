package catalog

import "sync"

// Background is the work that goes on beside the operations of a database. The zero value is ready.
// Without mu, work could be added to the group while Close already waits for it, which
// [sync.WaitGroup] forbids.
//
//	Go       not stopped? ······················ add
//	Close                   stop · wait: nothing to wait for
type Background struct {
	mu      sync.Mutex // nothing is added once Close waits; a leaf
	work    sync.WaitGroup
	stopped chan struct{} // closed by Close
}

// NewBackground returns a background without work.
func NewBackground() *Background { return &Background{stopped: make(chan struct{})} }

// Go runs work, unless the background is closed. The work must end soon after Done is closed; Close
// waits for it. It never blocks on the work, so callers may hold locks of tables. After Close the
// work is dropped: it is always work that a start does again, or that no longer matters.
func (b *Background) Go(work func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Stopped() == nil {
		b.work.Go(work)
	}
}

// Done is closed when the database is being closed.
func (b *Background) Done() <-chan struct{} { return b.stopped }

// Stopped returns an error once the database is being closed.
func (b *Background) Stopped() error {
	select {
	case <-b.stopped:
		return ErrClosed
	default:
		return nil
	}
}

// Close stops the work and waits for its end. It must not be called twice.
func (b *Background) Close() {
	b.mu.Lock()
	close(b.stopped)
	b.mu.Unlock()
	b.work.Wait()
}
