package limiter

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"time"
)

// A contention is what a process knows of others that write to the same item.
//
// A write that its condition refuses decides nothing, but is billed like any
// other and loads the partition like any other, and no limit on the item counts
// it. So where an item takes more than [busy] writes a second and many of this
// process's are spoiled by those of others, the process writes less often, and
// for more callers at a time, until the item takes no more than that. How many
// it takes is known from what its hidden write limit has counted. All this is
// forgotten when nothing was written for a second.
//
// Most of it is without need. A refill moves the stamp, and that refuses all
// others who are on their way. So where stamps were seen to move under writes,
// debits leave the stamp alone for a while:
//
//   - A balance that has not accrued to its capacity is debited as it was at the
//     stamp, below zero if need be, provided that what was earned since then
//     makes up for it. That is as exact as a refill.
//   - One that overflows all the time, being used less than the limits allow,
//     cannot be: each debit would first have to cut what has overflowed. It is
//     decided as of an instant up to 50 ms ago, at which it had not: by a take
//     that asks only that the stamp is no older. What is admitted is what a
//     client admits whose clock is late by as much. Where others write too, the
//     stamp has probably been moved since it was seen. A process that is alone
//     with an item moves it itself, once.
type contention struct {
	movedAt int64 // when the stamp was last found to have moved under a write, in milliseconds
	wroteAt int64 // when the last write was answered, in milliseconds
	hurried int   // how many writers were told to leave the stamp alone
	alone   bool  // hardly anybody else wrote among the writes counted last
	moving  int   // how many writes of this process that move the stamp are under way

	part  float64 // of the writes counted last, how many others spoiled
	apart float64 // how far apart writes are to be, in milliseconds

	// The writes counted at present:
	since    int64   // when the first was answered, in milliseconds
	consumed int64   // what the item's hidden write limit had counted then
	sent     float64 // how many this process sent
	spoiled  float64 // how many of these others spoiled
}

const (
	// lateness is by how much a debit of a bucket that overflows may be late, in
	// milliseconds.
	lateness = 50
	// restamped is how old a stamp gets that debits leave alone, in milliseconds:
	// the hidden write limit, which nearly always overflows, may be wrong by what
	// it earns in that time.
	restamped = 500
	// refreshers is one in how many writes moves a stamp that has come to half of
	// its age, so that not everybody finds it too old at once.
	refreshers = 8
	// contentionMemory is how long contention is remembered, in milliseconds.
	contentionMemory = 1_000

	// counted is how long writes are counted before their distance is adjusted,
	// in milliseconds.
	counted = 100
	// enough is the least number of writes to tell by.
	enough = 8
	// busy is how many writes a second, spoiled ones included, an item is to take
	// if many of them are spoiled.
	busy = 700
	// many is the part of the writes that are many.
	many = 0.1
	// ownPart is up to how many times its own writes a process counts that is
	// alone with an item: the answers of some are still on their way.
	ownPart = 1.25
	// mostApart is the greatest distance of writes, in milliseconds.
	mostApart = 256
)

// note takes in the outcome of a write, and the item after it.
func (c *contention) note(img *Image, spoiled, moved bool, now int64) {
	if now-c.wroteAt > contentionMemory {
		c.apart, c.since = 0, 0
	}
	c.wroteAt = now
	if c.since == 0 {
		c.since, c.consumed, c.sent, c.spoiled = now, img.Writes.Consumed, 0, 0
	}
	c.sent++
	if spoiled {
		c.spoiled++
	}
	if moved {
		c.movedAt = now
	}
	if took := now - c.since; took >= counted && (c.sent >= enough || took >= contentionMemory) {
		c.part = c.spoiled / c.sent
		written := float64(img.Writes.Consumed - c.consumed)
		c.alone = written <= ownPart*(c.sent-c.spoiled)*writeCost
		c.space(written / float64(took) / max(1-c.part, 1/c.sent)) // millitokens a millisecond are writes a second
		c.since, c.consumed, c.sent, c.spoiled = now, img.Writes.Consumed, 0, 0
	}
}

// space adjusts how far apart writes are to be, by how many the item takes in a
// second.
func (c *contention) space(load float64) {
	if c.part > many && load > busy {
		c.apart = min(mostApart, max(1, c.apart)*min(2, load/busy))
		return
	}
	if c.apart *= max(0.5, min(1, load/busy)); c.apart < 1 {
		c.apart = 0
	}
}

// isFoughtOver reports whether a shard takes so many writes because they are in
// vain, which more shards would not change. Its writes are spaced then.
func (a *account) isFoughtOver(shard int, now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if now-c.wroteAt > contentionMemory || c.part < 2*many {
		return false
	}
	c.apart = min(mostApart, max(1, 2*c.apart))
	return true
}

// inheritedLocked is how much a new shard is fought over: as much as the one that
// it is split off.
func (a *account) inheritedLocked(shard int) contention {
	if shard == 0 {
		return contention{}
	}
	donor := a.shards[shard-1<<(bits.Len(uint(shard))-1)]
	if donor == nil {
		return contention{}
	}
	return contention{movedAt: donor.contention.movedAt, wroteAt: donor.contention.wroteAt, apart: donor.contention.apart, part: donor.contention.part}
}

