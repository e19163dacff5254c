package storetest

import (
	"math"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/store"
)

const crowd = 64

// atOnce calls f from many goroutines at the same time.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// A tally counts outcomes from many goroutines.
type tally struct {
	mu      sync.Mutex
	images  []*store.Image // of the writes that were applied
	refused int
}

// add may be called from goroutines other than the test's.
func (t *tally) add(k *kit, out store.Outcome, err error) (applied bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		k.Error(err)
	case out.Image == nil:
		k.Error("the bucket is gone")
	case out.Applied:
		t.images = append(t.images, out.Image)
	default:
		t.refused++
	}
	return out.Applied
}

var concurrentTests = []test{
	{"takes never go below zero and all count", func(k *kit) {
		const each, tokens = 3, 100
		c := k.newBucket()
		c.Limits[0].Tokens = tokens * milli
		k.create(c)
		var sum tally
		atOnce(crowd, func(int) {
			for range each {
				out, err := k.take(store.Amount{Limit: "rpm", Milli: milli})
				sum.add(k, out, err)
			}
		})
		if len(sum.images) != tokens || sum.refused != crowd*each-tokens {
			k.Errorf("%d takes admitted and %d refused, want %d and %d", len(sum.images), sum.refused, tokens, crowd*each-tokens)
		}
		seen := map[int64]bool{}
		for _, img := range sum.images {
			l, _ := img.Limit("rpm")
			if l.Tokens < 0 || l.Tokens+l.Consumed != tokens*milli || seen[l.Tokens] {
				k.Errorf("a take left %d, %d consumed; no two takes leave the same", l.Tokens, l.Consumed)
			}
			seen[l.Tokens] = true
		}
		k.stored(theBucket, with(imageOf(c), func(i *store.Image) {
			debit(i, "rpm", tokens*milli)
			i.Writes.Tokens -= tokens * milli
			i.Writes.Consumed += tokens * milli
		}))
	}},
	{"one create wins and the others get its image", func(k *kit) {
		outcomes := make([]store.Outcome, crowd)
		atOnce(crowd, func(i int) {
			c := k.newBucket()
			c.Limits[0].Tokens = int64(i)
			var err error
			if outcomes[i], err = k.Create(k.Context(), c); err != nil {
				k.Error(err)
			}
		})
		winner := -1
		for i, out := range outcomes {
			if out.Applied && winner >= 0 {
				k.Fatalf("creates %d and %d both won", winner, i)
			}
			if out.Applied {
				winner = i
			}
		}
		if winner < 0 {
			k.Fatal("no create won")
		}
		for i, out := range outcomes {
			if diff := cmp.Diff(outcomes[winner].Image, out.Image); diff != "" {
				k.Errorf("create %d got another image than the winner (-winner +got):\n%s", i, diff)
			}
		}
	}},
	{"one refill of a stamp wins", func(k *kit) {
		seen := k.create(k.newBucket())
		var sum tally
		atOnce(crowd, func(i int) {
			r := refill(seen, keep("rpm", 1, 0))
			r.RefilledAt = seen.RefilledAt + int64(i) + 1
			out, err := k.Refill(k.Context(), r)
			sum.add(k, out, err)
		})
		if len(sum.images) != 1 || sum.refused != crowd-1 {
			k.Errorf("%d refills won and %d lost", len(sum.images), sum.refused)
		}
	}},
	{"takes, refills, debits and credits at once lose and mint nothing", func(k *kit) {
		img := k.create(k.newBucket())
		var refills, takes tally
		atOnce(crowd, func(i int) {
			switch i % 4 {
			case 0:
				earnOnce(k, img, &refills)
			case 1:
				k.anyAdjust(img, debits("rpm", milli))
			case 2:
				k.anyAdjust(img, store.Delta{Limit: "rpm", Tokens: milli, Consumed: -milli, AtMost: math.MaxInt64})
			default:
				out, err := k.take(store.Amount{Limit: "rpm", Milli: milli})
				takes.add(k, out, err)
			}
		})
		images, err := k.Buckets(k.Context(), theBucket.Entity, theBucket.Resource, 1)
		if err != nil || len(images) != 1 {
			k.Fatalf("bucket: %v, %v", images, err)
		}
		got, _ := images[0].Limit("rpm")
		earned, taken := int64(len(refills.images))*3*milli, int64(len(takes.images))*milli
		if got.Tokens != 50*milli+earned-taken || got.Consumed != taken {
			k.Errorf("%d millitokens, %d consumed, after earning %d and taking %d of 50000", got.Tokens, got.Consumed, earned, taken)
		}
		if want := int64(len(refills.images) + len(takes.images) + crowd/2); images[0].Writes.Consumed != want*milli {
			k.Errorf("%d writes counted, want %d", images[0].Writes.Consumed/milli, want)
		}
	}},
}

// earnOnce earns three tokens, whatever others do. If a refill is refused for its
// stamp, earnOnce tries again on the image that refused it.
func earnOnce(k *kit, img *store.Image, sum *tally) {
	for range 20 * crowd {
		r := refill(img, keep("rpm", 3*milli, 0))
		r.RefilledAt = img.RefilledAt + 1
		out, err := k.Refill(k.Context(), r)
		if sum.add(k, out, err) || out.Image == nil {
			return
		}
		img = out.Image
	}
	k.Error("a refill never got through")
}

// anyAdjust makes an adjustment that no state of the item may refuse. It may be called
// from any goroutine.
func (k *kit) anyAdjust(seen *store.Image, d store.Delta) {
	out, err := k.Adjust(k.Context(), &store.Adjust{Bucket: seen.Bucket, Seen: seen, Deltas: []store.Delta{d}})
	if err != nil || !out.Applied {
		k.Errorf("adjust %+v: applied %t, %v", d, out.Applied, err)
	}
}
