package acquire_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

var errBroken = errors.New("the shard is broken")

// broken fails the writes to one shard.
func broken(shard int) faults.Hook {
	return faults.On(faults.When(func(c *faults.Call) bool { return c.Shards()[0] == shard }, faults.Fail(errBroken)), faults.UpdateItem)
}

// A scramble holds the results of one process's callers at a shared bucket of four
// shards.
type scramble struct {
	granted, refused, failed int64
	limiter                  *limiter.Limiter
	table                    *faults.Tap
	consumed                 int64
	least                    int64 // the least that a lease says is left
}

// inScramble runs a caller that asks for many tokens, more than one shard holds, and other
// callers for fewer each meanwhile.
func (w *world) inScramble(held, many int64, callers int, few int64, hook faults.Hook) *scramble {
	w.Helper()
	const shards = 4
	limit := limiter.PerDay("rpd", 1000)
	w.System(limit)
	w.plant("user", limit, shards, each(shards, held*1000)...)
	s := &scramble{table: faults.NewTap(w.Engine), least: limit.Capacity}
	slow := faults.On(faults.Delay(5*time.Millisecond, 0), faults.UpdateItem, faults.TransactWriteItems)
	l := w.NewLimiter(w.OpenOn(faults.Wrap(s.table, slow)), limiter.Options{})
	s.limiter = l
	w.survey(l, "user", limit)
	s.table.Take()
	s.table.Set(hook)
	driverOf(l).Share(limiter.Bucket{Entity: "user", Resource: "gpt-4"}, shards)

	var mu sync.Mutex
	var group sync.WaitGroup
	acquire := func(n int64) {
		lease, err := l.Acquire(w.Context(), ask("user", "rpd", n))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			s.granted += n
			s.least = min(s.least, lease.Statuses()[0].Available)
		case errors.Is(err, limiter.ErrUnavailable):
			s.failed++
		case errors.Is(err, limiter.ErrExceeded):
			s.refused++
		default:
			w.Error(err)
		}
	}
	group.Go(func() { acquire(many) })
	time.Sleep(time.Millisecond)
	for range callers {
		group.Go(func() { acquire(few) })
	}
	group.Wait()
	driverOf(l).Settle()
	for _, img := range w.Images("user") {
		state, _ := img.Limit("rpd")
		s.consumed += state.Consumed / 1000
	}
	return s
}

// Callers that arrive while a request is served from all shards of a shared bucket wait
// for all shards. Each round serves a part of the callers, with one write for each
// shard.
func TestCallersOfASharedBucketAreServedShardByShard(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		s := w.inScramble(50, 60, 7, 13, nil) // 13 are scarce where each shard holds 50
		if s.granted != 60+91 || s.consumed != s.granted {
			w.Errorf("%d granted, %d consumed, want %d", s.granted, s.consumed, 60+91)
		}
		if joint, updates := s.table.Count(faults.TransactWriteItems), s.table.Count(faults.UpdateItem); joint != 1 || updates > 7 {
			w.Errorf("%d transactions and %d updates, want 1 and 7 at most", joint, updates)
		}
		if left := 200 - s.granted; s.least != left {
			w.Errorf("every lease says that %d are left, or more, want %d", s.least, left)
		}
	})
}

// Callers that ask for more than is left on all shards together are refused on the
// images that were read for them. No other caller is refused. The last one that is served
// sees that nothing is left.
func TestCallersOfASharedBucketAreRefusedTogether(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		s := w.inScramble(50, 150, 64, 1, nil)
		if s.granted != 200 || s.refused != 64-50 || s.consumed != 200 {
			w.Errorf("%d granted, %d refused, %d consumed, want 200, 14 and 200", s.granted, s.refused, s.consumed)
		}
		if s.least != 0 {
			w.Errorf("every lease says that %d are left, or more", s.least)
		}
	})
}

// A broken shard is an error only for the callers that it was to serve, and not for
// later callers.
func TestABrokenShardOfASharedBucketFailsItsCallersOnly(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		s := w.inScramble(100, 150, 64, 1, broken(3))
		if s.failed == 0 || s.granted != 150+64-s.failed || s.consumed != s.granted {
			w.Errorf("%d granted, %d failed, %d consumed", s.granted, s.failed, s.consumed)
		}
		s.table.Set(nil)
		w.Serve(s.limiter, ask("user", "rpd", 150))
	})
}
