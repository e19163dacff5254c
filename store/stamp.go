package store

// An item has a soft limit, or is bypassed, by a stamp: until that instant every client obeys
// it, and whoever meets one that has passed renews it, if the configuration says so still
// (ADR 050, ADR 052).
const (
	stampMillis       = 60_000 // the longest life of a stamp; the peer's
	stampSpreadMillis = 12_000 // by which lives differ, so that buckets do not renew together
	stampScatter      = 7919   // a prime: instants that are close together get lives that are not
)

// StampUntil is the stamp that a write at an instant gives an item. Both are in milliseconds.
func StampUntil(now int64) int64 {
	return now + stampMillis - now*stampScatter%stampSpreadMillis
}

// BypassStamp is the stamp that a write at an instant gives an item: 0 if it is not to be
// bypassed, and at most when that ends.
func (d Disabling) BypassStamp(now int64) int64 {
	switch {
	case !d.Bypassed:
		return 0
	case d.Until != 0:
		return min(d.Until, StampUntil(now))
	}
	return StampUntil(now)
}

// IsBypassed reports whether the item is bypassed at an instant.
func (i *Image) IsBypassed(now int64) bool { return i.Bypassed && i.MarkedUntil > now }
