package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A census finds out from an item's own count of writes whether others write to it.
//
// Every write that is applied raises the count by one, and its answer tells the
// count that it raised it to. Counts that no write of this process raised are the
// others'. While a write is under way nobody knows which count it raises, so the
// census attributes counts in rounds: a round is complete once every write that was
// under way when it began has been answered. A write whose answer was lost may have
// been applied. Its count is then taken for another's, and the process behaves for
// [contentionMemory] as if others wrote too.
type census struct {
	begun    bool
	from, to int64 // the counts that this round attributes are greater than from, and at most to
	own      int64 // how many of them this process has raised
	left     int   // writes from before the round that are still under way
	highest  int64 // the highest count seen
	later    int64 // counts above to that this process has raised
	round    int   // the number of this round
}

// A stampUse is what a write has to do with the stamp.
type stampUse struct {
	seen  int64 // the write was worked out on this one; 0 is that it does not depend on it
	late  bool  // it is refused if nobody has moved the stamp for [lateness]
	moves bool  // it moves the stamp
}

// A sentWrite is a write under way.
type sentWrite struct {
	stampUse
	shard int
	round int           // the census' when it was sent
	at    time.Duration // when it was sent, by [Limiter.uptime]
}

// note takes in the count that the answer to a write brought, and whether it was
// applied. sending is how many writes are under way. It returns how many writes of
// others it has found.
func (s *census) note(w sentWrite, count int64, applied bool, sending int) (others int64) {
	switch {
	case !s.begun, count < s.from && w.round >= s.round-1: // the item was made anew
		// A write that was sent before has a round that is older by more than one.
		*s = census{begun: true, from: count, to: count, highest: count, left: sending, round: s.round + 2}
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
	others = s.to - s.from - s.own
	*s = census{begun: true, from: s.to, to: s.highest, own: s.later, highest: s.highest, left: sending, round: s.round + 1}
	return others
}

// heard takes in whether a write was applied.
func (c *contention) heard(applied bool, up time.Duration) {
	switch {
	case applied:
		c.refusedAt = 0
		return
	case c.refusedAt == 0 || up-c.refusedAt > contentionMemory:
		c.refusedSince = up
	}
	c.refusedAt = up
}

// send carries out a write to a shard and takes in its answer. at is when the write
// was worked out.
func (l *Limiter) send(ctx context.Context, acct *account, b Bucket, use stampUse, at moment, write func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	sent := acct.beginWrite(b.Shard, use, l.uptime())
	out, err := write(ctx)
	acct.endWrite(sent, out, err, l.moment(), l.rand)
	l.answered(ctx, acct, b, err, at.up)
	if err == nil {
		l.learn(acct, b, out, at)
	}
	return out, err
}

// sendJoint carries out a write to several shards and takes in its answer. after is a
// shard as the write leaves it, nil if it deletes it. It remembers no image: what
// the shards are like may take more than one to tell.
func (l *Limiter) sendJoint(ctx context.Context, acct *account, of []Bucket, after func(i int) *store.Image, at moment, write func(context.Context) (store.Joint, error)) (store.Joint, error) {
	sent := make([]sentWrite, len(of))
	for i, b := range of {
		sent[i] = acct.beginWrite(b.Shard, stampUse{moves: true}, l.uptime())
	}
	joint, err := write(ctx)
	for i := range sent {
		out := store.Outcome{Applied: joint.Applied}
		if joint.Applied {
			out.Image = after(i)
		} else if i < len(joint.Refusals) {
			out.Image = joint.Refusals[i].Image
		}
		acct.endWrite(sent[i], out, err, l.moment(), l.rand)
	}
	l.turnedAway(ctx, acct, joint, err, at.up, func(i int) Bucket { return of[i] })
	return joint, err
}

// beginWrite counts a write to a shard as under way.
func (a *account) beginWrite(shard int, use stampUse, up time.Duration) sentWrite {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	c.sentAt = up
	c.sending++
	if use.moves {
		c.moving++
	}
	return sentWrite{stampUse: use, shard: shard, round: c.census.round, at: up}
}

// endWrite takes in the answer to a write.
func (a *account) endWrite(w sentWrite, out store.Outcome, err error, m moment, draw func(int64) int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(w.shard).contention
	c.sending--
	if w.moves {
		c.moving--
	}
	if w.round < c.census.round {
		c.census.left--
	}
	if err != nil || out.Image == nil {
		return
	}
	c.way = (m.up - w.at).Milliseconds() / 2
	c.heard(out.Applied, m.up)
	c.noteStamp(w.stampUse, out, m)
	count := out.Image.Writes.Consumed / writeCost
	if c.census.note(w, count, out.Applied, c.sending) > 0 {
		c.othersAt = m.up
	}
	if c.isShared(m.up) {
		c.jitter = drawJitter(draw)
	}
	c.measure(count, m.up)
}
