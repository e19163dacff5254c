package limiter

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A contention is what a process knows of the others that write to the same item.
//
// Processes that share an item refuse each other's writes in two ways. A refill
// moves the stamp, which refuses every write that was worked out from the old one.
// And where a limit is hit, a write asks for tokens that another process has just
// taken. DynamoDB bills a refused write and counts it against the partition.
//
// One rule keeps refused writes rare and the shares of all processes equal. It sets
// the pace by what every process sees alike: the item's own count of writes, and its
// balances. A process's own success does not change its pace, because a process that
// lost once would then lose more each time. While others write to the item, a process
//
//   - leaves the stamp where it is ([claim.takeAtStamp]);
//   - expects the others to take what the item earns: it plans on the balances
//     that it last saw ([account.predicted]), and asks for a part of them, but for
//     no less than its first caller wants;
//   - pauses between two writes, for longer the less the item holds and the more
//     writes it takes ([shard.pause]). Callers line up meanwhile and share the
//     next write.
//
// The balance regulates the pauses. It falls if all processes together ask for
// more than the limit gives, and all of them then pause for longer.
type contention struct {
	// Instants are by [Limiter.uptime].
	movedAt      time.Duration // when others were last found to move the stamp; 0 is that they do not
	spoiled      int           // how often others' debits refused a move of the stamp lately: twice that, less the moves that were applied
	othersAt     time.Duration // when the item was last found to be written to by others too; 0 is never
	load         float64       // writes a second that the item took lately, as it counted them
	sentAt       time.Duration // when this process last sent a write
	way          int64         // how long the last answer took to come, halved: about how old a write is when it takes effect, in milliseconds
	refusedAt    time.Duration // when a write of this process was last refused; 0 is that one was applied since
	refusedSince time.Duration // since when all of its writes have been
	jitter       float64       // scales the pause after that write: from 0.5 to 1.5
	sending      int           // writes of this process that are under way
	moving       int           // how many of them move the stamp

	census census
	// The count of the item's writes in progress, which a new one replaces after
	// countPeriod:
	countedAt time.Duration // when it began; 0 is that there is none
	counted   int64         // what the item had counted then
}

const (
	// lateness is by how much a debit of a bucket that overflows may be late, in
	// milliseconds.
	lateness = 50
	// stampAge is how old a stamp gets that writers leave alone, in milliseconds; one
	// of them moves it once it has come to half of that.
	// The hidden write limit nearly always overflows, and is wrong by what it
	// earns in this time.
	stampAge = 1_000
	// contentionMemory is for how long others are presumed to go on writing that
	// were not seen again.
	contentionMemory = time.Second
	// countPeriod is how long writes are counted before the count tells something.
	countPeriod = 100 * time.Millisecond

	// longestPause is the pause of a writer to an item that holds nothing, in
	// milliseconds: 16 processes whose writes take 2 ms to arrive then send 530 writes
	// a second. If the limit takes longer to earn what the writer asks for, pauseAsks
	// times, the pause is as long as that, up to slowestPause.
	longestPause = 36
	slowestPause = 240
	pauseAsks    = 19
	// A writer pauses half as long if its writes take farWay milliseconds to arrive.
	farWay = 10
	// An item that holds what a limit earns in plentyTime milliseconds, what the
	// writer asks for, plentyAsks times, or half of the capacity, makes nobody pause.
	plentyTime = 60
	plentyAsks = 4
	// oftenSpoiled is how often is too often, see the field spoiled.
	oftenSpoiled = 8
	// A writer asks for one in leastPart of the tokens that an item holds, so that the
	// others find the rest; for one in mostPart if the item takes as many writes in
	// shareTime milliseconds.
	leastPart, mostPart = 4, 8
	shareTime           = 15
	// From easyLoad writes a second on, pauses grow, to the longest at fullLoad. A
	// partition takes 1,000, refused ones included, which the item does not count.
	easyLoad, fullLoad = 450, 825
)

