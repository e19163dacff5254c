package memory

import (
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
//   - pauses between two writes, for longer the less the item holds and the more
//     writes it takes ([Account.PauseLeft]). Callers queue meanwhile and share the next
//     write.
//
// The balance regulates the pauses. It falls if all processes together ask for more
// than the limit gives, and then all of them pause for longer. See ADR 017.
type contention struct {
	// Instants are by [Clock.Uptime].
	movedAt      time.Duration // when others were last found to move the stamp; 0 if they do not
	refusedMoves int           // moves of the stamp that others' debits refused lately, times two, less the moves that were applied
	othersAt     time.Duration // when the item was last found to be shared; 0 if never
	load         float64       // writes a second that the item took lately, by its own count
	sentAt       time.Duration // when this process last sent a write
	delay        int64         // half of the time that the last answer took, in milliseconds: about how old a write is when it takes effect
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
	// contentionMemory is how long a process presumes that others go on writing after it
	// last saw them write.
	contentionMemory = time.Second
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
		c.load = float64(count-c.counted) / took.Seconds()
		c.countedAt, c.counted = up, count
	}
}

// IsSharedShard reports whether other processes write to a shard, too.
func (a *Account) IsSharedShard(shard int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(shard).contention.isShared(up)
}

// Pace returns the pace of the next write to a shard.
func (a *Account) Pace(shard int, up time.Duration) plan.Pace {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if !c.isShared(up) {
		return plan.Pace{Part: 1}
	}
	return plan.Pace{Part: min(max(LeastPart, int64(c.load*shareMillis/store.Milli)), mostPart), Delay: c.delay}
}

// IsShared reports whether other processes write to any shard of a bucket, too.
func (a *Account) IsShared(up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isSharedLocked(up)
}

func (a *Account) isSharedLocked(up time.Duration) bool {
	return slices.ContainsFunc(a.shards, func(s *shard) bool { return s != nil && s.contention.isShared(up) })
}

// Predicted returns the image of a shard as the item probably is by now. If the shard
// is shared, the others take what it earns. So it holds what it held when it was
// seen, unless that was half of the capacity or more: then it goes on filling.
func (a *Account) Predicted(img *store.Image, m Moment) *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(img.Shard)
	if s.img != img || !img.IsEvaluable() || !s.contention.isShared(m.Up) {
		return img
	}
	guess := *img
	guess.Limits = slices.Clone(img.Limits)
	for i := range guess.Limits {
		l := &guess.Limits[i]
		part := plan.ShareOf(img, l.Params)
		if was := part.Balance(l.Tokens, img.RefilledAt, s.seen.Now); was < part.Capacity/2 {
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
	shared := c.isShared(up)
	r := plan.StampRule{Leave: shared || c.sending > 0, Late: c.isLate(up), Moving: c.moving > 0, Shared: shared, SeenAt: s.seen.Now}
	if shared {
		r.Others, r.Luck = c.load, float64(draw(store.Milli))/store.Milli
	}
	return r
}
