package memory

import (
	"math/bits"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// plentyOf is the balance from which a limit is not scarce on a shard, for a writer
// that asks for an amount.
func plentyOf(part bucket.Limit, ask int64) int64 {
	return max(1, min(max(part.Earned(0, plentyMillis), plentyAsks*ask), part.Capacity/2))
}

// scarcityPause is the pause of a writer that asks for an amount of a limit, in
// milliseconds. It is 0 at a plentiful balance, and longest at an empty one. A quota earns
// nothing during a pause.
func scarcityPause(part bucket.Limit, balance, ask int64) float64 {
	plenty := plentyOf(part, ask)
	if balance >= plenty || part.Renewal != nil {
		return 0
	}
	longest := int64(longestPauseMillis)
	if ms, ok := part.Wait(0, 0, 0, min(pauseAsks*ask, part.Capacity)); ok {
		longest = min(max(longest, ms), slowestPauseMillis)
	}
	return float64(longest) * (1 - float64(max(0, balance))/float64(plenty))
}

// pause is how long a writer waits after the last write before it sends one for a
// claim, in milliseconds, if other processes write. A write from far away is
// decided on an older image, so it is refused more often: such a writer pauses for a
// shorter time.
func (s *shard) pause(amounts []store.Amount, ahead bool) float64 {
	k := &s.contention
	pause := longestPauseMillis * min(1, max(0, (float64(k.load)-easyWritesPerSecond)/(fullWritesPerSecond-easyWritesPerSecond)))
	for _, a := range amounts {
		if l, ok := s.img.Limit(a.Limit); ok && a.Milli > 0 && !ahead && plan.MustSuffice(s.img, &l) {
			part := plan.ShareOf(s.img, &l)
			pause = max(pause, scarcityPause(part.At(s.seen.Now), part.Balance(l.Tokens, s.img.RefilledAt, s.seen.Now+int64(k.delay)), a.Milli))
		}
	}
	return pause * float64(k.jitter) * farDelayMillis / float64(farDelayMillis+k.delay)
}

// PauseLeft is how long a claim on a shard must still wait before it is sent. Its caller waits
// until an instant: half of the time for the turn of this process, and half for tokens.
func (a *Account) PauseLeft(i int, amounts []store.Amount, up, by time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(i)
	if s.img == nil || !s.contention.isShared(up, a.count) {
		return 0
	}
	ahead := a.aheadLocked(up, by) > 0
	pause := s.contention.sentAt + time.Duration(s.pause(amounts, ahead))*time.Millisecond - up
	if ahead {
		pause = max(pause, min(a.turnLocked().at-up, (by-up)/2))
	}
	return pause
}

// Lost records that other processes have taken what this one asked a shard for. It reports
// whether this process is to be heard: others know it by its applied writes only, and none
// was applied for long.
func (a *Account) Lost(shard int, up time.Duration) (unheard bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.shardLocked(shard).contention
	if c.othersAt == 0 {
		return false
	}
	c.othersAt = up
	c.losses++
	return c.losses >= manyLosses && bits.OnesCount32(uint32(c.losses)) == 1
}

// Lacked reports whether a shard lacked what a claim asks of slow limits when it was last
// seen, while others write to it. They may have taken what it has earned since, so it is
// better read than written to. All processes wait for the instant at which it has earned
// enough. If that has just passed, spread is the time over which they spread.
func (a *Account) Lacked(shard int, amounts []store.Amount, m Moment) (spread time.Duration, lacked bool) {
	const others, parts = 16, 10
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(shard)
	if s.img == nil || s.contention.othersAt == 0 || !s.img.IsEvaluable() {
		return 0, false
	}
	age := m.Up - s.contention.othersAt
	for _, amount := range amounts {
		l, ok := s.img.Limit(amount.Limit)
		if !ok || amount.Milli <= 0 || !plan.MustSuffice(s.img, &l) {
			continue
		}
		part := plan.ShareOf(s.img, &l)
		missing, _ := part.Wait(l.Tokens, s.img.RefilledAt, s.seen.Now, amount.Milli)
		part = part.At(s.seen.Now)
		if missing <= 0 || !plan.IsSlow(part, amount.Milli, LongestAhead.Milliseconds()) {
			continue
		}
		ms, _ := part.Wait(0, 0, 0, amount.Milli)
		earned := time.Duration(ms) * time.Millisecond
		if age > max(sharedMemory, others*earned) {
			continue
		}
		lacked = true
		most := min(earned/parts, mostSpread)
		if late := time.Duration(m.Now-s.seen.Now-missing) * time.Millisecond; late >= 0 && late < most {
			spread = max(spread, most)
		}
	}
	return spread, lacked
}

// A pool is what all shards of a bucket together held of a limit when they were last
// seen.
type pool struct {
	limit  bucket.Limit // not divided
	held   int64        // millitokens, without the debts of single shards
	plenty int64        // the sum from which the limit is not scarce on single shards
	whole  bool         // all shards were seen lately
}

func (a *Account) poolLocked(amount store.Amount, up time.Duration) pool {
	p := pool{whole: true}
	for i := range a.count {
		img := a.imageLocked(i, up, contentionMemory)
		if img == nil {
			p.whole = false
			continue
		}
		if l, ok := img.Limit(amount.Limit); ok && plan.MustSuffice(img, &l) {
			part, seen := plan.ShareOf(img, &l), a.knownLocked(i).seen.Now
			p.limit = plan.Share(*l.Params, 0, 1, seen).At(seen)
			p.held += max(0, part.Balance(l.Tokens, img.RefilledAt, seen))
			p.plenty += max(amount.Milli, plentyOf(part.At(seen), amount.Milli))
		}
	}
	return p
}

// IsScarce reports whether a shared bucket of several shards holds so little that a
// claim is better decided on all of them at once. No single shard is likely to serve
// the claim then.
func (a *Account) IsScarce(amounts []store.Amount, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > 1 && a.isSharedLocked(up) && slices.ContainsFunc(amounts, func(amount store.Amount) bool {
		p := a.poolLocked(amount, up)
		return p.whole && amount.Milli > 0 && p.held < p.plenty
	})
}

// BeginRound is how long claims on all shards of a shared bucket wait for the next
// round. After the last round they pause as a writer to one item does.
func (a *Account) BeginRound(amounts []store.Amount, up time.Duration, draw func(int64) int64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isSharedLocked(up) {
		return 0
	}
	var pause float64
	for _, amount := range amounts {
		if p := a.poolLocked(amount, up); amount.Milli > 0 && p.limit.Capacity > 0 {
			pause = max(pause, scarcityPause(p.limit, p.held, amount.Milli))
		}
	}
	r := a.rareLocked()
	at := max(up, r.roundAt+time.Duration(pause*drawJitter(draw))*time.Millisecond)
	r.roundAt = at
	return at - up
}

// drawJitter draws the factor of a pause, from 0.5 to 1.5.
func drawJitter(draw func(int64) int64) float64 { return 0.5 + float64(draw(store.Milli))/store.Milli }
