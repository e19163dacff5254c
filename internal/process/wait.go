package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

// MaxTries bounds the writes that one piece of work may need. Every try but the first
// means that another client's write came first. So work reaches the bound only where
// hundreds of clients write to one item.
const MaxTries = 100

// FreeTries is the number of retries without a pause before them.
const FreeTries = 3

// Pause separates the tries of a refused write. The second to the fourth have no pause
// before them; later, every other try has a growing random one. After a pause the image
// is old, so the write is likely to bring no more than a new image.
func (p *Process) Pause(ctx context.Context, left <-chan struct{}, tries int) error {
	const step, most = 2 * time.Millisecond, 50 * time.Millisecond
	var d time.Duration
	if tries > FreeTries && tries%2 == 0 {
		d = time.Duration(p.Rand(int64(min(most, step<<min(tries-FreeTries, 10))))) + 1
	}
	return Sleep(ctx, left, d)
}

// Insist repeats a write while the store turns it away. It gets the time of a call anew.
func (p *Process) Insist(ctx context.Context, write func(context.Context) error) error {
	ctx = p.Detach(ctx)
	for tries := 0; ; tries++ {
		err := write(ctx)
		if !IsTurnedAway(err) {
			return err
		}
		if Sleep(ctx, nil, min(memory.MinBrake<<min(tries, 10), memory.MaxBrake)) != nil {
			return err
		}
	}
}

// IsTurnedAway reports whether an error says that nothing was applied and that the
// same write may be accepted later.
func IsTurnedAway(err error) bool {
	return errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrConflict)
}

// Sleep waits, unless the caller leaves or the time for the whole call is up.
func Sleep(ctx context.Context, left <-chan struct{}, d time.Duration) error {
	return Unavailable(calls.Sleep(ctx, left, d))
}

// Unavailable marks the error of a wait that ended because the time was up.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, calls.ErrLeft) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