// isShared reports whether others write to the item, too.
func (c *contention) isShared(up time.Duration) bool {
	return c.othersAt != 0 && up-c.othersAt <= contentionMemory
}

// isLate reports whether others move the stamp, so that a bucket that overflows is
// debited late.
func (c *contention) isLate(up time.Duration) bool {
	return c.movedAt != 0 && up-c.movedAt <= contentionMemory
}

// noteStamp takes in what an answer tells of who moves the stamp of a bucket that
// overflows. A process leaves the stamp to the others when its own move is refused
// because another one has moved the stamp, or when others' debits have spoiled its
// moves several times. It moves the stamp again when nobody has for a while. In the
// best case one process moves it.
func (c *contention) noteStamp(use stampUse, out store.Outcome, m moment) {
	switch {
	case out.Applied && use.late:
		c.movedAt = m.up
	case out.Applied:
		c.spoiled = max(0, c.spoiled-1)
	case use.late && m.now-out.Image.RefilledAt > lateness:
		c.movedAt = 0
	case use.seen != 0 && out.Image.RefilledAt != use.seen:
		c.movedAt = m.up
	case use.seen != 0 && use.moves:
		if c.spoiled += 2; c.spoiled >= oftenSpoiled {
			c.movedAt, c.spoiled = m.up, 0
		}
	}
}

// measure takes in the item's count of writes.
func (c *contention) measure(count int64, up time.Duration) {
	took := up - c.countedAt
	if c.countedAt == 0 || took > contentionMemory || count < c.counted {
		c.countedAt, c.counted, c.load = up, count, 0
		return
	}
	if took >= countPeriod {
		c.load = float64(count-c.counted) / took.Seconds()
		c.countedAt, c.counted = up, count
	}
}

// inheritedLocked is what a new shard begins with: others write to it if they write
// to the one that it is split off.
func (a *account) inheritedLocked(shard int) contention {
	if shard == 0 {
		return contention{}
	}
	donor := a.shards[shard-1<<(bits.Len(uint(shard))-1)]
	if donor == nil {
		return contention{}
	}
	return contention{othersAt: donor.contention.othersAt, jitter: donor.contention.jitter}
}

// isSharedShard reports whether others write to a shard, too.
func (a *account) isSharedShard(shard int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(shard).contention.isShared(up)
}

// A modesty is how much of what an item holds one write asks for.
type modesty struct {
	part int64 // one in how many tokens; 1 is all
	way  int64 // how long the write is on its way until it takes effect, in milliseconds
}

// modesty is that of the next writer to a shard.
func (a *account) modesty(shard int, up time.Duration) modesty {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if !c.isShared(up) {
		return modesty{part: 1}
	}
	return modesty{part: min(max(leastPart, int64(c.load*shareTime/milli)), mostPart), way: c.way}
}

// isShared reports whether others write to any shard of a bucket, too.
func (a *account) isShared(up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isSharedLocked(up)
}

func (a *account) isSharedLocked(up time.Duration) bool {
	return slices.ContainsFunc(a.shards, func(s *shard) bool { return s != nil && s.contention.isShared(up) })
}

// predicted is an image of a shard as the item probably is by now. Where others
// write to it, they take what it earns: it holds what it held when it was seen,
// unless that was so much that it is probably full.
func (a *account) predicted(img *store.Image, m moment) *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(img.Shard)
	if s.img != img || img.Foreign != "" || !s.contention.isShared(m.up) {
		return img
	}
	guess := *img
	guess.Limits = slices.Clone(img.Limits)
	for i := range guess.Limits {
		l := &guess.Limits[i]
		part := shareOf(img, l.Params)
		if was := part.Balance(l.Tokens, img.RefilledAt, s.seen.now); was < part.Capacity/2 {
			l.Tokens = was - part.Earned(img.RefilledAt, m.now)
		}
	}
	return &guess
}

