package memory

import (
	"cmp"
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
//   - leaves the stamp where it is ([plan.Debit.TakeAtStamp]);
//   - expects the others to take what the item earns, so it plans on the balances
//     that it last saw ([Account.Predicted]);
//   - asks for a part of those balances, but for no less than its first caller
//     wants;
//   - takes what the only item of a bucket has yet to earn, and waits until it has
//     ([Account.Ahead]): the order of such writes is a queue, in which each process
//     has one place;
//   - reads first where a limit is too slow for that ([Account.Lacked]);
//   - pauses between two writes, for longer the more writes the item takes
//     ([Account.PauseLeft]). Callers queue meanwhile and share the next write.
//
// See ADR 017 and ADR 035.
type contention struct {
	// Instants are by [Clock.Uptime].
	movedAt      time.Duration // when others were last found to move the stamp; 0 if they do not
	othersAt     time.Duration // when the item was last found to be shared; 0 if never
	sentAt       time.Duration // when this process last sent a write
	load         float32       // writes a second that the item took lately, by its own count
	jitter       float32       // scales the pause after that write: from 0.5 to 1.5
	delay        int32         // half of the time that the last answer took, in milliseconds: about how old a write is when it takes effect
	losses       int32         // how often others took what this process asked for, since a write of it was applied
	refusedMoves int16         // moves of the stamp that others' debits refused lately, times two, less the moves that were applied
	sending      int16         // writes of this process under way
	moving       int16         // how many of them move the stamp

	census census
	// The current count of the item's writes. A new count replaces it after countPeriod:
	countedAt time.Duration // when it began; 0 if there is none
	counted   int64         // the item's count of writes at that time
}

const (
	// contentionMemory is how long a process presumes that others go on writing, and moving
	// the stamp, after it last saw them do so.
	contentionMemory = time.Second
	// LongestAhead is how long a shared bucket may still have to earn what a write debits.
	LongestAhead = 2 * time.Second
	// sharedMemory is how long it presumes that they go on writing to the only item of a
	// bucket. A process that takes ahead sees nothing while it waits.
	sharedMemory = 2 * LongestAhead
	// manyLosses is how often in a row a process must lose before it tells others of itself.
	// After that it tells them each time that the number has doubled.
	manyLosses = 16
	// mostSpread is the longest time over which processes spread their writes.
	mostSpread = time.Second
	// turnMillis is the time for which one process's write takes what the bucket earns.
	turnMillis = 7
	// fewTurns is for how many turns callers may wait, if each serves one of them.
	fewTurns = 3
	// countPeriod is how long a process counts writes before it uses the count.
	countPeriod = 100 * time.Millisecond

	// longestPauseMillis is the pause before a write to an item that holds nothing. With
	// it, 16 processes whose writes take 2 ms to arrive send 530 writes a second. If the
	// limit needs longer to earn pauseAsks times what the writer asks for, the pause is
	// that time, up to slowestPauseMillis.
	longestPauseMillis = 36
	slowestPauseMillis = 240
	pauseAsks          = 19
	// farDelayMillis is the delay of a writer that pauses half as long.
	farDelayMillis = 10
	// A writer does not pause if the item holds plenty. Plenty is what a limit earns in
	// plentyMillis, or plentyAsks times what the writer asks for if that is more. It is
	// at most half of the capacity.
	plentyMillis = 60
	plentyAsks   = 4
	// manyRefusedMoves is the value of refusedMoves at which a process leaves the stamp
	// to others.
	manyRefusedMoves = 8
	// LeastPart is the least divisor of the tokens that an item holds: a writer asks for
	// at most 1/LeastPart of them, so that the others find the rest. If the item takes
	// more than LeastPart writes in shareMillis, the divisor is that number, up to
	// mostPart.
	LeastPart   = 4
	mostPart    = 8
	shareMillis = 15
	// From easyWritesPerSecond on, pauses grow, and they are longest at
	// fullWritesPerSecond. A partition takes 1,000, refused writes included, which the
	// item does not count.
	easyWritesPerSecond, fullWritesPerSecond = 450, 825
	// leastLoad is the load of an item from which throttles double its bucket, in writes a
	// second. It is what a partition serves of items of 8 KB.
	leastLoad = 125
)

// isShared reports whether other processes write to the item, too, which is one of so many
// shards.
func (c *contention) isShared(up time.Duration, shards int) bool {
	age := contentionMemory
	if shards <= 1 {
		age = sharedMemory
	}
	return c.othersAt != 0 && up-c.othersAt <= age
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
func (c *contention) noteStamp(use StampUse, out store.Outcome, m Moment) {
	switch {
	case out.Applied && use.Late:
		c.movedAt = m.Up
	case out.Applied:
		c.refusedMoves = max(0, c.refusedMoves-1)
	case use.Late && m.Now-out.Image.RefilledAt > plan.Lateness:
		c.movedAt = 0
	case use.Seen != 0 && out.Image.RefilledAt != use.Seen:
		c.movedAt = m.Up
	case use.Seen != 0 && use.Moves:
		if c.refusedMoves += 2; c.refusedMoves >= manyRefusedMoves {
			c.movedAt, c.refusedMoves = m.Up, 0
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
		c.load = float32(float64(count-c.counted) / took.Seconds())
		c.countedAt, c.counted = up, count
	}
}

// IsOverloaded reports whether more shards help a shard whose partition throttles (ADR 043):
// it has throttled twice since the last doubling, and the item takes many writes. All of that
// was seen within a second.
func (a *Account) IsOverloaded(i int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.knownLocked(i)
	if s == nil || s.brake == nil {
		return false
	}
	since := up - contentionMemory
	if a.rare != nil {
		since = max(since, a.rare.grewAt)
	}
	return min(s.brake.before, s.contention.countedAt) > since && s.contention.load >= leastLoad
}

// IsSharedShard reports whether other processes write to a shard, too.
func (a *Account) IsSharedShard(shard int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(shard).contention.isShared(up, a.count)
}

// Pace returns the pace of the next write to a shard, for callers who wait until an instant.
func (a *Account) Pace(shard int, up, by time.Duration) plan.Pace {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if !c.isShared(up, a.count) {
		return plan.Pace{Part: 1}
	}
	p := plan.Pace{Part: min(max(LeastPart, int64(c.load*shareMillis/store.Milli)), mostPart), Delay: int64(c.delay)}
	if p.Ahead = a.aheadLocked(up, by).Milliseconds(); p.Ahead > 0 {
		p.Turn = turnMillis
	}
	return p
}

// Ahead is how long the bucket may still have to earn what a write debits for callers who
// wait until an instant; 0 if the bucket is not shared.
func (a *Account) Ahead(up, by time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.aheadLocked(up, by)
}

func (a *Account) aheadLocked(up, by time.Duration) time.Duration {
	s := a.knownLocked(0)
	if a.count != 1 || s == nil || s.img == nil || !s.img.IsEvaluable() || !s.contention.isShared(up, a.count) {
		return 0
	}
	return max(0, min(LongestAhead, by-up))
}

// TookTurn records a write that debited amounts for its first caller, and that img, the item
// after it, will have earned at an instant. The process may write again then, less the time
// that a write takes. So processes that share the item take turns. If more of them take ahead
// than the time allows, one that has had its turn pauses for a while.
//
// Further callers may wait for what the limits earn in one turn. A few may wait for more, if
// each of their turns is about as long as this one.
func (a *Account) TookTurn(img *store.Image, first []store.Amount, up, earned time.Duration, draw func(int64) int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const crowded, pause = LongestAhead * 7 / 8, 16
	delay := a.shardLocked(img.Shard).contention.delay
	turn := &a.rareLocked().turn
	turn.at = earned - 2*time.Duration(delay)*time.Millisecond
	if late := earned - up - crowded; late > 0 {
		turn.at += time.Duration(draw(int64(pause * late)))
	}
	turns := int64(LongestAhead / max(time.Millisecond, turn.at-up))
	turn.room = int(max(plan.EarnedTimes(img, first, turnMillis), min(fewTurns, turns), 1))
}

// NextTurn is when this process may write to a shared bucket of one shard again, and how many
// of its callers may wait for its turns.
func (a *Account) NextTurn() (at time.Duration, room int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	turn := a.turnLocked()
	return turn.at, cmp.Or(turn.room, fewTurns)
}

// IsShared reports whether other processes write to any shard of a bucket, too.
func (a *Account) IsShared(up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isSharedLocked(up)
}

func (a *Account) isSharedLocked(up time.Duration) bool {
	for i := range a.roomLocked() {
		if s := a.knownLocked(i); s != nil && s.contention.isShared(up, a.count) {
			return true
		}
	}
	return false
}

// Predicted returns the image of a shard as the item probably is by now. If the shard
// is shared, the others take what it earns. So it holds what it held when it was
// seen, unless that was half of the capacity or more: then it goes on filling.
func (a *Account) Predicted(img *store.Image, m Moment) *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(img.Shard)
	if s.img != img || !img.IsEvaluable() || !s.contention.isShared(m.Up, a.count) {
		return img
	}
	guess := *img
	guess.Limits = slices.Clone(img.Limits)
	for i := range guess.Limits {
		l := &guess.Limits[i]
		part := plan.ShareOf(img, l)
		if was := part.Balance(l.Tokens, img.RefilledAt, s.seen.Now); was < part.At(s.seen.Now).Capacity/2 && l.Renewal == nil {
			l.Tokens = was - part.Earned(img.RefilledAt, m.Now)
		}
	}
	return &guess
}

// StampRule returns how the next write to a shard treats the stamp.
func (a *Account) StampRule(shard int, up time.Duration, draw func(int64) int64) plan.StampRule {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(shard)
	c := &s.contention
	shared := c.isShared(up, a.count)
	r := plan.StampRule{Leave: shared || c.sending > 0, Late: c.isLate(up), Moving: c.moving > 0, Shared: shared, SeenAt: s.seen.Now}
	if shared {
		r.Others, r.Luck = float64(c.load), float64(draw(store.Milli))/store.Milli
	}
	return r
}
