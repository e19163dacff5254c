package store

// An Image is a bucket item as a store last answered it. It is immutable: the limiter
// keeps it and shares it between callers.
//
// Tokens are in millitokens. Instants are in milliseconds since the Unix epoch unless
// the name says otherwise.
type Image struct {
	Bucket
	// ShardCount is the item's own number of shards, at least 1. Items of one bucket
	// may disagree.
	ShardCount int
	// RefilledAt is the stamp: the instant up to which the balances have accrued. It is
	// the lock of every write that accrues.
	RefilledAt int64
	// CreatedAt is when the item was made, in milliseconds; 0 is unknown. It tells the
	// item from earlier ones of the bucket, whose counters of consumed tokens it does
	// not continue.
	CreatedAt int64
	// ExpiresAt is when the sweep may delete the item, in seconds since the Unix epoch;
	// 0 is never.
	ExpiresAt int64
	// ValidUntil is when the item's parameters lapse, if HasValidUntil: the next edge of
	// its limits' calendars, see [ValidUntil]. A peer writes 0 to request one write that
	// trims every balance.
	ValidUntil    int64
	HasValidUntil bool
	// InStep says that the balances of quotas that vary have followed all changes of their amounts,
	// since their periods began (ADR 057). A peer's refill ends that. It means nothing if the item
	// has no such quota.
	InStep bool
	// RenewsByDefault and VariesByDefault say that limits of the item renew, or follow a schedule,
	// which do not say so themselves. Only a peer writes that.
	RenewsByDefault, VariesByDefault bool
	// Features are those of a peer that the item uses. An item that is not
	// [Image.IsEvaluable] may be debited while its parameters are valid. Otherwise the
	// limiter leaves it alone.
	Features Features
	// Cascade says that an acquire on this bucket also acquires from Parent.
	Cascade bool
	// Disabled and Bypassed are what an operator's switch has made of the item, one of them at
	// most. Disabled: no tokens may be acquired until MarkedUntil, 0 for ever. Bypassed:
	// MarkedUntil is a stamp (ADR 052). Until then amounts are counted, whatever the balances,
	// which they do not move. A stamp that is no instant reads as -1, which has passed. The item
	// keeps both until a write removes them: see [Refill.Enables] and [Refill.Bypass].
	Disabled, Bypassed bool
	MarkedUntil        int64
	// Hour is the hour that is open in the item's diary, in hours since the Unix epoch; 0 if
	// the item has no diary. Diary is what the next [Turn] has to keep, nil if nothing.
	Diary *Diary
	Hour  int32
	// PositionCap is what the item's count of positions must be below for one more, see [Sequence]. Its
	// remainder by [PositionRound] is the most positions: [MostPositions], or less because of the item's size, so
	// that they cost no unit, and leave the diary some hours. Positions are those that it has, by name.
	PositionCap int32
	Positions   []Position
	// Reserved are the reservations, by entry and then by limit; nil on nearly every item, which has none.
	Reserved *[]Reservation
	// Parent is the entity's parent, "" if none.
	Parent string
	// ParentGeneration and Incarnation identify the entity's record from which the
	// item's owner was copied.
	ParentGeneration int64
	Incarnation      string
	// Writes is the hidden write limit of the item.
	Writes LimitState
	// Limits are the item's limits by name, in order, [Image.Writes] excluded.
	Limits []LimitState
}

// IsEvaluable reports whether this version can evaluate all features of the item.
func (i *Image) IsEvaluable() bool { return i.Features.Unsupported() == 0 }

// Limit finds a limit's state by name. It has no parameters, all 0, if the image lacks it.
func (i *Image) Limit(name string) (LimitState, bool) {
	k := i.index(name)
	if k < 0 {
		return LimitState{Params: &noParams}, false
	}
	return i.Limits[k], true
}

var noParams Params

// index is the position of a limit in the image, -1 if the image lacks it.
func (i *Image) index(limit string) int {
	for k := range i.Limits {
		if i.Limits[k].Name == limit {
			return k
		}
	}
	return -1
}

// A LimitState is one limit on a bucket item. It has this shard's balance, and the
// parameters of the whole limit, not divided by the number of shards.
type LimitState struct {
	Name string
	// Tokens is the balance in millitokens, negative in debt. If the balance is below
	// −8·10^18, a store gives −8·10^18.
	Tokens int64
	// Consumed is the millitokens ever consumed less those returned, modulo 2^64,
	// because the count has no end. Only the difference between two images of an item
	// has a meaning. It is exact, by wrap-around, within 64 bits.
	Consumed int64
	// Extra is what few limits have besides; nil, as on nearly every item, if there is nothing.
	// A session always has it.
	Extra *Extra
	// Params are nil only where an item lacks [Image.Writes], and never changed: images share them.
	*Params
}

