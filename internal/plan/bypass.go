package plan

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A bypassed bucket admits everything (ADR 052). A write to it counts what was consumed, and
// leaves the balances alone, so that the end of the bypass finds them as limits have earned them.
//
// An item says so by a stamp: until that instant every client counts only. A take requires the
// stamp, so none that was worked out on a bypassed item lands on another one:
//
//	operator    ends the bypass ── removes the stamp ─▶ item
//	client        image: bypassed ──────────────────────── counts 5, if there is a stamp ──▶ refused
//
// The other way round, a debit that was worked out before the bypass began lands. It was admitted
// by the balance, debits that, and is returned to that. So each amount remembers whether it was
// taken of a balance: one that was counted only returns to none, whenever that is.
//
//	client      counts 5 of a bypassed item ─────────────────── returns 5: counters only
//	operator                                  ends the bypass

// bypassOf is the stamp of an item; 0 if it has none.
func bypassOf(img *store.Image) int64 {
	if !img.Bypassed {
		return 0
	}
	return img.MarkedUntil
}

// MustSuffice reports whether the balance of a limit decides, as far as the image of its item
// tells. An item that was bypassed lately may still be.
func MustSuffice(img *store.Image, s *store.LimitState) bool { return !img.Bypassed && !s.IsSoft() }

// BypassStamp is the stamp of a bucket that is to be as wanted at an instant; 0 for none.
func (w *Wanted) BypassStamp(now int64) int64 { return w.Switches.At(now).BypassStamp(now) }

// BypassStamp is the stamp of a bucket that is to be as the terms say, as far as they are known.
func (t *Terms) BypassStamp(now int64) int64 {
	if t.Target == nil {
		return 0
	}
	return t.Target.BypassStamp(now)
}

// differsInBypass reports whether an item has no stamp and is to be bypassed, or has one that has
// passed and is not. A stamp that has not passed is obeyed, whatever the configuration: that may be
// the older one. One that has passed and is to hold is renewed without a look at the configuration.
func (w *Wanted) differsInBypass(img *store.Image, now int64) bool {
	if img.Disabled || img.IsBypassed(now) {
		return false
	}
	return img.Bypassed != w.Switches.At(now).Bypassed
}

// isCounted reports whether amounts have an amount of a limit that moves no balance.
func isCounted(amounts []store.Amount, limit string) bool {
	return slices.ContainsFunc(amounts, func(a store.Amount) bool { return a.Limit == limit && a.Until == store.NoBalance })
}

// AllCounted are amounts that move no balance.
func AllCounted(amounts []store.Amount) []store.Amount {
	counted := slices.Clone(amounts)
	for i := range counted {
		counted[i].Until = store.NoBalance
	}
	return counted
}

// bypass is what a refill makes of whether an item is bypassed, which it also repairs unless repair
// is nil. A settlement leaves that alone, and so does a write that asks for nothing.
func (d *Debit) bypass(img *store.Image, repair *Wanted, now int64) store.Stamp {
	switch {
	case img.Disabled:
	case repair != nil:
		return store.Stamp{Change: true, Until: repair.BypassStamp(now)}
	case !img.Bypassed || d.Settling || len(d.Amounts) == 0:
	case d.Bypass != 0:
		return store.Stamp{Change: true, Until: d.Bypass}
	case img.IsBypassed(now):
		return store.Stamp{Change: true, Until: img.MarkedUntil}
	}
	return store.Stamp{}
}