// A stampRule is how a writer to an item treats its stamp.
type stampRule struct {
	leave  bool    // other writes may be under way that count on the stamp
	late   bool    // it moves so often that a bucket that overflows is debited late
	moving bool    // one of this process moves it
	seenAt int64   // when the stamp was last seen, in milliseconds by the store's clock
	shared bool    // others write, too
	others float64 // then writes a second
	luck   float64 // from 0 to 1
}

// stampRule is how the next writer to a shard treats the stamp.
func (a *account) stampRule(shard int, up time.Duration, draw func(int64) int64) stampRule {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(shard)
	c := &s.contention
	shared := c.isShared(up)
	r := stampRule{leave: shared || c.sending > 0, late: c.isLate(up), moving: c.moving > 0, shared: shared, seenAt: s.seen.now}
	if shared {
		r.others, r.luck = c.load, float64(draw(milli))/milli
	}
	return r
}

// moves reports whether this writer moves a stamp that is older than an age, in
// milliseconds. Of those who have come since then, one does on average.
func (r stampRule) moves(img *store.Image, age, now int64) bool {
	old := img.RefilledAt + age
	return !r.moving && now >= old && r.luck*r.others*float64(now-max(r.seenAt, old)) < milli
}

// takeAtStamp is the take that debits an item without moving its stamp, nil if that
// cannot be done, as far as an image tells.
//
// A balance that has not accrued to its capacity is debited as it was at the stamp,
// below zero if need be, provided that what was earned since makes up for it: as
// exact as a refill, but such takes do not refuse each other. A balance that
// overflows would first have to be cut. It is decided as of an instant up to
// lateness ago, by a take that asks for a stamp no older than that.
func (c *claim) takeAtStamp(img *store.Image, fresh bool, now int64) *store.Take {
	if !c.stamp.leave && !c.stamp.late || img.Foreign != "" || !isPlain(img, now) {
		return nil
	}
	age, t := now-img.RefilledAt, c.take(img, now)
	full := slices.ContainsFunc(c.amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > 0 && overflows(img, &s, now)
	})
	oldest := int64(stampAge)
	if full {
		oldest = lateness
	}
	writes := wholeOf(&img.Writes)
	moves := c.stamp.moves(img, oldest/2, now)
	if full {
		// Those who share a bucket that overflows leave its stamp to one of them.
		moves = !c.stamp.late || moves && !c.stamp.shared
	}
	switch {
	case moves:
		return nil
	case !full && age <= stampAge && writes.Admits(img.Writes.Tokens, img.RefilledAt, now, writeCost):
		t.Stamp = img.RefilledAt
		t.Earned = writes.Earned(img.RefilledAt, now)
	case full && (age <= lateness || !fresh) && img.Writes.Tokens >= writeCost:
		t.Since = now - lateness
	default:
		return nil
	}
	for i := range t.Debits {
		d := &t.Debits[i]
		s, _ := img.Limit(d.Limit)
		l := shareOf(img, s.Params)
		if d.AtMost = l.Capacity; t.Stamp != 0 {
			d.Earned = l.Earned(t.Stamp, now)
			d.AtMost -= d.Earned
		}
		if fresh && d.Milli > s.Tokens+d.Earned {
			return nil
		}
	}
	return t
}

// refillAtStamp is [claim.takeAtStamp] for an item that is debited together with
// others: a refill that keeps the stamp seen.
func (c *claim) refillAtStamp(img *store.Image, now int64) *store.Refill {
	t := c.takeAtStamp(img, true, now)
	if t == nil || t.Stamp == 0 {
		return nil
	}
	r := &store.Refill{
		Bucket: img.Bucket, Seen: img, RefilledAt: img.RefilledAt,
		Writes:  store.Change{Limit: store.WriteLimit, Debit: writeCost, AtLeast: writeCost - t.Earned, AtMost: math.MaxInt64},
		Changes: make([]store.Change, 0, len(t.Debits)),
	}
	for _, d := range t.Debits {
		r.Changes = append(r.Changes, store.Change{Limit: d.Limit, Debit: d.Milli, AtLeast: d.Milli - d.Earned, AtMost: d.AtMost})
	}
	return r
}
