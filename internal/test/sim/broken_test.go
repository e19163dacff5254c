package sim_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/store"
)

// A breakage is a deliberate defect, to see that the checker finds it.
type breakage struct {
	store  func(limiter.Store) limiter.Store // between the limiter and its store
	tender func(limiter.Store) limiter.Store // between an aggregator's limiter and its store
	usage  func(aggregator.Usage) aggregator.Usage
	mangle func(request any) // between the store and the engine
	answer func(*call)       // between the limiter and its caller
	trust  time.Duration     // limiters trust images for this long instead
	wait   waitFunc          // instead of the limiter's Wait
	// unbounded: limiters let any number of callers wait.
	unbounded bool
}

// lockless repeats a refused refill with the stamp it finds, as if nobody had refilled in
// between.
type lockless struct{ limiter.Store }

func (s lockless) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	out, err := s.Store.Refill(ctx, r)
	if err != nil || out.Applied || out.Image == nil || out.Image.RefilledAt == r.Seen.RefilledAt || len(out.Image.Limits) != len(r.Seen.Limits) {
		return out, err
	}
	again := *r
	seen := *r.Seen
	seen.RefilledAt, seen.Limits = out.Image.RefilledAt, out.Image.Limits
	again.Seen = &seen
	again.Changes = slices.Clone(r.Changes)
	for i := range again.Changes {
		again.Changes[i].AtLeast, again.Changes[i].AtMost = math.MinInt64, math.MaxInt64
	}
	return s.Store.Refill(ctx, &again)
}

// lavish credits without looking at the capacity.
type lavish struct{ limiter.Store }

func (s lavish) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	more := *a
	more.Deltas = slices.Clone(a.Deltas)
	for i := range more.Deltas {
		if d := &more.Deltas[i]; d.Consumed < 0 {
			d.Tokens, d.AtMost, d.Pinned = -d.Consumed, math.MaxInt64, false
		}
	}
	return s.Store.Adjust(ctx, &more)
}

// stubborn repeats a take whose answer was lost.
type stubborn struct{ limiter.Store }

func (s stubborn) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	out, err := s.Store.Take(ctx, t)
	if errors.Is(err, limiter.ErrUnavailable) && ctx.Err() == nil {
		return s.Store.Take(ctx, t)
	}
	return out, err
}

// greedy returns nothing and reports success.
type greedy struct{ limiter.Store }

func (s greedy) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	if slices.ContainsFunc(a.Deltas, func(d store.Delta) bool { return d.Consumed < 0 }) {
		return store.Outcome{Applied: true, Image: a.Seen}, nil
	}
	return s.Store.Adjust(ctx, a)
}

// careless takes from balances without cutting what has overflowed since the stamp.
type careless struct{ limiter.Store }

func (s careless) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	blind := *t
	blind.Debits = slices.Clone(t.Debits)
	for i := range blind.Debits {
		blind.Debits[i].AtMost = math.MaxInt64
	}
	return s.Store.Take(ctx, &blind)
}

func (s careless) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	t := &store.Take{Bucket: r.Bucket, Now: r.RefilledAt}
	for _, ch := range r.Changes {
		if ch.Kind != store.KeepParams || ch.Debit < 0 {
			return s.Store.Refill(ctx, r)
		}
		if ch.Debit > 0 {
			t.Debits = append(t.Debits, store.Debit{Amount: store.Amount{Limit: ch.Limit, Milli: ch.Debit}, AtMost: math.MaxInt64})
		}
	}
	if len(t.Debits) > 0 {
		if out, err := s.Store.Take(ctx, t); err != nil || out.Applied {
			return out, err
		}
	}
	return s.Store.Refill(ctx, r)
}

// hasty has a clock that runs ten times too fast.
type hasty struct {
	limiter.Store
	since time.Time
}

func (s hasty) Now() time.Time {
	now := s.Store.Now()
	return now.Add(9 * now.Sub(s.since))
}

// rounding credits whole tokens only, but moves the stamp.
type rounding struct{ limiter.Store }

func (s rounding) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	whole := *r
	whole.Changes = slices.Clone(r.Changes)
	for i := range whole.Changes {
		ch := &whole.Changes[i]
		if ch.Kind != store.KeepParams || r.FullSince != 0 {
			continue
		}
		ch.Earned -= (ch.Earned%1000 + 1000) % 1000
		if ch.Debit > 0 && ch.AtLeast != ch.AtMost {
			ch.AtLeast = ch.Debit - ch.Earned
		}
	}
	return s.Store.Refill(ctx, &whole)
}

