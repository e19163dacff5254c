package plan

import "github.com/zeroae/zae-limiter-go/store"

// A soft limit is debited at any balance, and refuses nobody (ADR 050). An item has it as soft by
// a stamp: until that instant every client may debit the limit as if it held enough. Whoever
// meets a stamp that has passed writes a refill, which renews it, if the configuration that
// this process knows still has the limit as soft.
//
// A refill keeps the stamp, or renews it, on condition that the item still has one. So a write
// that was worked out on a soft limit never lands on a hard one:
//
//	operator    makes the limit hard ── removes the stamp ─▶ item
//	client        image: soft, 0 left ────────────────────────── takes 5, if there is a stamp ──▶ refused

// isUnstamped reports whether a limit is soft, and its stamp has passed.
func isUnstamped(s *store.LimitState, now int64) bool { return s.IsSoft() && s.SoftUntil() <= now }

// takesSoftly reports whether a take can debit the soft limits of amounts as an item has
// them: their stamps have not passed, and one take can require them all.
func takesSoftly(img *store.Image, amounts []store.Amount, now int64) bool {
	soft := 0
	for _, a := range amounts {
		s, _ := img.Limit(a.Limit)
		if !s.IsSoft() {
			continue
		}
		if soft++; isUnstamped(&s, now) {
			return false
		}
	}
	return soft <= store.MaxSoftTake
}

// countSoft is how many limits an item has as soft.
func countSoft(img *store.Image) (n int) {
	for i := range img.Limits {
		if img.Limits[i].IsSoft() {
			n++
		}
	}
	return n
}

// isAs reports whether an item has a limit as it is to be.
func isAs(s *store.LimitState, l *store.Limit) bool {
	return *s.Params == l.Params() && s.IsSoft() != l.Refuses() && s.Mode() == l.Mode
}

// IsSoft reports whether an item has a limit as soft.
func IsSoft(img *store.Image, limit string) bool {
	s, ok := img.Limit(limit)
	return ok && s.IsSoft()
}

// StampOf is the stamp that a new item at an instant has of a limit.
func StampOf(l *store.Limit, now int64) int64 {
	if l.Refuses() {
		return 0
	}
	return store.StampUntil(now)
}
