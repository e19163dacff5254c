package sim_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// tryAgain waits as programs without Wait do: each caller acquires again after the wait that
// it was told, so whoever asks for less comes first.
func tryAgain(ctx context.Context, l *limiter.Limiter, req limiter.Request) (*limiter.Lease, error) {
	for {
		lease, err := l.Acquire(ctx, req)
		exceeded, refused := errors.AsType[*limiter.ExceededError](err)
		if !refused {
			return lease, err
		}
		wait := exceeded.RetryAfter()
		deadline, bounded := ctx.Deadline()
		if wait == limiter.Never || bounded && time.Until(deadline) < wait {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// overtaking waits in the line at odd nanoseconds, and tries again at even ones.
func overtaking(ctx context.Context, l *limiter.Limiter, req limiter.Request) (*limiter.Lease, error) {
	if time.Now().Nanosecond()%2 == 0 {
		return tryAgain(ctx, l, req)
	}
	return l.Wait(ctx, req)
}

// impatient gives up although the tokens come in time.
func impatient(ctx context.Context, l *limiter.Limiter, req limiter.Request) (*limiter.Lease, error) {
	return l.Acquire(ctx, req)
}

// lingering takes what a caller that left has waited for.
func lingering(ctx context.Context, l *limiter.Limiter, req limiter.Request) (*limiter.Lease, error) {
	lease, err := l.Wait(ctx, req)
	if errors.Is(err, context.Canceled) {
		_, _ = l.Acquire(context.WithoutCancel(ctx), req)
	}
	return lease, err
}

// full turns away callers although there is room.
func full(ctx context.Context, l *limiter.Limiter, req limiter.Request) (*limiter.Lease, error) {
	lease, err := l.Acquire(ctx, req)
	if errors.Is(err, limiter.ErrExceeded) {
		err = errors.Join(err, limiter.ErrQueueFull)
	}
	return lease, err
}

// belated tries only when the caller leaves.
func belated(ctx context.Context, l *limiter.Limiter, req limiter.Request) (*limiter.Lease, error) {
	<-ctx.Done()
	return l.Wait(ctx, req)
}

// halving returns half of what is to be returned while a lease is open.
type halving struct{ limiter.Store }

func (s halving) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	if k, ok := ctx.Value(callKey{}).(*call); !ok || k.kind != releasing {
		return s.Store.Adjust(ctx, a)
	}
	half := *a
	half.Deltas = slices.Clone(a.Deltas)
	for i := range half.Deltas {
		if d := &half.Deltas[i]; d.Consumed < -1000 {
			d.Consumed, d.Tokens = d.Consumed/2, d.Tokens/2
		}
	}
	return s.Store.Adjust(ctx, &half)
}

// TestLongestBrokenPatienceIsSeen: each check of waits, and of leases that are extended and reduced,
// fails when its subject is broken.
func TestLongestBrokenPatienceIsSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		promise string
		broken  breakage
	}{
		{"overtakes", "order", breakage{wait: overtaking}},
		{"gives up early", "patience", breakage{wait: impatient}},
		{"wakes nobody", "patience", breakage{wait: belated}},
		{"does not answer in time", "P9", breakage{answer: func(k *call) {
			if k.kind == waiting {
				k.end = max(k.deadline, k.leaves) + 1
			}
		}}},
		{"turns away callers for whom there is room", "queue", breakage{wait: full}},
		{"lets too many wait", "queue", breakage{unbounded: true}},
		{"takes for callers that left", "P10", breakage{wait: lingering}},
		{"returns a part of what is released", "P3", breakage{store: func(s limiter.Store) limiter.Store { return halving{s} }}},
		{"extends a lease and takes nothing", "P3", breakage{answer: func(k *call) {
			if k.kind == extending && k.refusal() != nil {
				k.lease, k.err = k.of.lease, nil
			}
		}}},
		{"refuses to extend what is there", "P2", breakage{answer: func(k *call) {
			if k.kind == extending && k.admitted() {
				k.err, k.lease = &limiter.ExceededError{Statuses: []limiter.Status{{RetryAfter: time.Second}}}, nil
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen(t, c.promise, odds{patient: true}, c.broken)
		})
	}
}
