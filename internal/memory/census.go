package memory

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A census finds out from an item's own count of writes whether other processes write
// to it.
//
// Every applied write raises the count by one, and its answer has the new count. Counts
// that no write of this process raised belong to others. While a write is under way,
// nobody knows which count it raises. So the census attributes counts in rounds: a
// round is complete once every write that was under way at its beginning has been
// answered.
//
// A write whose answer was lost may have been applied. The census then attributes its
// count to another process. For [contentionMemory], the process behaves as if others
// wrote too.
type census struct {
	from, to int64 // this round attributes counts greater than from and at most to
	highest  int64 // the highest count seen
	round    int64 // the number of this round; 0 before the first
	own      int32 // how many of the counts of this round this process has raised
	later    int32 // how many counts above to this process has raised
	left     int32 // writes begun before the round and still under way
}

// A StampUse is how a write depends on the stamp.
type StampUse struct {
	Seen  int64 // the stamp on which the write was worked out; 0 if it does not depend on it
	Late  bool  // the write is refused if nobody has moved the stamp for [lateness]
	Moves bool  // the write moves the stamp
}

// A SentWrite is a write under way.
type SentWrite struct {
	StampUse
	shard int
	round int64         // the round of the census when it was sent
	at    time.Duration // when it was sent, by [Clock.Uptime]
}

// note records the count in the answer to a write, and whether the write was applied.
// sending is the number of writes under way. It returns how many writes of others it
// has found.
func (s *census) note(w SentWrite, count int64, applied bool, sending int32) (others int64) {
	switch {
	case s.round == 0, count < s.from && w.round >= s.round-1: // the item was made again
		// A write sent before that belongs to a round that is older by more than one.
		*s = census{from: count, to: count, highest: count, left: sending, round: s.round + 2}
		return 0
	case count < s.from:
		return 0
	}
	s.highest = max(s.highest, count)
	if applied {
		if count <= s.to {
			s.own++
		} else {
			s.later++
		}
	}
	if s.left > 0 {
		return 0
	}
	others = s.to - s.from - int64(s.own)
	*s = census{from: s.to, to: s.highest, own: s.later, highest: s.highest, left: sending, round: s.round + 1}
	return others
}

// BeginWrite counts a write to a shard as under way.
func (a *Account) BeginWrite(shard int, use StampUse, up time.Duration) SentWrite {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	c.sentAt = up
	c.sending++
	if use.Moves {
		c.moving++
	}
	return SentWrite{StampUse: use, shard: shard, round: c.census.round, at: up}
}

// EndWrite records the answer to a write.
func (a *Account) EndWrite(w SentWrite, out store.Outcome, err error, m Moment, draw func(int64) int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(w.shard).contention
	c.sending--
	if w.Moves {
		c.moving--
	}
	if w.round < c.census.round {
		c.census.left--
	}
	if err != nil || out.Image == nil {
		return
	}
	c.delay = int32((m.Up - w.at).Milliseconds() / 2) //nolint:gosec // no call takes weeks
	if out.Applied {
		c.losses = 0
	}
	c.noteStamp(w.StampUse, out, m)
	count := out.Image.Writes.Consumed / plan.WriteCost
	if c.census.note(w, count, out.Applied, int32(c.sending)) > 0 {
		c.othersAt = m.Up
	}
	if c.isShared(m.Up, a.count) {
		c.jitter = float32(drawJitter(draw))
	}
	c.measure(count, m.Up)
}
