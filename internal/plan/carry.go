package plan

import "github.com/zeroae/zae-limiter-go/store"

// A quota that carries (ADR 053) begins a period with its share, more what was left, less a
// debt. What it has more is a top-up that nobody ordered: the item says it in the same
// attribute, so whatever holds for a top-up holds for it, and a Python client leaves it alone
// until the period ends.
//
// The write that begins a period is locked by the stamp and by the balance. So what was left is
// carried once, and a take or a credit of the earlier period comes before it, or not at all.

// carriedInto is what a quota of an item has above its share in the period of a later instant,
// because it carried that much. The period has begun since the item's stamp.
func carriedInto(img *store.Image, s *store.LimitState, at int64) int64 {
	part := ShareOf(img, s)
	return max(0, part.Balance(s.Tokens, img.RefilledAt, at)-part.At(at).Renewed)
}

// toppedUp is what a quota of an item may hold above its share at an instant, until its period
// ends.
func toppedUp(img *store.Image, s *store.LimitState, at int64) int64 {
	if Renewed(img, s, at) {
		return carriedInto(img, s, at)
	}
	return s.Granted().TopUp
}

// begin makes a change at an instant say what a limit carries into the period that it then
// begins, if it begins one, and is to renew.
func begin(ch *store.Change, img *store.Image, s *store.LimitState, next *store.Renewal, at int64) {
	if next != nil && Renewed(img, s, at) {
		grant(ch, carriedInto(img, s, at))
	}
}

// grant makes a change say what a shard may hold of a quota above its share, and end what it
// was granted before.
func grant(ch *store.Change, topUp int64) {
	ch.Renews, ch.TopUp = ch.Renews || topUp > 0, topUp
}

// movedTopUp is what a doubling moves of a quota's top-up to the shard born: a half, like that
// of the balance. A grant that a peer has given for another number of shards stays whole.
func movedTopUp(s *store.LimitState) int64 {
	if g := s.Granted(); g.Shards == 0 {
		return g.TopUp / 2
	}
	return 0
}
