package calls

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLeft ends the wait of a caller that has left.
var ErrLeft = errors.New("the caller has left")

// A Flight is work that one caller does while the others wait for its end. The zero
// value is ready for use.
type Flight struct {
	mu   sync.Mutex
	done chan struct{} // closed when the work under way has ended; nil if there is none
}

// Do runs work, unless another caller already does: then it waits for the end. It
// reports whether it ran work. The wait ends with [ErrLeft] when left is closed, and
// with the cause when ctx ends.
func (f *Flight) Do(ctx context.Context, left <-chan struct{}, work func()) (ran bool, err error) {
	f.mu.Lock()
	if done := f.done; done != nil {
		f.mu.Unlock()
		select {
		case <-done:
			return false, nil
		case <-left:
			return false, ErrLeft
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	done := make(chan struct{})
	f.done = done
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.done = nil
		f.mu.Unlock()
		close(done)
	}()
	work()
	return true, nil
}

// Sleep waits. It ends early with [ErrLeft] when left is closed, and with the cause when
// ctx ends. Without a time to wait, it only looks whether either has happened.
func Sleep(ctx context.Context, left <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		select {
		case <-left:
			return ErrLeft
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
			return nil
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-left:
		return ErrLeft
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
