package sim_test

import (
	"context"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// doubler changes births on their way to the store.
type doubler struct {
	limiter.Store

	change func(*store.Birth)
}

func (s doubler) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	changed := *b
	changed.Limits = append([]store.NewLimit(nil), b.Limits...)
	if b.Donor != nil {
		donor := *b.Donor
		changed.Donor = &donor
	}
	s.change(&changed)
	return s.Store.Bear(ctx, &changed)
}

func bornFull(b *store.Birth) {
	for i := range b.Limits {
		b.Limits[i].Tokens = b.Limits[i].Capacity / int64(b.ShardCount)
	}
}

// untightened leaves the sibling its former share.
func untightened(b *store.Birth) {
	if b.Donor != nil {
		b.Donor.ShardCount = 0
	}
}

// myopic sees the balance of one shard and takes the others for empty.
type myopic struct{ limiter.Store }

func (s myopic) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	images, err := s.Store.Buckets(ctx, entity, resource, shards)
	for i := 1; i < len(images); i++ {
		emptied := *images[i]
		emptied.Limits = append([]store.LimitState(nil), emptied.Limits...)
		for k := range emptied.Limits {
			emptied.Limits[k].Tokens = 0
		}
		images[i] = &emptied
	}
	return images, err
}

// lonely does not look for siblings of a missing shard 0.
type lonely struct{ limiter.Store }

func (s lonely) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	images, err := s.Store.Buckets(ctx, entity, resource, shards)
	if len(images) > 0 && images[0].Shard != 0 {
		images = nil
	}
	return images, err
}

// partial writes only the first half of a gathering.
type partial struct{ limiter.Store }

func (s partial) Gather(ctx context.Context, rs []*store.Refill) (store.Joint, error) {
	return s.Store.Gather(ctx, rs[:(len(rs)+1)/2])
}

// thrifty returns only half of each credit.
type thrifty struct{ limiter.Store }

func (s thrifty) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	less := *a
	less.Deltas = append([]store.Delta(nil), a.Deltas...)
	for i := range less.Deltas {
		if d := &less.Deltas[i]; d.Consumed < 0 && !d.Pinned {
			d.Tokens, d.Consumed = d.Tokens/2, d.Consumed/2
		}
	}
	return s.Store.Adjust(ctx, &less)
}

// TestLongestBrokenShardsAreSeen: each check of sharded buckets fails when its subject is broken.
func TestLongestBrokenShardsAreSeen(t *testing.T) {
	t.Parallel()
	hot := odds{hot: true}
	with := func(f func(limiter.Store) limiter.Store) breakage { return breakage{store: f} }
	for _, c := range []struct {
		name    string
		promise string
		odds    odds
		broken  breakage
	}{
		{"shards are born full", "bucket", hot, with(func(s limiter.Store) limiter.Store { return doubler{s, bornFull} })},
		{"more is admitted by shards born full", "P1", hot, with(func(s limiter.Store) limiter.Store { return doubler{s, bornFull} })},
		{"the sibling is not tightened", "bucket", hot, with(func(s limiter.Store) limiter.Store { return doubler{s, untightened} })},
		{"shard 0 is made anew beside its siblings", "bucket", hot, with(func(s limiter.Store) limiter.Store { return lonely{s} })},
		{"one shard refuses for all", "P5", hot, with(func(s limiter.Store) limiter.Store { return myopic{s} })},
		{"half is gathered", "P3", hot, with(func(s limiter.Store) limiter.Store { return partial{s} })},
		{"one shard's wait is quoted", "P4", hot, breakage{answer: func(c *call) {
			if e := c.refusal(); e != nil && !c.local() && e.RetryAfter() != limiter.Never {
				for i := range e.Statuses {
					e.Statuses[i].RetryAfter *= 2
				}
			}
		}}},
		{"images are trusted for a minute", "P5", hot, breakage{trust: time.Minute}},
		{"crowds return half", "P3", odds{crowds: true}, with(func(s limiter.Store) limiter.Store { return thrifty{s} })},
		{"the hidden limit is told", "P6", odds{}, breakage{answer: func(c *call) {
			if c.kind == asking {
				c.statuses = append(c.statuses, limiter.Status{Limit: limiter.Limit{Name: hidden}})
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen(t, c.promise, c.odds, c.broken)
		})
	}
}

// seen plays seeds until one reports the broken promise.
func seen(t *testing.T, promise string, o odds, broken breakage) {
	t.Helper()
	const tries = 60
	for seed := uint64(1); seed <= tries; seed++ {
		if !simulate(t, seed, o, broken).broke(promise) {
			continue
		}
		if whole := simulate(t, seed, o, breakage{}); whole.broke(promise) {
			t.Errorf("reported without the breakage too:\n%s", whole.report)
		}
		return
	}
	t.Errorf("%d seeds did not report %s", tries, promise)
}

// reported plays seeds with a breakage until one reports a promise as broken, in these words.
func reported(t *testing.T, promise, text string, o odds, broken breakage) {
	t.Helper()
	const tries = 100
	for seed := uint64(1); seed <= tries; seed++ {
		if res := simulate(t, seed, o, broken); res.broke(promise) && says(res, text) {
			t.Logf("seed %d", seed)
			return
		}
	}
	t.Errorf("%d seeds did not report it", tries)
}
