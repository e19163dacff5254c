package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
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

// whole removes the limits from an item that a request does not bring, like a client
// for which the limits of a request are all that the bucket is to have.
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

// TestLimitsThatComeAndGoAreSeen: a limit that a client takes off an item and puts back
// full is reported, because the books of a limit outlive its absence.
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
