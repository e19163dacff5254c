package loadtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/store"
)

// maxCompared is the number of buckets that are compared with the table, those with the
// highest demand. Each costs a read.
const maxCompared = 20_000

// milli is the number of millitokens in a token.
const milli = store.Milli

// balance compares the books with the table: the counters of consumed tokens of a bucket's
// shards add up to what the answers to its operations say.
func (s *side) balance(ctx context.Context) (*result.Balance, error) {
	all := s.books.all()
	slices.SortStableFunc(all, func(a, b *account) int { return int(min(max(b.demand()-a.demand(), -1), 1)) })
	b := &result.Balance{Left: max(0, len(all)-maxCompared)}
	all = all[:len(all)-b.Left]
	var mu sync.Mutex
	err := setup.Each(ctx, len(all), func(ctx context.Context, i int) error {
		a := all[i]
		images, err := s.store.Buckets(ctx, s.plan.Entities[a.entity].ID, s.plan.Resources[a.resource].Name, 1)
		if err != nil {
			return fmt.Errorf("compare the books with the table: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		s.compare(b, a, images)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// compare compares an account with its items.
func (s *side) compare(b *result.Balance, a *account, images []*store.Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made == 0 && len(images) == 0 {
		return // nobody got anything
	}
	if len(images) == 0 || a.made > 0 && images[0].Shard == 0 && images[0].CreatedAt > a.made {
		b.Expired++
		return
	}
	b.Buckets++
	for i := range a.uses {
		if a.limits[i].Name == "" {
			continue
		}
		var found int64
		for _, img := range images {
			l, _ := img.Limit(a.limits[i].Name)
			found += l.Consumed
		}
		u := &a.uses[i]
		b.Booked += u.least
		b.Open += u.most - u.least
		b.Found += found / milli
		if found >= u.least*milli && found <= u.most*milli {
			continue
		}
		if b.Wrong++; b.FirstWrong == "" {
			b.FirstWrong = fmt.Sprintf("%s, %s, %s: the operations consumed %d to %d tokens, the table counts %d",
				s.plan.Entities[a.entity].ID, s.plan.Resources[a.resource].Name, a.limits[i].Name, u.least, u.most, found/milli)
		}
	}
}
