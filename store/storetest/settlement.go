package storetest

import (
	"errors"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/store"
)

// A onceStore is a kit whose store settles once.
type onceStore struct {
	*kit
	once store.OnceStore
}

// ofOnce is a test that a store passes which does not settle once.
func ofOnce(name string, run func(*onceStore)) test {
	return test{name, func(k *kit) {
		if once, ok := k.Store.(store.OnceStore); ok {
			run(&onceStore{k, once})
		}
	}}
}

// record is the record of a settlement, which leaves seven tokens taken.
func (k *kit) record() store.SettlementRecord {
	return store.SettlementRecord{
		Bucket: store.Bucket{Entity: theBucket.Entity, Resource: theBucket.Resource, Shard: 1}, Key: "lease-1",
		Totals: map[string]int64{"gpt-4/rpm": 7, "gpt-4/tpm": 0}, ExpiresAt: time.Unix(k.now/milli+3600, 0).UTC(),
	}
}

// settle carries out writes with the record.
func (s *onceStore) settle(writes ...store.SettlementWrite) store.SettledOnce {
	s.Helper()
	done, err := s.once.SettleOnce(s.Context(), &store.Settlement{Record: s.record(), Writes: writes})
	if err != nil {
		s.Fatal(err)
	}
	return done
}

// returnsTokens is a write that returns tokens of rpm.
func returnsTokens(seen *store.Image, tokens int64) store.SettlementWrite {
	return store.SettlementWrite{Adjust: &store.Adjust{Bucket: seen.Bucket, Seen: seen, Deltas: []store.Delta{credits(tokens)}}}
}

// returned is the image after that write.
func returned(img *store.Image, tokens int64) *store.Image {
	return with(img, func(i *store.Image) { debit(i, "rpm", -tokens); written(i) })
}

// foundBefore checks the answer to a settlement that came later.
func (s *onceStore) foundBefore(done store.SettledOnce) {
	s.Helper()
	before := s.record()
	if diff := cmp.Diff(store.SettledOnce{Before: &before}, done); diff != "" {
		s.Errorf("a second settlement (-want +got):\n%s", diff)
	}
}

var settlementTests = []test{
	ofOnce("it adjusts, refills and records", func(s *onceStore) {
		img := s.split(2)
		s.joint(s.settle(returnsTokens(img[0], 3), store.SettlementWrite{Refill: consumes(img[1], 2)}).Joint, nil)
		s.stored(theBucket, returned(img[0], 3), consumed(img[1], 2))
	}),
	ofOnce("it only records", func(s *onceStore) {
		s.joint(s.settle().Joint, nil)
		s.foundBefore(s.settle())
	}),
	ofOnce("a second one finds the record, and changes nothing", func(s *onceStore) {
		img := s.create(s.newBucket())
		s.joint(s.settle(returnsTokens(img, 3)).Joint, nil)
		s.foundBefore(s.settle(returnsTokens(img, 5)))
		s.foundBefore(s.settle())
		s.stored(theBucket, returned(img, 3))
	}),
	ofOnce("it is refused by a bucket that has changed, and records nothing", func(s *onceStore) {
		img := s.split(2)
		taken := s.mustApply(s.Take(s.Context(), &store.Take{Bucket: img[1].Bucket, Now: s.now, Debits: debitsOf(store.Amount{Limit: "rpm", Milli: milli})}))
		later := store.SettlementWrite{Refill: consumes(img[1], 50*milli)}
		s.joint(s.settle(returnsTokens(img[0], 3), later).Joint, nil, notRefused, refusedBy(taken))
		s.stored(theBucket, img[0], taken)
		s.joint(s.settle(returnsTokens(img[0], 3)).Joint, nil)
	}),
	ofOnce("it is refused by a bucket that is gone", func(s *onceStore) {
		img := s.create(s.newBucket())
		gone := with(img, func(i *store.Image) { i.Resource = "gone" })
		s.joint(s.settle(returnsTokens(img, 3), returnsTokens(gone, 3)).Joint, nil, notRefused, refusedBy(nil))
		s.stored(theBucket, img)
	}),
	ofOnce("of two at once one is carried out", func(s *onceStore) {
		img := s.create(s.newBucket())
		const sent = 4
		applied := make(chan bool, sent)
		for range sent {
			go func() {
				for {
					done, err := s.once.SettleOnce(s.Context(), &store.Settlement{Record: s.record(), Writes: []store.SettlementWrite{returnsTokens(img, 3)}})
					if !errors.Is(err, store.ErrConflict) {
						applied <- done.Applied
						return
					}
				}
			}()
		}
		n := 0
		for range sent {
			if <-applied {
				n++
			}
		}
		if n != 1 {
			s.Errorf("%d were carried out", n)
		}
		s.stored(theBucket, returned(img, 3))
	}),
	ofOnce("it is invalid", func(s *onceStore) {
		img := s.create(s.newBucket())
		change := func(change func(*store.Settlement)) store.Settlement {
			t := store.Settlement{Record: s.record(), Writes: []store.SettlementWrite{returnsTokens(img, 3)}}
			change(&t)
			return t
		}
		for name, t := range map[string]store.Settlement{
			"no key":        change(func(t *store.Settlement) { t.Record.Key = "" }),
			"no entity":     change(func(t *store.Settlement) { t.Record.Entity = "" }),
			"an item twice": change(func(t *store.Settlement) { t.Writes = append(t.Writes, t.Writes[0]) }),
			"no resource":   change(func(t *store.Settlement) { t.Writes[0].Adjust.Resource = "" }),
			"more than it can": change(func(t *store.Settlement) {
				for i := range store.MaxSettlementWrites {
					other := with(img, func(of *store.Image) { of.Resource = "r" + strconv.Itoa(i) })
					t.Writes = append(t.Writes, returnsTokens(other, 3))
				}
			}),
		} {
			done, err := s.once.SettleOnce(s.Context(), &t)
			if done.Applied {
				s.Errorf("%s: carried out", name)
			}
			s.invalid(name, err)
		}
		s.stored(theBucket, img)
	}),
}