// forgetful never reads configuration a second time.
type forgetful struct {
	limiter.Store
	mu      *sync.Mutex
	configs map[limiter.ConfigKey]*limiter.Config
}

func (s forgetful) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, l)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range l.Configs {
		if _, ok := s.configs[k]; !ok {
			s.configs[k] = loaded.Configs[i]
		}
		loaded.Configs[i] = s.configs[k]
	}
	return loaded, nil
}

func shift(ms time.Duration) func(*call) {
	return func(c *call) {
		if e := c.refusal(); e != nil && e.RetryAfter() != limiter.Never {
			for i := range e.Statuses {
				if st := &e.Statuses[i]; st.Exceeded && st.RetryAfter > time.Millisecond {
					st.RetryAfter += ms
				}
			}
		}
	}
}

// TestLongestBrokenIsSeen: each check fails when its subject is broken. A breakage counts as seen
// when one of several seeds reports the promise that it breaks.
func TestLongestBrokenIsSeen(t *testing.T) {
	t.Parallel()
	wild := odds{lostBefore: 0.03, lostAfter: 0.05, hangs: 0.02}
	for _, c := range []struct {
		name    string
		promise string
		odds    odds
		broken  breakage
	}{
		{"refills without the lock", "bucket", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return lockless{s} }}},
		{"credits without bound", "bucket", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return lavish{s} }}},
		{"sends a lost take again", "P3", wild, breakage{store: func(s limiter.Store) limiter.Store { return stubborn{s} }}},
		{"skips compensation", "P3", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return greedy{s} }}},
		{"keeps what callers left behind", "P10", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return greedy{s} }}},
		{"takes from what has overflowed", "P1", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return careless{s} }}},
		{"has a fast clock", "bucket", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return hasty{s, time.Now()} }}},
		{"over-admits by a fast clock", "P1", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return hasty{s, time.Now()} }}},
		{"rounds to whole tokens", "bucket", odds{}, breakage{store: func(s limiter.Store) limiter.Store { return rounding{s} }}},
		{"quotes a millisecond more", "P4", odds{}, breakage{answer: shift(time.Millisecond)}},
		{"quotes a millisecond less", "P4", odds{}, breakage{answer: shift(-time.Millisecond)}},
		{"never sees a change of configuration", "P7", odds{}, breakage{store: func(s limiter.Store) limiter.Store {
			return forgetful{s, new(sync.Mutex), map[limiter.ConfigKey]*limiter.Config{}}
		}}},
		{"answers after the deadline", "P9", odds{}, breakage{answer: func(c *call) {
			if c.deadline != 0 && c.kind == acquiring {
				c.end = max(c.end, c.deadline+time.Millisecond)
			}
		}}},
		{"answers after the limiter's own time", "P9", odds{}, breakage{answer: func(c *call) {
			if c.kind == committing {
				c.end = max(c.end, c.start+limiter.DefaultTimeout+time.Millisecond)
			}
		}}},
		{"refuses what is there", "P2", odds{}, breakage{answer: func(c *call) {
			if c.kind == acquiring && c.admitted() {
				c.err, c.lease = &limiter.ExceededError{Statuses: []limiter.Status{{RetryAfter: time.Second}}}, nil
			}
		}}},
		{"says admitted and takes nothing", "P3", odds{}, breakage{mangle: func(request any) {
			if in, ok := request.(*dynamodb.UpdateItemInput); ok && len(in.ExpressionAttributeValues) > 2 {
				for name := range in.ExpressionAttributeValues {
					if name[1] == 'A' {
						in.ExpressionAttributeValues[name] = &types.AttributeValueMemberN{Value: "0"}
					}
				}
			}
		}}},
		{"writes half a limit", "bucket", odds{}, breakage{mangle: func(request any) {
			if in, ok := request.(*dynamodb.PutItemInput); ok {
				delete(in.Item, "b_daily_tc")
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen(t, c.promise, c.odds, c.broken)
		})
	}
	t.Run("starves by rounding", func(t *testing.T) {
		t.Parallel()
		d := demands[0]
		if off := d.starved(d.admit(t, 1, breakage{store: func(s limiter.Store) limiter.Store { return rounding{s} }})); len(off) == 0 {
			t.Error("a store that credits whole tokens only is not reported as starving")
		}
	})
}
