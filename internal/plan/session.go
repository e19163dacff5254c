package plan

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A session of a bucket begins on all its shards in one transaction (ADR 051). So every shard
// has the same one, and each admits its share of it:
//
//	ended      0 ws=b   1 ws=b   2 ws=b   3 ws=b      a claim takes 3 of the limit
//	begins     0 ws=b'  1 ws=b'  2 ws=b'  3 ws=b'     one transaction over all of them
//	under way  0 ws=b'  1 ws=b'  2 ws=b'  3 ws=b'     one write to one shard, as for any limit
//
// The naive way lets each shard begin its own session with its first use. A shard that was
// idle holds its whole share when the session of the others is nearly over, and its whole
// share again in the next one: within one session of the others, callers get nearly twice the
// amount.
//
// Shards may have different sessions after an edit that gave each of them one, a clock that
// was ahead, or a peer. Then a shard whose session has ended holds nothing until that of
// every other shard has. So the next session begins on all of them again.

// IsSession reports whether a limit is a quota whose period begins with a use (ADR 051).
func IsSession(r *store.Renewal) bool { return r != nil && r.Session() != 0 }

// A Beginning is the sessions that a write to all shards of a bucket begins, at an instant.
type Beginning struct {
	At     int64
	Limits []string // whose session begins
}

// BeginningOf is what debits of amounts begin on the shards of a bucket: the sessions that
// have ended on every one of them.
func BeginningOf(shards []*store.Image, amounts []store.Amount, now int64) *Beginning {
	b := &Beginning{}
	for _, a := range amounts {
		if a.Milli > 0 && a.Until != store.NoBalance && endedOnAll(shards, a.Limit, now) {
			b.Limits = append(b.Limits, a.Limit)
		}
	}
	b.At = now
	for _, img := range shards {
		if img != nil {
			b.At = max(b.At, img.RefilledAt) // all of them are stamped so late at least
		}
	}
	return b
}

// endedOnAll reports whether a limit is a session that no shard has under way. Shards on
// which it is none, because an edit has not reached all of them, do not matter.
func endedOnAll(shards []*store.Image, limit string, now int64) bool {
	isSession := false
	for _, img := range shards {
		if img == nil {
			continue
		}
		if s, ok := img.Limit(limit); ok && IsSession(s.Renewal) {
			if isSession = true; underWay(img, &s, now) != 0 {
				return false
			}
		}
	}
	return isSession
}

// has reports whether the session of a limit is among those that begin.
func (b *Beginning) has(limit string) bool { return b != nil && slices.Contains(b.Limits, limit) }

// mustBegin reports whether a debit of amounts from one shard of several must begin a session that is
// not among those that begin on all of them. One shard cannot do that alone.
func (b *Beginning) mustBegin(img *store.Image, amounts []store.Amount, now int64) bool {
	return img.ShardCount > 1 && img.IsEvaluable() && slices.ContainsFunc(amounts, func(a store.Amount) bool {
		s, ok := img.Limit(a.Limit)
		return ok && a.Milli > 0 && a.Until != store.NoBalance && IsSession(s.Renewal) && !b.has(a.Limit) && underWay(img, &s, now) == 0
	})
}

// NeedsBeginning reports whether one shard of several cannot be debited of amounts alone,
// because a session must begin. A bypassed one begins none.
func NeedsBeginning(img *store.Image, amounts []store.Amount, now int64) bool {
	return !img.IsBypassed(now) && (*Beginning)(nil).mustBegin(img, amounts, now)
}

// Together are the shards of a bucket as a write to all of them finds their sessions. A
// session that has ended everywhere has begun, if its limit is among the amounts. One that
// has ended on some shards holds nothing on those until it has ended on the others. Shards
// that need no change are returned as they are; a nil one is missing.
func Together(shards []*store.Image, amounts []store.Amount, now int64) []*store.Image {
	if len(shards) < 2 || !slices.ContainsFunc(shards, func(img *store.Image) bool { return img != nil && rests(img, now) }) {
		return shards
	}
	begins := BeginningOf(shards, amounts, now)
	whole := slices.Clone(shards)
	for i, img := range shards {
		if img == nil || !rests(img, now) {
			continue
		}
		is := *img
		is.Limits = slices.Clone(img.Limits)
		for k := range is.Limits {
			s := &is.Limits[k]
			if !hasEnded(img, s, now) {
				continue
			}
			tokens, opened := int64(0), latestEnd(shards, s.Name, now)-s.Renewal.Session()
			amount := shareAt(img, s, max(now, img.RefilledAt)).Renewed
			switch told := s.Told(); {
			case begins.has(s.Name):
				tokens, opened = amount, begins.At
			case underWay(img, s, now) != 0:
				tokens, opened = amount-told.Consumed, told.Opened
			}
			if opened > 0 {
				s.Tokens = tokens - (amount - ShareOf(img, s).Renewed) // a change since the stamp gives that
				s.SetExtra(store.Extra{Opened: opened, SoftUntil: s.SoftUntil(), Observed: s.Observed()})
				is.InStep = is.InStep || isVaried(s.Params) // as the write that begins it leaves the item
			}
		}
		whole[i] = &is
	}
	return whole
}

// latestEnd is when the session of a limit has ended on all shards; 0 if none is under way.
func latestEnd(shards []*store.Image, limit string, now int64) (end int64) {
	for _, img := range shards {
		if img == nil {
			continue
		}
		if s, ok := img.Limit(limit); ok && IsSession(s.Renewal) {
			end = max(end, underWay(img, &s, now))
		}
	}
	return end
}

