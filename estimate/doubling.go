package estimate

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// mayDouble reports whether a bucket whose item has used its hidden write limit gets more
// shards now.
func (s *simulation) mayDouble(it *item) bool {
	const pause = time.Second
	return !it.reshaping && len(it.shards) < store.MaxShards && s.now-it.doubled >= pause
}

// waitForWrites lets a crowd wait until its shard has earned a write, or until the bucket has
// more shards.
func (s *simulation) waitForWrites(k *known, shard int, crowd []*claim, tries int) {
	if s.mayDouble(k.item) {
		s.double(k, shard, crowd)
		return
	}
	s.after(time.Millisecond, func() {
		s.serve(k, shard, append(crowd, k.views[shard].takes.rest()...), false, tries)
	})
}

// double splits each shard of a bucket in two, shard 0 after the others. The crowd then
// chooses among the new shards.
func (s *simulation) double(k *known, from int, crowd []*claim) {
	it := k.item
	it.reshaping = true
	count := len(it.shards)
	took := 2 * s.o.Latency
	if count > 1 {
		took += s.o.Latency
	}
	const reads = 3 // of each shard: which there are, and whether more were lost
	s.books.add(causeDoubled, 0, reads*float64(count))
	for range count {
		s.books.add(causeDoubled, splitWrites(it.units), 0)
	}
	s.after(took, func() {
		for i := range count {
			sh := s.accrue(it, i)
			twin := &shard{tokens: make([]int64, len(sh.tokens)), at: sh.at, writes: store.WritesPerSecond, planned: s.millis(s.now), cut: never}
			for j := range sh.tokens {
				twin.tokens[j] = sh.tokens[j] / 2
				sh.tokens[j] -= twin.tokens[j]
			}
			sh.stored, twin.stored = slices.Clone(sh.tokens), slices.Clone(twin.tokens)
			it.shards = append(it.shards, twin)
		}
		it.reshaping, it.doubled = false, s.now
		k.grow(len(it.shards))
		for i := range it.shards {
			s.see(k, i, it.shards[i], s.now)
			s.stream.record(it, i)
		}
		for _, c := range crowd {
			s.route(c)
		}
		s.leave(k, from)
	})
}
