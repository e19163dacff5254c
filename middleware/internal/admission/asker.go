package admission

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// An Acquirer decides requests, as httplimit.Acquirer does.
type Acquirer interface {
	Acquire(ctx context.Context, req limiter.Request) (*limiter.Lease, error)
}

// An Asker makes the limiter's requests of the requests Q of a protocol. Servers and clients of
// every protocol have one. Make it with [NewAsker].
type Asker[Q any] struct {
	Limits           Acquirer
	Entity, Resource func(context.Context, Q) (string, error)
	Cost             func(context.Context, Q) (map[string]int64, error) // in place of Base.Consume, if not nil
	// Base has what is the same for every request. Limiters only read its map.
	Base limiter.Request
	// RetryUnavailable is the wait to suggest in an outage.
	RetryUnavailable time.Duration
	Notices          *Notices
}

// NewAsker checks what servers and clients of all protocols have in common. Without Consume, Cost
// and Slots, each request takes one token of the limit usual. A nil logger is [slog.Default].
func NewAsker[Q any](a Asker[Q], usual string, logger *slog.Logger) (Asker[Q], error) {
	switch {
	case a.Limits == nil:
		return a, &limiter.ValidationError{Field: "limits", Value: "nil", Reason: "give a limiter"}
	case a.Cost != nil && a.Base.Consume != nil:
		return a, &limiter.ValidationError{Field: "cost", Reason: "give either Consume or Cost"}
	case a.RetryUnavailable < 0:
		return a, &limiter.ValidationError{Field: "retry unavailable", Value: a.RetryUnavailable.String(), Reason: "use a positive value, or 0 for the default"}
	}
	a.Base.Consume, a.Base.Slots, a.Base.SlotFallback = maps.Clone(a.Base.Consume), maps.Clone(a.Base.Slots), slices.Clone(a.Base.SlotFallback)
	if a.Base.Consume == nil && len(a.Base.Slots) == 0 {
		a.Base.Consume = map[string]int64{usual: 1}
	}
	a.Notices = NewNotices(logger)
	probe := a.Base
	probe.Entity, probe.Resource = "probe", "probe"
	return a, probe.Validate()
}

// Request makes the limiter's request. If it fails, the request has what was found so far.
func (a *Asker[Q]) Request(ctx context.Context, of Q) (req limiter.Request, err error) {
	req = a.Base
	if req.Entity, err = a.Entity(ctx, of); err != nil {
		return req, err
	}
	if req.Resource, err = a.Resource(ctx, of); err != nil {
		return req, err
	}
	if a.Cost != nil {
		req.Consume, err = a.Cost(ctx, of)
	}
	return req, err
}

// Settle sets what was used of the limits of a lease, and commits it. The handler may have ended the
// lease itself.
func Settle(ctx context.Context, lease *limiter.Lease, used map[string]int64) error {
	var failed error
	for limit, tokens := range used {
		if err := lease.Settle(limit, tokens); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) {
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(failed, lease.Commit(ctx))
}
