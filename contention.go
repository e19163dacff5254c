package limiter

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A contention is what a process knows of other processes that write to the same
// item.
//
// Processes that share an item refuse each other's writes in two ways. A refill moves
// the stamp, which refuses every write that was computed from the old stamp. And
// where a limit is hit, a write asks for tokens that another process has just taken.
// DynamoDB bills a refused write and counts it against the partition.
//
// One rule keeps refused writes rare and the shares of all processes equal. It sets
// the pace only by what every process sees alike: the item's own count of writes, and
// its balances. A process's own success does not change its pace, because a process
// that lost once would then lose more each time. While the item is shared, a process
//
//   - leaves the stamp where it is ([claim.takeAtStamp]);
//   - expects the others to take what the item earns, so it plans on the balances
//     that it last saw ([account.predicted]);
//   - asks for a part of those balances, but for no less than its first caller
//     wants;
//   - pauses between two writes, for longer the less the item holds and the more
//     writes it takes ([shard.pause]). Callers queue meanwhile and share the next
//     write.
//
// The balance regulates the pauses. It falls if all processes together ask for more
// than the limit gives, and then all of them pause for longer. See ADR 017.
type contention struct {
	// Instants are by [Limiter.uptime].
	movedAt      time.Duration // when others were last found to move the stamp; 0 if they do not
	spoiled      int           // moves of the stamp that others' debits refused lately, times two, less the moves that were applied
	othersAt     time.Duration // when the item was last found to be shared; 0 if never
	load         float64       // writes a second that the item took lately, by its own count
	sentAt       time.Duration // when this process last sent a write
	way          int64         // half of the time that the last answer took, in milliseconds: about how old a write is when it takes effect
	refusedAt    time.Duration // when a write of this process was last refused; 0 if one was applied since
	refusedSince time.Duration // since when all of its writes have been refused
	jitter       float64       // scales the pause after that write: from 0.5 to 1.5
	sending      int           // writes of this process under way
	moving       int           // how many of them move the stamp

	census census
	// The current count of the item's writes. A new count replaces it after countPeriod:
	countedAt time.Duration // when it began; 0 if there is none
	counted   int64         // the item's count of writes at that time
}

const (

	// stampAge is the age up to which writers leave a stamp alone, in milliseconds. From
	// half of that age on, one of them moves it. The hidden write limit nearly always
	// overflows, and is wrong by what it earns in this time.
	stampAge = 1_000
	// contentionMemory is how long a process presumes that others go on writing after it
	// last saw them write.
	contentionMemory = time.Second
	// countPeriod is how long a process counts writes before it uses the count.
	countPeriod = 100 * time.Millisecond

	// longestPause is the pause before a write to an item that holds nothing, in
	// milliseconds. With it, 16 processes whose writes take 2 ms to arrive send 530
	// writes a second. If the limit needs longer to earn pauseAsks times what the writer
	// asks for, the pause is that time, up to slowestPause.
	longestPause = 36
	slowestPause = 240
	pauseAsks    = 19
	// A writer pauses half as long if its writes take farWay milliseconds to arrive.
	farWay = 10
	// A writer does not pause if the item holds plenty. Plenty is what a limit earns in
	// plentyTime milliseconds, or plentyAsks times what the writer asks for if that is
	// more. It is at most half of the capacity.
	plentyTime = 60
	plentyAsks = 4
	// oftenSpoiled is the value of the field spoiled at which a process leaves the stamp
	// to others.
	oftenSpoiled = 8
	// A writer asks for at most 1/leastPart of the tokens that an item holds, so that
	// the others find the rest. If the item takes more than leastPart writes in
	// shareTime milliseconds, the divisor is that number, up to mostPart.
	leastPart, mostPart = 4, 8
	shareTime           = 15
	// From easyLoad writes a second on, pauses grow, and they are longest at fullLoad. A
	// partition takes 1,000, refused writes included, which the item does not count.
	easyLoad, fullLoad = 450, 825
)

// isShared reports whether other processes write to the item, too.
func (c *contention) isShared(up time.Duration) bool {
	return c.othersAt != 0 && up-c.othersAt <= contentionMemory
}

// isLate reports whether others move the stamp, so that this process debits an
// overflowing bucket late.
func (c *contention) isLate(up time.Duration) bool {
	return c.movedAt != 0 && up-c.movedAt <= contentionMemory
}

// noteStamp notes what an answer shows about the stamp of an overflowing bucket:
// which processes move it. A process leaves the stamp to others if its own move is
// refused because another process has moved the stamp. It also does so if others'
// debits have refused its moves several times. It moves the stamp again once nobody
// has done so for lateness. In the best case one process moves the stamp.
func (c *contention) noteStamp(use stampUse, out store.Outcome, m moment) {
	switch {
	case out.Applied && use.late:
		c.movedAt = m.up
	case out.Applied:
		c.spoiled = max(0, c.spoiled-1)
	case use.late && m.now-out.Image.RefilledAt > plan.Lateness:
		c.movedAt = 0
	case use.seen != 0 && out.Image.RefilledAt != use.seen:
		c.movedAt = m.up
	case use.seen != 0 && use.moves:
		if c.spoiled += 2; c.spoiled >= oftenSpoiled {
			c.movedAt, c.spoiled = m.up, 0
		}
	}
}

