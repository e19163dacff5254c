package estimate

import (
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// dice are the random numbers of a simulation, the same in every one.
type dice struct{ *rand.Rand }

func newDice() dice {
	return dice{rand.New(rand.NewPCG(1, 2))} //nolint:gosec // a simulation that is to repeat
}

func (d dice) below(n int) int { return d.IntN(n) }

// The rule by which processes that share an item pause between two writes (ADR 017).
const (
	easyWrites, fullWrites = 450, 825 // writes a second at which pauses begin, and are longest
	longestPause           = 36       // milliseconds
	slowestPause           = 240      // milliseconds, on an item that earns slowly
	farDelay               = 10       // milliseconds to the item at which pauses are half as long
)

// loadPause is the mean pause of a process between two writes to an item that takes so many
// a second, in milliseconds. delay is half of the latency, in milliseconds.
func loadPause(load, delay float64) float64 {
	return longestPause * min(1, max(0, (load-easyWrites)/(fullWrites-easyWrites))) * farDelay / (farDelay + delay)
}

// pauseOf is how long a claim at the front still waits before its write is sent.
func (s *simulation) pauseOf(c *claim) time.Duration {
	k := c.k
	if !s.isKnown(k, c.shard) || !s.isShared(k, c.shard) {
		return 0
	}
	const plentyMillis, plentyAsks, pauseAsks = 60, 4, 19
	delay := (s.o.Latency / 2).Milliseconds()
	pause := loadPause(k.views[c.shard].load.perSecond, float64(delay))
	for j, n := range c.amounts {
		if n <= 0 {
			continue
		}
		part := k.item.limits[j].Share(c.shard, len(k.item.shards))
		img := &k.views[c.shard].image
		held := part.Balance(img.tokens[j], img.at, s.millis(img.seen)+delay)
		plenty := max(1, min(max(part.Earned(0, plentyMillis), plentyAsks*n), part.Capacity/2))
		if held >= plenty {
			continue
		}
		longest := int64(longestPause)
		if ms, ok := part.Wait(0, 0, 0, min(pauseAsks*n, part.Capacity)); ok {
			longest = min(max(longest, ms), slowestPause)
		}
		scarce := float64(longest) * (1 - float64(max(0, held))/float64(plenty)) * farDelay / (farDelay + float64(delay))
		pause = max(pause, scarce)
	}
	pause *= 0.5 + s.dice.Float64()
	return max(0, k.views[c.shard].sent+time.Duration(pause)*time.Millisecond-s.now)
}

// measure notes the count of writes of a shard.
func (k *known) measure(shard, count int, now time.Duration) {
	const period, memory = 100 * time.Millisecond, time.Second
	l := &k.views[shard].load
	switch took := now - l.since; {
	case l.since == never || took > memory:
		*l = load{since: now, count: count}
	case took >= period:
		*l = load{since: now, count: count, perSecond: float64(count-l.count) / took.Seconds()}
	}
}

// partOf is the divisor of the tokens of a shared item that one write asks for at most.
func (k *known) partOf(shard int) int64 {
	const least, most, millis = 4, 8, 15
	return min(max(least, int64(k.views[shard].load.perSecond*millis/store.Milli)), most)
}

// repeat tries a refused write again, and takes along those that wait by then. Every other
// try after the first few has a random pause before it, which grows.
func (s *simulation) repeat(k *known, shard int, crowd []*claim, lacks bool, tries int) {
	const free, step, most = 3, 2 * time.Millisecond, 50 * time.Millisecond
	pause := time.Duration(0)
	if tries > free && tries%2 == 0 {
		pause = time.Duration(s.dice.Int64N(int64(min(most, step<<min(tries-free, 10)))))
	}
	s.after(pause+s.makeHeard(k, shard), func() {
		more := time.Duration(0)
		if lacks && s.fits(k, shard, crowd[0].amounts) {
			more = s.pauseOf(crowd[0])
		}
		s.after(more, func() {
			const stale = 10 * time.Millisecond // an image of that age is not fresh
			s.serve(k, shard, append(crowd, k.views[shard].takes.rest()...), pause+more < stale, tries)
		})
	})
}

// hear notes whether a write was applied.
func (s *simulation) hear(k *known, shard int, applied bool) {
	const memory = time.Second
	switch {
	case applied:
		k.views[shard].unheard, k.views[shard].refusedAt = never, never
		return
	case k.views[shard].refusedAt == never || s.now-k.views[shard].refusedAt > memory:
		k.views[shard].unheard = s.now
	}
	k.views[shard].refusedAt = s.now
}

// makeHeard writes to a shard without a debit, if all writes of the process were refused for
// a time: the others know of it by the count of writes. It returns how long that takes.
func (s *simulation) makeHeard(k *known, shard int) time.Duration {
	const memory = time.Second
	if k.views[shard].unheard == never || s.now-k.views[shard].unheard <= memory/2 {
		return 0
	}
	sent := s.now
	s.books.add(causeContention, k.item.units, 0)
	s.after(s.o.Latency/2, func() {
		sh := s.accrue(k.item, shard)
		sh.earn(s.millis(sent))
		sh.writes--
		s.wrote(k, shard, sh)
		s.see(k, shard, sh, sent)
	})
	s.hear(k, shard, true)
	return s.o.Latency
}
