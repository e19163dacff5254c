//go:build conformance

package conformance_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

const (
	swarmThreads = 8 // of each library, each with a client
	swarmTries   = 30
)

// swarms lets clients of both libraries take single tokens of gpt-4 at the same time, and
// counts the tokens that both admitted. The slower peer creates the bucket, and our clients
// start once it exists.
func (b *both) swarms(entity string) (admitted int64) {
	b.Helper()
	var theirs struct {
		Admitted, Refused int64
		Failed            []string
		Began, Ended      int64
	}
	done := make(chan error)
	go func() {
		done <- b.py.try("swarm", args{
			"threads": swarmThreads, "tries": swarmTries, "entity": entity, "resource": "gpt-4", "consume": args{"rpd": 1},
		}, &theirs)
	}()
	for b.item(entity, "gpt-4") == nil {
		select {
		case err := <-done:
			b.Fatalf("Python made no bucket: %+v, %v", theirs, err)
		default:
		}
	}
	var ours atomic.Int64
	var wg sync.WaitGroup
	began := time.Now().UnixMilli()
	for range swarmThreads {
		l := b.limiter()
		wg.Go(func() {
			for range swarmTries {
				n, err := b.one(l, entity)
				ours.Add(n)
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	ended := time.Now().UnixMilli()
	b.must(<-done)
	if len(theirs.Failed) > 0 {
		b.Errorf("Python failed %d times: %s", len(theirs.Failed), theirs.Failed[0])
	}
	b.Logf("Go admitted %d, Python %d", ours.Load(), theirs.Admitted)
	if ended < theirs.Began || theirs.Ended < began {
		b.Errorf("they did not meet: Go from %d to %d, Python from %d to %d", began, ended, theirs.Began, theirs.Ended)
	}
	return ours.Load() + theirs.Admitted
}

// one takes one token and returns the number admitted.
func (b *both) one(l *limiter.Limiter, entity string) (int64, error) {
	lease, err := l.Acquire(b.Context(), request(entity, "gpt-4", args{"rpd": 1}))
	switch {
	case errors.Is(err, limiter.ErrExceeded):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return 1, lease.Commit(b.Context())
}

var loadCases = []interopCase{
	{"both at once on one bucket", func(b *both) {
		const capacity = 200
		b.system(perDay("rpd", capacity))
		if got := b.swarms("user"); got != capacity {
			b.Errorf("%d admitted of %d", got, capacity)
		}
		b.books("user", "gpt-4", "rpd", capacity, capacity)
	}},
	{"both at once on a cascading parent", func(b *both) {
		const capacity = 200
		b.project(true)
		b.system(perDay("rpd", 10*capacity))
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", capacity)}))
		got := b.swarms("user")
		if got != capacity {
			b.Errorf("%d admitted of %d", got, capacity)
		}
		b.books("project", "gpt-4", "rpd", capacity, got)
		b.books("user", "gpt-4", "rpd", 10*capacity, got)
	}},
	{"both at once on a bucket that accrues", func(b *both) {
		const capacity = 20
		l := limiter.PerSecond("rpd", capacity)
		b.system(l)
		before := b.store.Now()
		got := b.swarms("user")
		elapsed := b.store.Now().Sub(before)
		if most := capacity + int64(elapsed.Seconds()*capacity) + 1; got > most {
			b.Errorf("%d admitted in %v, of at most %d", got, elapsed, most)
		}
		images, err := b.store.Buckets(b.Context(), "user", "gpt-4", 1)
		b.must(err)
		// A take may use tokens earned since the stamp without moving it.
		earned := (b.store.Now().UnixMilli() - images[0].RefilledAt) * capacity
		if s, _ := images[0].Limit("rpd"); s.Consumed != got*1000 || s.Tokens+earned < 0 || s.Tokens > s.Capacity {
			b.Errorf("%d millitokens held, %d earned since and %d consumed after %d were admitted", s.Tokens, earned, s.Consumed, got)
		}
	}},
}