// measure notes the item's count of writes and updates the load.
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

// inheritedLocked returns the first contention of a new shard: the shard is shared if
// the shard that it was split from is.
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

// isSharedShard reports whether other processes write to a shard, too.
func (a *account) isSharedShard(shard int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(shard).contention.isShared(up)
}

// A modesty limits the part of an item's tokens that one write asks for.
type modesty struct {
	part int64 // a write asks for 1/part of the tokens; 1 is all
	way  int64 // how long the write takes to arrive, in milliseconds
}

// modesty returns the modesty of the next write to a shard.
func (a *account) modesty(shard int, up time.Duration) modesty {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if !c.isShared(up) {
		return modesty{part: 1}
	}
	return modesty{part: min(max(leastPart, int64(c.load*shareTime/milli)), mostPart), way: c.way}
}

// isShared reports whether other processes write to any shard of a bucket, too.
func (a *account) isShared(up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isSharedLocked(up)
}

func (a *account) isSharedLocked(up time.Duration) bool {
	return slices.ContainsFunc(a.shards, func(s *shard) bool { return s != nil && s.contention.isShared(up) })
}

// predicted returns the image of a shard as the item probably is by now. If the shard
// is shared, the others take what it earns. So it holds what it held when it was
// seen, unless that was half of the capacity or more: then it goes on filling.
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
		part := plan.ShareOf(img, l.Params)
		if was := part.Balance(l.Tokens, img.RefilledAt, s.seen.now); was < part.Capacity/2 {
			l.Tokens = was - part.Earned(img.RefilledAt, m.now)
		}
	}
	return &guess
}

// A stampRule says how a write to an item treats its stamp.
type stampRule struct {
	leave  bool    // other writes that count on the stamp may be under way
	late   bool    // others move the stamp so often that this process debits an overflowing bucket late
	moving bool    // a write of this process is moving the stamp
	seenAt int64   // when the stamp was last seen, in milliseconds by the store's clock
	shared bool    // other processes write, too
	others float64 // if shared, the writes a second that the item takes
	luck   float64 // if shared, a random number from 0 to 1
}

// stampRule returns how the next write to a shard treats the stamp.
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

// moves reports whether this write moves a stamp that is older than age, in
// milliseconds. Of the writes since the stamp reached that age, one does on average.
func (r stampRule) moves(img *store.Image, age, now int64) bool {
	old := img.RefilledAt + age
	return !r.moving && now >= old && r.luck*r.others*float64(now-max(r.seenAt, old)) < milli
}

// takeAtStamp returns the take that debits an item without moving its stamp, or nil
// if that cannot be done, as far as the image tells.
//
// If a balance has not accrued to its capacity, the take debits the balance stored at
// the stamp. The stored balance may fall below zero if earnings since the stamp make
// up for it. This is as exact as a refill, but such takes do not refuse each other.
//
// A balance that overflows would first have to be cut. The take then decides as of an
// instant up to lateness ago, and requires a stamp no older than that.
func (c *claim) takeAtStamp(img *store.Image, fresh bool, now int64) *store.Take {
	if !c.stamp.leave && !c.stamp.late || img.Foreign != "" || !plan.IsPlain(img, now) {
		return nil
	}
	age, t := now-img.RefilledAt, c.take(img, now)
	full := slices.ContainsFunc(c.amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > 0 && plan.Overflows(img, &s, now)
	})
	oldest := int64(stampAge)
	if full {
		oldest = plan.Lateness
	}
	writes := plan.WholeOf(&img.Writes)
	moves := c.stamp.moves(img, oldest/2, now)
	if full {
		// Processes that share an overflowing bucket leave its stamp to one of them.
		moves = !c.stamp.late || moves && !c.stamp.shared
	}
	switch {
	case moves:
		return nil
	case !full && age <= stampAge && writes.Admits(img.Writes.Tokens, img.RefilledAt, now, plan.WriteCost):
		t.Stamp = img.RefilledAt
		t.Earned = writes.Earned(img.RefilledAt, now)
	case full && (age <= plan.Lateness || !fresh) && img.Writes.Tokens >= plan.WriteCost:
		t.Since = now - plan.Lateness
	default:
		return nil
	}
	for i := range t.Debits {
		d := &t.Debits[i]
		s, _ := img.Limit(d.Limit)
		l := plan.ShareOf(img, s.Params)
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
		Writes:  store.Change{Limit: store.WriteLimit, Debit: plan.WriteCost, AtLeast: plan.WriteCost - t.Earned, AtMost: math.MaxInt64},
		Changes: make([]store.Change, 0, len(t.Debits)),
	}
	for _, d := range t.Debits {
		r.Changes = append(r.Changes, store.Change{Limit: d.Limit, Debit: d.Milli, AtLeast: d.Milli - d.Earned, AtMost: d.AtMost})
	}
	return r
}
