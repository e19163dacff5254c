package acquire_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// slowKey is the key of the time that a caller's writes take, in its context.
type slowKey struct{}

// slowedDown delays the writes of callers whose contexts say so.
func slowedDown(ctx context.Context, c *faults.Call, next faults.Next) error {
	wait, ok := ctx.Value(slowKey{}).(time.Duration)
	if !ok || !c.Writes() {
		return next(ctx)
	}
	return faults.Latency(wait)(ctx, c, next)
}

// inHold has one caller wait for 5 tokens, whose try takes two writes, until the tenth second, and
// behind it one for 3 tokens, which is admitted in the eighth. Then then runs.
func inHold(t *testing.T, then func(w *world, l *limiter.Limiter, leave func(), first, second *waited, all *sync.WaitGroup)) {
	t.Helper()
	t.Parallel()
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, slowedDown)), limiter.Options{InFlight: -1})
		w.System(sentOnce(limiter.PerMinute("tpm", 60))...) // so that each write has all the time
		w.Take(l, ask("user", "tpm", 60))
		begun := time.Now()
		var all sync.WaitGroup
		var first, second waited
		wait := func(ctx context.Context, tokens int64, to *waited) {
			all.Go(func() {
				to.lease, to.err = l.Wait(ctx, ask("user", "tpm", tokens))
				to.took = time.Since(begun).Round(10 * time.Millisecond)
			})
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		wait(context.WithValue(w.Context(), slowKey{}, 2*time.Second), 5, &first)
		wait(ctx, 3, &second)
		time.Sleep(8500*time.Millisecond - time.Since(begun))
		if n := l.Stats().Waiting; n != 2 {
			w.Fatalf("%d wait", n)
		}
		then(w, l, cancel, &first, &second, &all)
	})
}

// A lease that was acquired for a caller behind one whose try is under way waits for that try.
func TestALaterCallerReturnsAfterTheEarlierOne(t *testing.T) {
	inHold(t, func(w *world, _ *limiter.Limiter, _ func(), first, second *waited, all *sync.WaitGroup) {
		w.holds("user", "tpm", 5) // of 8.5: the second's write has landed, and the first's has not
		all.Wait()
		if first.err != nil || second.err != nil || first.took != 10*time.Second || second.took != 10*time.Second {
			w.Errorf("the first: %v after %v; the second: %v after %v", first.err, first.took, second.err, second.took)
		}
	})
}

// A caller that leaves with such a lease returns the tokens.
func TestACallerLeavesWithALeaseBehindAnother(t *testing.T) {
	inHold(t, func(w *world, l *limiter.Limiter, leave func(), first, second *waited, all *sync.WaitGroup) {
		leave()
		all.Wait()
		driverOf(l).Settle()
		if first.err != nil || !errors.Is(second.err, context.Canceled) || second.took != 8500*time.Millisecond {
			w.Errorf("the first: %v; the second: %v after %v", first.err, second.err, second.took)
		}
		w.holds("user", "tpm", 5) // of 10
	})
}

// Close lets callers go for which something was acquired, or is about to be.
func TestCloseWaitsForLeasesBehindAnother(t *testing.T) {
	inHold(t, func(w *world, l *limiter.Limiter, _ func(), first, second *waited, all *sync.WaitGroup) {
		w.Must(l.Close())
		all.Wait()
		if first.err != nil || second.err != nil || second.lease == nil {
			w.Errorf("the first: %v; the second: %v", first.err, second.err)
		}
	})
}

// A caller that other writers outrun again and again keeps its place.
func TestAConflictDoesNotEndAWait(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		var busy faults.Slot
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, busy.Apply)), limiter.Options{})
		w.System(limiter.PerMinute("tpm", 60))
		w.Take(l, ask("user", "tpm", 60))
		var got []waited
		var all sync.WaitGroup
		all.Go(func() { got = w.waits(l, w.Context(), ask("user", "tpm", 5), ask("user", "tpm", 3)) })
		time.Sleep(4 * time.Second)
		busy.Set(faults.When((*faults.Call).Writes, func(ctx context.Context, c *faults.Call, next faults.Next) error {
			return faults.Chain(faults.Latency(20*time.Millisecond), faults.Fail(&types.TransactionConflictException{}))(ctx, c, next)
		}))
		time.Sleep(12 * time.Second) // longer than a try insists
		busy.Set(nil)
		all.Wait()
		for i, c := range got {
			if c.err != nil || c.order != i {
				w.Errorf("caller %d: number %d, %v after %v", i, c.order, c.err, c.took)
			}
		}
	})
}

// A lease never takes more than the most tokens, also if it was adjusted while a take was
// under way. Such a take returns what it debited.
func TestATakeFindsThatALeaseHasGrown(t *testing.T) {
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		l := w.NewLimiter(w.OpenOn(newWire(w.Meter, 10*time.Millisecond).api), limiter.Options{})
		w.System(limiter.PerDay("tpd", limiter.MaxTokens))
		lease := w.Lease(l, ask("user", "tpd", 0))
		taken := make(chan error)
		go func() { taken <- lease.Take(w.Context(), tokens{"tpd": limiter.MaxTokens / 2}) }()
		time.Sleep(time.Millisecond)
		w.Must(lease.Adjust("tpd", limiter.MaxTokens/2+1))
		if err := <-taken; !errors.Is(err, limiter.ErrInvalid) {
			w.Errorf("took more than a lease may: %v", err)
		}
		if got := lease.Consumed()["tpd"]; got != limiter.MaxTokens/2+1 {
			w.Errorf("the lease has %d", got)
		}
		w.Must(lease.Rollback(w.Context()))
		driverOf(l).Settle()
		w.holds("user", "tpd", limiter.MaxTokens)
	})
}