// An Extra is what few limits of bucket items have besides a balance and parameters. It is
// immutable.
type Extra struct {
	Granted
	// Opened is when the session began that the balance is of (ADR 051); [NoSession] if none is
	// under way, and 0 if the limit is no session.
	Opened int64
	Told   Told
	// SoftUntil is the stamp of a soft limit (ADR 050): until that instant clients debit the limit
	// at any balance. Then the next write renews it, if the limit is still to be soft. A stamp
	// that is no instant reads as -1, which has passed. 0 is of a hard limit.
	SoftUntil int64
	Observed
}

// Observed is what a limit has that is stamped like a soft one and is in a mode. The zero Observed is
// of any other limit.
type Observed struct {
	// Mode is [Shadow] or [Off].
	Mode Mode
	// Shadowed is what a limit in shadow would have refused, in millitokens, modulo 2^64 like
	// [LimitState.Consumed], and ShadowedAt when it did so last, in milliseconds; 0 is never.
	Shadowed, ShadowedAt int64
}

// Granted is a part of a quota that is not the shard's share, until the period ends. It is the
// work of a peer or of an operator. The zero Granted is the share.
type Granted struct {
	// Shards is the number of shards among which the quota was divided when the shard's balance
	// was renewed, if it is not ShardCount; 0 otherwise.
	Shards int
	// TopUp is what an operator has added since, in millitokens.
	TopUp int64
}

// Told is a session that a peer began on another shard, and told this one of: the next write
// that renews the balance joins it. The zero Told is none.
type Told struct {
	Opened int64
	// Consumed is what the shard has consumed since, in millitokens.
	Consumed int64
}

// Granted is what the shard was granted of a quota until its period ends.
func (s *LimitState) Granted() Granted {
	if s.Extra == nil {
		return Granted{}
	}
	return s.Extra.Granted
}

// Opened is when the session began that the balance is of, see [Extra].
func (s *LimitState) Opened() int64 {
	if s.Extra == nil {
		return 0
	}
	return s.Extra.Opened
}

// Told is the session that the shard is to join, see [Extra].
func (s *LimitState) Told() Told {
	if s.Extra == nil {
		return Told{}
	}
	return s.Extra.Told
}

// SoftUntil is the stamp of a soft limit, see [Extra].
func (s *LimitState) SoftUntil() int64 {
	if s.Extra == nil {
		return 0
	}
	return s.Extra.SoftUntil
}

// IsSoft reports whether the limit has the stamp of a soft one, even if that has passed. Limits in
// shadow and those that are off have it, too.
func (s *LimitState) IsSoft() bool { return s.SoftUntil() != 0 }

// Observed is what the limit has of its mode, see [Extra].
func (s *LimitState) Observed() Observed {
	if s.Extra == nil {
		return Observed{}
	}
	return s.Extra.Observed
}

// Mode is the mode in which the item has the limit.
func (s *LimitState) Mode() Mode { return s.Observed().Mode }

// SetExtra gives the limit what few limits have.
func (s *LimitState) SetExtra(e Extra) {
	if s.Extra = nil; e != (Extra{}) {
		kept := e // a pointer to the argument would allocate it on every call
		s.Extra = &kept
	}
}

// ConsumedSince is how much was consumed between an earlier image of the limit and this
// one, in millitokens.
func (s *LimitState) ConsumedSince(earlier *LimitState) int64 { return s.Consumed - earlier.Consumed }

// A Diary is what a bucket item gained in the hours before the open one (ADR 039). It is
// immutable while that hour is open.
type Diary struct {
	// Text has the closed hours, as package diary writes them. Room is how long it may be for
	// the item to cost no more units.
	Text string
	Room int
	// Removed are limits that the item no longer has, by name, of which it has something.
	Removed []RemovedLimit
	// Unread says that nothing of this is known: the item was turned by a write that did
	// not return it.
	Unread bool
}

// A RemovedLimit is a limit that was removed from a bucket item.
type RemovedLimit struct {
	Name string
	// IsOpen says that the item still has its count. The next turn closes and removes it. That
	// of a limit that is not open removes the rest.
	IsOpen bool
}
