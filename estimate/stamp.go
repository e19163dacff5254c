package estimate

import (
	"math"
	"time"
)

// A dependence is how a write depends on the stamp of an item that other processes write to,
// too: the instant up to which the item's balances have accrued (ADR 017).
type dependence struct {
	shard   int
	fresh   bool // the write is planned on an image that has just come
	accrues bool // the write needs what was earned since the stamp
	moves   bool // the write moves the stamp for that
	probes  bool // the write takes what the item held at the stamp
	// cuts says that the write cuts what was earned beyond the capacity, for which nobody may
	// have moved the stamp within the window, nor debited more than it earns. late says that
	// it leaves the stamp to another process.
	cuts, late bool
	window     time.Duration
}

const (
	// stampAge is the age up to which processes leave a stamp alone. From half of it on, one
	// of them moves it.
	stampAge = time.Second
	// lateness is how old the stamp of an overflowing item may be for writes that leave it.
	lateness = 50 * time.Millisecond
)

// dependenceOf is how a write depends on the stamp.
func (s *simulation) dependenceOf(k *known, shard int, sums []int64, fresh bool) dependence {
	img := &k.views[shard].image
	d := dependence{shard: shard, fresh: fresh}
	took := int64(1 + img.taken) // in which the hidden write limit fills up, in milliseconds
	for j, n := range sums {
		if n <= 0 {
			continue
		}
		part := k.item.limits[j].Share(shard, len(k.item.shards))
		d.accrues = d.accrues || img.stored[j] < n
		if s.balance(k, shard, j) == part.Capacity {
			d.cuts = true
			if ms, ok := part.Wait(min(img.tokens[j], part.Capacity-n), 0, 0, part.Capacity); ok {
				took = min(max(took, ms), math.MaxInt32)
			}
		}
	}
	const others = 4 // times that an item needs to fill up, it is taken to have been full
	d.window = time.Duration(others*took) * time.Millisecond
	shared := s.isShared(k, shard)
	d.moves = d.accrues && (s.now-img.stamped >= stampAge/2 || !shared)
	// A process expects that others take what a shared item earns. So it does not count on
	// that before an answer shows it.
	d.probes = d.moves && shared && !fresh
	age := s.now - img.cut
	d.late = d.cuts && s.now-k.views[shard].moved <= stampAge && (shared || age < lateness/2) && (!fresh || age <= lateness)
	return d
}

// isRefused reports whether the item refuses the write for its stamp. The process then knows
// who moves it.
func (d *dependence) isRefused(s *simulation, k *known, sh *shard) bool {
	img, moved := &k.views[d.shard].image, &k.views[d.shard].moved
	switch {
	case d.late && s.now-sh.cut > lateness:
		*moved = never
		return true
	case d.late:
		*moved = s.now
		return false
	case d.cuts && sh.cut != img.cut && s.now-sh.cut < d.window:
		*moved = s.now
		return true
	case d.cuts && time.Duration(1+sh.taken)*time.Millisecond > d.window:
		const refusal, many = 2, 8
		if k.refusedMoves += refusal; k.refusedMoves >= many {
			*moved, k.refusedMoves = s.now, 0
		}
		return true
	}
	if !d.probes && d.accrues && sh.stamp != img.stamp {
		*moved = s.now
		return true
	}
	return d.probes
}

// applied notes that the write has taken effect.
func (d *dependence) applied(s *simulation, k *known, sh *shard) {
	sh.taken++
	if d.cuts && !d.late {
		sh.cut, sh.taken = s.now, 0
		copy(sh.stored, sh.tokens)
		k.refusedMoves = max(0, k.refusedMoves-1)
	}
	if d.moves {
		sh.stamp++
		sh.stamped = s.now
		copy(sh.stored, sh.tokens)
	}
}
