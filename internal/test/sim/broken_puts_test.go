package sim_test

import (
	"context"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// flickering loses the last limit of every level every other second.
type flickering struct{ limiter.Store }

func (s flickering) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, l)
	if err != nil || time.Now().Unix()%2 == 0 {
		return loaded, err
	}
	for i, c := range loaded.Configs {
		if c != nil && len(c.Limits) > 1 {
			short := *c
			short.Limits = c.Limits[:len(c.Limits)-1]
			loaded.Configs[i] = &short
		}
	}
	return loaded, nil
}

// whole removes from an item the limits that a request does not name. A client does so if
// it takes a request's limits for all limits of the bucket.
type whole struct{ limiter.Store }

func (s whole) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	all := *r
	all.Changes = append([]store.Change(nil), r.Changes...)
	for i, ch := range all.Changes {
		if r.Entity == guest && ch.Kind == store.KeepParams && ch.Debit == 0 && ch.Limit != hidden && len(all.Changes) > 1 {
			all.Changes[i] = store.Change{Kind: store.RemoveLimit, Limit: ch.Limit}
		}
	}
	return s.Store.Refill(ctx, &all)
}

// TestLimitsThatComeAndGoAreSeen: the checker reports a limit that a client removes from an
// item and puts back full, because a limit's books outlive its absence.
func TestLimitsThatComeAndGoAreSeen(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(limiter.Store) limiter.Store{
		"by a configuration that flickers": func(s limiter.Store) limiter.Store { return flickering{s} },
		"by requests that do not bring it": func(s limiter.Store) limiter.Store { return whole{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen(t, "P1", odds{}, breakage{store: store})
		})
	}
}
