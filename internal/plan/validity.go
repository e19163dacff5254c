package plan

import (
	"cmp"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// validityOf changes ValidUntil to what holds at the new stamp of a refill that has all limits.
func validityOf(r *store.Refill) store.Validity {
	v := store.Validity{InStep: staysInStep(r.Seen, r)}
	until := store.ValidUntil(r.RefilledAt, r.Changes, func(ch *store.Change) (p store.Params, opened int64) {
		s, _ := r.Seen.Limit(ch.Limit)
		switch ch.Kind {
		case store.KeepParams:
			p = *s.Params
		case store.SetParams, store.AddLimit:
			p = ch.Params
		case store.RemoveLimit:
		}
		return p, cmp.Or(ch.Opened, s.Opened())
	})
	if hasSchedule(r) && r.Seen.ValidUntil > r.RefilledAt {
		until = min(until, r.Seen.ValidUntil)
		if isReplanned(r) {
			until = min(until, r.Seen.ValidUntil-1)
		}
	}
	switch {
	case until == 0 && !hasCalendar(r.Seen) && !isAskedToTrim(r.Seen, r.RefilledAt):
	case r.Seen.HasValidUntil == (until != 0) && r.Seen.ValidUntil == until:
	default:
		v.Change, v.Until = true, until
	}
	return v
}

// isVaried reports whether parameters are those of a quota that varies (ADR 057).
func isVaried(p *store.Params) bool { return p.Renewal != nil && p.Varies != nil }

// isInStep reports whether a quota of an item has, at an instant and under other parameters, a
// balance that has followed all changes of its amount in its period: it is that of an item in
// step, begins its period then, or has had one amount until then.
func isInStep(img *store.Image, s *store.LimitState, next *store.Params, at int64) bool {
	return isVaried(next) && (!isVaried(s.Params) || Renewed(img, s, at) || ShareOf(img, s).InStep)
}

// isAllInStep reports whether all quotas of an item that vary are in step at an instant. It is false if there is
// none.
func isAllInStep(img *store.Image, at int64) (all bool) {
	for i := range img.Limits {
		s := &img.Limits[i]
		if !isVaried(s.Params) {
			continue
		}
		if !isInStep(img, s, s.Params, at) {
			return false
		}
		all = true
	}
	return all
}

// staysInStep reports whether a refill leaves in step all quotas that vary, of an item like that
// which it has seen. It is false if there is none, or the stamp moves back: the changes that it
// passes were followed already.
func staysInStep(img *store.Image, r *store.Refill) (stays bool) {
	for i := range r.Changes {
		ch := &r.Changes[i]
		s, _ := img.Limit(ch.Limit)
		next := s.Params
		if ch.Kind == store.SetParams || ch.Kind == store.AddLimit {
			next = &ch.Params
		}
		if ch.Kind == store.RemoveLimit || !isVaried(next) {
			continue
		}
		if r.RefilledAt < img.RefilledAt || !isInStep(img, &s, next, r.RefilledAt) {
			return false
		}
		stays = true
	}
	return stays
}

// editions is how often the schedules of an item can be edited between two changes, so that
// each edition has another ValidUntil.
const editions = 100

// stampOf is the stamp of a write at an instant: the instant, or the change of a schedule
// that comes next, if ValidUntil was moved back from there and has passed. No ValidUntil
// between them is left that none of the earlier editions had.
func stampOf(img *store.Image, at int64) int64 {
	if !img.HasValidUntil || img.ValidUntil > at {
		return at
	}
	if next := store.ValidUntil(at, img.Limits, followed); next > at && next-img.ValidUntil < editions {
		return next
	}
	return at
}

// hasSchedule reports whether a limit of an item varies, or does after a refill.
func hasSchedule(r *store.Refill) bool {
	return isReplanned(r) || slices.ContainsFunc(r.Seen.Limits, func(s store.LimitState) bool { return s.Varies != nil })
}

// isReplanned reports whether a refill gives a limit of the item another schedule.
//
// A take requires the ValidUntil that it has seen, and the parameters outside of all entries.
// Neither differs if only the entry in force does, as long as both schedules change at the
// same time. A process that has not seen the new one would take from a balance above its
// capacity. So an edit of a schedule moves ValidUntil back by a millisecond at least, and
// until the change no write moves it forward again.
//
//	operator    scales the night by 0.5, and no longer by 0.8: ValidUntil 6:00 becomes 5:59:59.999
//	client        image: 0.8, until 6:00 ──────────────────────────── takes, if it is valid until 6:00 ──▶ refused
func isReplanned(r *store.Refill) bool {
	return slices.ContainsFunc(r.Changes, func(ch store.Change) bool {
		s, _ := r.Seen.Limit(ch.Limit)
		return ch.Kind == store.SetParams && ch.Params.Varies != s.Varies
	})
}

// NextPeriod is when the first of the periods ends that an item's balances are of; 0 if no limit
// is a quota.
func NextPeriod(img *store.Image) int64 {
	return store.ValidUntil(img.RefilledAt, img.Limits, followed)
}

// PeriodEnd is when the period ends that an item's balance of a limit is of; 0 if the limit is no
// quota.
func PeriodEnd(img *store.Image, limit string) int64 {
	s, _ := img.Limit(limit)
	if s.Renewal == nil {
		return 0
	}
	return endOf(img, &s)
}

// endOf is when the period of a quota ends that an item's balance is of.
func endOf(img *store.Image, s *store.LimitState) int64 {
	return s.Renewal.End(s.Opened(), img.RefilledAt)
}

// AreOfSamePeriods reports whether the balances of two images of an item are of the same
// period, limit by limit. A limit that became a quota, or is none any more, is not of the same. The first
// end of all does not tell: that of a session which rests has passed, and the others may have ended since.
func AreOfSamePeriods(a, b *store.Image) bool {
	return !slices.ContainsFunc(a.Limits, func(s store.LimitState) bool { return PeriodEnd(a, s.Name) != PeriodEnd(b, s.Name) })
}

// AreOfOnePeriod reports whether two callers' amounts of each limit belong to the same period,
// or to any.
func AreOfOnePeriod(a, b []store.Amount) bool {
	return !slices.ContainsFunc(a, func(of store.Amount) bool {
		return slices.ContainsFunc(b, func(other store.Amount) bool { return of.Limit == other.Limit && of.Until != other.Until })
	})
}