// hasEnded reports whether a limit is a session, and the one has ended that its balance is
// of. A write comes at the item's stamp at least, whatever the clock says.
func hasEnded(img *store.Image, s *store.LimitState, now int64) bool {
	return IsSession(s.Renewal) && Renewed(img, s, max(now, img.RefilledAt))
}

// underWay is when the session of a shard ends that its balance is of, or that it has been
// told of; 0 if it has ended.
func underWay(img *store.Image, s *store.LimitState, now int64) int64 {
	for _, opened := range [...]int64{s.Opened(), s.Told().Opened} {
		if end := s.Renewal.End(opened, img.RefilledAt); opened > store.NoSession && end > max(now, img.RefilledAt) {
			return end
		}
	}
	return 0
}

// restsBeside reports whether the session of a limit has ended on a shard, and is under way
// on another one.
func restsBeside(shards []*store.Image, img *store.Image, limit string, now int64) bool {
	s, ok := img.Limit(limit)
	return ok && IsSession(s.Renewal) && underWay(img, &s, now) == 0 && latestEnd(shards, limit, now) != 0
}

// rests reports whether a session of an item has ended at an instant. Its ValidUntil has then
// passed, although the item is as any other.
func rests(img *store.Image, at int64) bool {
	return slices.ContainsFunc(img.Limits, func(s store.LimitState) bool { return hasEnded(img, &s, at) })
}

// opened is the session of a limit after a refill that begins b; 0 if that keeps it. One that
// replaces another limit begins at once, with what that has left. Where the last one has ended,
// a debit of the only shard begins the next one, and any write joins one that a peer has begun.
func (b *Beginning) opened(img *store.Image, s *store.LimitState, next *store.Renewal, debit, now int64) int64 {
	told := s.Told().Opened
	switch {
	case IsSession(next) && !IsSession(s.Renewal):
		return now
	case !Renewed(img, s, now) || !IsSession(next):
		return 0
	case b.has(s.Name):
		return b.At
	case told != 0 && next.End(told, now) > now:
		return told
	case debit > 0 && img.ShardCount <= 1:
		return now
	}
	return store.NoSession
}

// openedBy is the session of a new limit of a shard among several: it begins at once, or the
// shards would hold nothing of it until one of them, which had it first, has ended its own.
// For the only shard, a debit begins it.
func openedBy(r *store.Renewal, debit, at int64, shards int) int64 {
	switch {
	case !IsSession(r):
		return 0
	case debit > 0 || shards > 1:
		return at
	}
	return store.NoSession
}

// closedAt is [store.NoSession] if the session of a limit has ended at an instant, and 0
// otherwise. A balance that was renewed is of no session, so that no edit revives the old
// one.
func closedAt(img *store.Image, s *store.LimitState, at int64) int64 {
	if hasEnded(img, s, at) {
		return store.NoSession
	}
	return 0
}

// Loosely is the write of a debit that begins a session on a shard whose stamp others move
// all the time: while the session rests, each of their writes is a refill. nil says that the
// write cannot be loose.
//
// It accepts any stamp up to its own, which no other process reaches in the meantime. It
// leaves the balances of other limits as they are, so that nothing accrues twice; what they
// earn in between is lost. The session itself nobody has begun, because the write requires it
// as seen.
//
//	this process   sees the stamp of 7 ──────────────────────── begins at 9, stamps 59
//	others                              refill, stamp 8        ─▶ refused: another ValidUntil
func (d *Debit) Loosely(img *store.Image, now, multiplier int64) *store.Refill {
	at := max(now, img.RefilledAt) + Lateness
	if len(d.Begins.Limits) == 0 || now-img.RefilledAt >= Lateness || img.Bypassed || img.Disabled || changesAny(img, at) {
		return nil
	}
	r := &store.Refill{
		Bucket: img.Bucket, Seen: img, Turn: TurnOf(img, now), RefilledAt: at, Loose: true,
		Writes: pressingWrite(img), Changes: make([]store.Change, 0, len(img.Limits)),
	}
	for i := range img.Limits {
		s := &img.Limits[i]
		ch := store.Change{Limit: s.Name, Debit: AmountOf(d.Amounts, s.Name), Params: *s.Params, AtLeast: math.MinInt64, AtMost: math.MaxInt64}
		if s.IsSoft() {
			ch.SoftUntil = d.stampOf(s, store.KeepParams, now)
		}
		begins, held := d.Begins.has(s.Name), s.Tokens
		if begins {
			held = ShareOf(img, s).Renewed
		}
		counted := Counts(s.Mode(), held, ch.Debit)
		if counted {
			ch.Earned = ch.Debit
			count(&ch, s.Mode())
		}
		switch {
		case counted && begins: // it begins no session
			return nil
		case isGranted(s) || s.Told().Opened != 0 || !begins && Renewed(img, s, at) && (!IsSession(s.Renewal) || ch.Debit > 0):
			return nil
		case begins:
			ch.Earned, ch.Opened = ShareOf(img, s).Renewed-s.Tokens, d.Begins.At
			ch.AtLeast, ch.AtMost = s.Tokens, s.Tokens
		case ch.Debit > 0 && !s.IsSoft():
			ch.AtLeast = ch.Debit
		case ch.Debit > 0 && !counted && s.Mode() == store.Shadow:
			ch.AtLeast = floorOf(s.Mode(), ShareOf(img, s)) + ch.Debit
		}
		if !s.IsSoft() && s.Tokens+ch.Earned < ch.Debit {
			return nil
		}
		r.Changes = append(r.Changes, ch)
	}
	r.Expiry, r.Validity = RefillExpiry(r, img.ExpiresAt != 0, now, multiplier), validityOf(r)
	return r
}
