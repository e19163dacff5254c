package plan

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// validityOf changes ValidUntil to what holds at the new stamp of a refill that has all limits.
func validityOf(r *store.Refill) store.Validity {
	until := store.ValidUntil(r.RefilledAt, r.Changes, func(ch *store.Change) (p store.Params) {
		switch ch.Kind {
		case store.KeepParams:
			s, _ := r.Seen.Limit(ch.Limit)
			p = s.Params
		case store.SetParams, store.AddLimit:
			p = ch.Params
		case store.RemoveLimit:
		}
		return p
	})
	switch {
	case until == 0 && !HasQuota(r.Seen) && !isAskedToTrim(r.Seen, r.RefilledAt):
		return store.Validity{}
	case r.Seen.HasValidUntil == (until != 0) && r.Seen.ValidUntil == until:
		return store.Validity{}
	}
	return store.Validity{Change: true, Until: until}
}

// NextPeriod is when the first of the periods ends that an item's balances are of; 0 if no limit
// is a quota.
func NextPeriod(img *store.Image) int64 {
	return store.ValidUntil(img.RefilledAt, img.Limits, paramsOf)
}

// PeriodEnd is when the period ends that an item's balance of a limit is of; 0 if the limit is no
// quota.
func PeriodEnd(img *store.Image, limit string) int64 {
	s, _ := img.Limit(limit)
	if s.Renewal == nil {
		return 0
	}
	return s.Renewal.Next(img.RefilledAt)
}

// AreOfOnePeriod reports whether two callers' amounts of each limit belong to the same period,
// or to any.
func AreOfOnePeriod(a, b []store.Amount) bool {
	return !slices.ContainsFunc(a, func(of store.Amount) bool {
		return slices.ContainsFunc(b, func(other store.Amount) bool { return of.Limit == other.Limit && of.Until != other.Until })
	})
}