// isSpaced reports whether writes to a shard are held back.
func (a *account) isSpaced(shard int, now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	return c.apart > 0 && now-c.wroteAt <= contentionMemory
}

// holdBack waits until a write to a shard is likely not to be spoiled by those of
// others, or until its caller leaves.
func (l *Limiter) holdBack(ctx context.Context, acct *account, shard int, left <-chan struct{}) error {
	if l.places.base == 0 {
		return nil
	}
	return sleep(ctx, left, acct.heldBack(shard, l.now(), l.rand))
}

func (a *account) heldBack(shard int, now int64, draw func(int64) int64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if c.apart == 0 || now-c.wroteAt > contentionMemory {
		return 0
	}
	return time.Duration(c.wroteAt+draw(int64(2*c.apart))+1-now) * time.Millisecond
}

// contended notes the outcome of a write to a shard that was worked out from the
// image seen. Others that write to one that is full will move its stamp sooner or
// later, whether or not they have just done so.
func (a *account) contended(seen *Image, out Outcome, full bool, now int64) {
	spoiled := !out.Applied && seen != nil && out.Image != nil && !seen.isSame(out.Image)
	if !spoiled && !out.Applied {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(out.Image.Shard).contention
	moved := spoiled && out.Image.RefilledAt != seen.RefilledAt
	if full && out.Applied && seen != nil && now-c.movedAt <= contentionMemory {
		moved = out.Image.Writes.Consumed-seen.Writes.Consumed > writeCost
	}
	c.note(out.Image, spoiled, moved, now)
}

// isSame reports whether nobody wrote to the item between two images of it.
func (i *Image) isSame(other *Image) bool {
	return i.RefilledAt == other.RefilledAt && i.ShardCount == other.ShardCount && i.Writes.Consumed == other.Writes.Consumed
}

// A haste is what a writer to an item is told about its stamp.
type haste struct {
	leave     bool // it is contended: leave it alone
	refreshes bool // but not if the item does not overflow and its stamp is half as old as it may be
	// yours says that it is as the process knows it: nobody else moves it, and no
	// write of its own is about to.
	yours bool
}

// hurry tells a writer to a shard whether to leave the stamp alone.
func (a *account) hurry(shard int, now int64) haste {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if c.movedAt == 0 || now-c.movedAt > contentionMemory {
		return haste{}
	}
	c.hurried++
	return haste{leave: true, refreshes: c.hurried%refreshers == 0, yours: c.alone && c.moving == 0}
}

// moves counts so many writes more under way that move the stamp of a shard.
func (a *account) moves(shard, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shardLocked(shard).contention.moving += n
}

// takeInHaste is the take that debits a contended item without moving its stamp,
// nil if that cannot be done, as far as an image tells.
func (c *claim) takeInHaste(img *Image, fresh bool, now int64) *Take {
	if !c.haste.leave || img.Foreign != "" || !img.isPlain(now) {
		return nil
	}
	age, t := now-img.RefilledAt, c.take(img, now)
	full := slices.ContainsFunc(c.amounts, func(a Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > 0 && img.overflows(&s, now)
	})
	if c.haste.refreshes && !full {
		age *= 2
	}
	writes := img.Writes.whole()
	switch {
	case !full && age <= restamped && writes.Admits(img.Writes.Tokens, img.RefilledAt, now, writeCost):
		t.Stamp = img.RefilledAt
		t.Earned = writes.Earned(img.RefilledAt, now)
	case full && (age <= lateness || !fresh && !c.haste.yours) && img.Writes.Tokens >= writeCost:
		t.Since = now - lateness // by now others may have moved it
	default:
		return nil
	}
	for i := range t.Debits {
		d := &t.Debits[i]
		s, _ := img.Limit(d.Limit)
		l := img.share(s.Params)
		if t.Stamp != 0 {
			d.Earned = l.Earned(t.Stamp, now)
		} else {
			d.AtMost = l.Capacity
		}
		if d.Milli > s.Tokens+d.Earned {
			return nil
		}
	}
	return t
}

// refillInHaste is [claim.takeInHaste] for an item that is debited together with
// others: a refill that stays at the stamp seen.
func (c *claim) refillInHaste(img *Image, now int64) *Refill {
	t := c.takeInHaste(img, true, now)
	if t == nil || t.Stamp == 0 {
		return nil
	}
	r := &Refill{
		Bucket: img.Bucket, Seen: img, RefilledAt: img.RefilledAt,
		Writes:  Change{Limit: reservedLimit, Debit: writeCost, AtLeast: writeCost - t.Earned, AtMost: math.MaxInt64},
		Changes: make([]Change, 0, len(t.Debits)),
	}
	for _, d := range t.Debits {
		r.Changes = append(r.Changes, Change{Limit: d.Limit, Debit: d.Milli, AtLeast: d.Milli - d.Earned, AtMost: d.AtMost})
	}
	return r
}
