package store

import (
	"cmp"
	"context"
	"iter"
	"time"
)

// A Store keeps buckets and configuration. The limiter decides; the store carries out
// one conditional write and returns the item as the write left it or found it.
//
// If the item's state refuses a write, that is not an error: the [Outcome] has the
// image that refused the write, and nothing has changed. An error means that the store
// could not find out. It answers errors.Is to one of [ErrThrottled], [ErrUnavailable],
// [ErrConflict] (nothing was applied), [ErrAccessDenied] or [ErrNotFound].
//
// A store never repeats a bucket write whose answer was lost, because the write may
// have landed. Its caller may repeat one that has a [Sequence]. A store may repeat a joint
// write, which it sends under a token and which is applied once. If a joint write was lost
// and its repetition turned away, the error is ErrUnavailable, since the lost attempt may
// still land.
//
// Package storetest holds the suite that every implementation passes.
type Store interface {
	// Now is the clock that stamps buckets: the local clock, corrected by what the
	// store has learned of the server's clock.
	Now() time.Time

	// Take debits a bucket that holds enough.
	Take(ctx context.Context, t *Take) (Outcome, error)
	// Refill accrues to a new stamp, debits, and repairs parameters, if the bucket
	// still has the stamp seen.
	Refill(ctx context.Context, r *Refill) (Outcome, error)
	// Create makes a bucket that does not exist, already debited.
	Create(ctx context.Context, c *Create) (Outcome, error)
	// Adjust moves balances of an existing bucket, if necessary into debt.
	Adjust(ctx context.Context, a *Adjust) (Outcome, error)
	ShardStore

	// Buckets reads every existing shard of an entity's bucket for a resource, in
	// order. If there is none, the slice is empty. Each item is read consistently, but
	// not all at the same instant.
	//
	// The number shards is how many the caller believes to exist; a correct number saves
	// requests. With 0, shard 0 is known to be missing, so that the store looks only for
	// its siblings.
	Buckets(ctx context.Context, entity, resource string, shards int) ([]*Image, error)
	// Load reads configuration, an entity's record and a bucket item in one request.
	Load(ctx context.Context, l *Load) (*Loaded, error)
}

// A ShardStore writes to several shards of a bucket: all writes are applied, or none.
type ShardStore interface {
	// Bear makes a shard that does not exist. The refusals are the shard's own (its
	// image is the existing shard) and the sibling's. Without a donor, and unless shard
	// 0 is born, shard 0's refusal follows.
	Bear(ctx context.Context, b *Birth) (Joint, error)
	// Gather carries out 1 to 100 refills, at most one for each bucket. The refusals
	// are in the order of the refills. At least one is Refused; the store may not have
	// looked at others.
	Gather(ctx context.Context, rs []*Refill) (Joint, error)
	// Merge merges two shards into one, for each of 1 to 50 pairs. For each pair there
	// are two refusals, the survivor's and the retired shard's, with the same meaning
	// as in Gather.
	Merge(ctx context.Context, pairs []*Pair) (Joint, error)
}

// A BucketLister is a [Store] that can list the buckets of a resource.
type BucketLister interface {
	// ResourceBuckets yields the buckets of a resource, or of all resources if it is "", by
	// entity: of each bucket, the shards that were found, by number. It reads page after
	// page, so that it never holds more than a page. A read need not be consistent, and a
	// bucket just made may be missing. After an error it yields nothing more.
	ResourceBuckets(ctx context.Context, resource string) iter.Seq2[[]*Image, error]
}

// A ConfigWatcher is a [Store] that also changes configuration and notifies caches of
// it. A limiter on such a store sees its own process's changes at once.
type ConfigWatcher interface {
	// WatchConfig calls f after every change made through this store, until the caller
	// calls stop. f must not block.
	WatchConfig(f func(ConfigKey)) (stop func())
}

// An ImmediateStore is a [Store] whose operations never wait for anything if Immediate
// reports true, for example on an engine in the same process. No caller leaves during
// such an operation, so a limiter serves an acquire on the caller's goroutine.
type ImmediateStore interface {
	Immediate() bool
}

// A CheckedClock is a [Store] that can tell whether it has compared its clock with the
// clock that all clients go by. A limiter on such a store moves back stamps that lie
// further ahead than any honest clock.
type CheckedClock interface {
	// CheckedNow is [Store.Now], and whether the last answer agreed with it. If so, the
	// clock must be right to within a few seconds.
	CheckedNow() (now time.Time, checked bool)
}

// A Bucket names one bucket item: one shard of an entity's bucket for a resource.
type Bucket struct {
	Entity, Resource string
	Shard            int
}

// A Turn ends the open hour of an item's diary and begins another one. The hour that ends
// gets what the counters gained in it, and the consumption of the write that turns belongs
// to the new hour. It requires that the open hour is still that of Seen, and that the
// limits of Seen are there. A write whose clock is behind the open hour turns nothing:
// its consumption belongs to the open hour.
type Turn struct {
	Seen *Image
	Hour int32 // that begins
	// From, if not nil, has the counts of limits with which the new hour begins: those before
	// its first write. A limit that it lacks begins with 0. The turn then requires that no
	// count is below. nil begins the hour with the counts before the write that turns, as every
	// turn does for acquires.
	From *Image
}

// An Outcome is the answer to a conditional write.
type Outcome struct {
	// Applied says that the write took place.
	Applied bool
	// Image is the item after the write, or the item that refused it; nil if
	// there is no item.
	Image *Image
}

// An Amount is what a write debits from one limit. Settlements also use negative
// amounts, which are credits.
type Amount struct {
	Limit string
	Milli int64 // millitokens
	// Until is, for a credit of a quota, the end of the period in which the amount was
	// debited. The credit does not reach the balance of another period. 0 is of no quota.
	// [NoBalance] is of no balance: the amount is only counted as consumed.
	Until int64
}

// Instants that are none.
const (
	// NoBalance is, as the end of a period, that an amount moves no balance: the bucket is bypassed,
	// or was when the amount was debited (ADR 052).
	NoBalance = -1
	// NoSession is when the session of a limit began that has none under way: the first one, or the one
	// that ended. It is so long ago that no session which began then has not ended.
	NoSession int64 = 1
)

// A Take debits every amount, and one token of the hidden write limit. It requires that
// the bucket exists and is not expired, lapsed or disabled. The bucket must hold all
// amounts, and no balance may be above its debit's AtMost. An amount of 0 only requires
// that the limit exists.
//
// If debits are of [NoBalance], the item must be bypassed until later than Now. Nothing is
// then required of balances, of parameters, or of ValidUntil.
type Take struct {
	Bucket
	Now    int64
	Debits []Debit // by limit name, each once
	// ShardCount, if not 0, is the number of shards from which AtMost was worked out.
	// The item must still have that number.
	ShardCount int
	// Since, if not 0, is the oldest stamp that the item may have, unless it has Stamp.
	Since int64
	// Seen is the image on which the debits were worked out; nil if that is not known.
	Seen *Image
	// Turn, if not nil, also turns to another hour.
	Turn     *Turn
	Sequence Sequence     // needs Seen
	Reserve  []ReserveAdd // ADR 071; needs Seen
	// Stamp, if not 0, is a stamp since which each limit has earned its debit's Earned,
	// and the hidden write limit has earned Earned. While the item has that stamp, each
	// balance needs to suffice only together with that amount, and AtMostAtStamp bounds it.
	Stamp, Earned int64
}

// A Debit is what a [Take] debits from one limit.
type Debit struct {
	Amount
	// AtMost bounds the balance before the debit. The item stores the balance as of its
	// stamp. A balance that has since accrued to the capacity must be cut there before
	// a debit. Otherwise the next refill would fill the gap with tokens that had
	// already overflowed.
	// AtMostAtStamp is the bound while the item has the take's Stamp.
	AtMost, AtMostAtStamp int64
	// Params, if not zero, are the parameters from which AtMost was worked out. The
	// limit must still have them.
	Params Params
	// Earned is what the limit has earned since the take's Stamp.
	Earned int64
	// Soft says that the balance need not suffice. The item must then have a stamp of the
	// limit that is later than the take's Now, see [Extra].
	Soft bool
	// Counts, of a limit in a mode, is that the amount only counts as consumed. AtLeast bounds the
	// balance of a soft limit before the debit. Shadows notes the amount as one that the limit would
	// have refused.
	Counts, Shadows bool
	AtLeast         int64
	// Ahead is how much of the amount the limit may still have to earn. The balance may
	// then fall below zero. The process that takes ahead waits until the limit has earned it.
	Ahead int64
}

// NamedParams are the parameters of the named limit.
type NamedParams struct {
	Limit string
	Params
}

// A Refill accrues, debits and repairs a bucket in one write. It requires that the
// stamp, ValidUntil, the number of shards, Disabled and its end are still those of Seen. A
// refill repairs if it changes, adds or removes a limit, or restamps the owner. It then
// also requires every limit's parameters and the owner of the image, because peers
// change those without moving the stamp. A refill also debits the hidden write limit,
// whose [Change] is Writes.
type Refill struct {
	Bucket
	// Seen is the image on which the changes were worked out.
	Seen *Image
	// RefilledAt is the new stamp. It lies before the stamp seen only if that lies
	// ahead of every honest clock.
	RefilledAt int64
	// FullSince, if not 0, replaces the lock of the stamp: the stamp may be any up to
	// this instant. Every limit then had room for less than it has earned since, if its
	// balance was at least AtLeast. So every limit is full, whatever its balance was,
	// and the write sets each balance to Earned less Debit. Parameters must be the ones
	// seen.
	FullSince int64
	// Loose also replaces the lock of the stamp: the stamp may be any up to RefilledAt,
	// which becomes the new one. The tokens accrued since the stamp seen are lost, so
	// Loose is only for stamps at most milliseconds old. The write keeps parameters and
	// requires those that the changes have, the calendar of a quota and what it carries included.
	Loose   bool
	Writes  Change
	Changes []Change // by limit name; limits without one are left alone
	Expiry  Expiry
	// Validity changes ValidUntil: the write begins a period, or does the trim that a peer
	// requested. It also says whether the item is in step.
	Validity Validity
	// ShardCount, if not 0, replaces the item's number of shards.
	ShardCount int
	// Owner, if not nil, replaces the owner that the item has copied. KeepsOwner requires that the
	// item still has the owner that is Seen, because somebody copies it.
	Owner      *Owner
	KeepsOwner bool
	Turn       *Turn // as in [Take]
	// Enables removes Disabled from the item. It requires that the item still has the
	// MarkedUntil seen, which has passed.
	Enables  bool
	Bypass   Stamp
	Sequence Sequence
	// Idle are positions that the write removes, if they still have these numbers: their processes are
	// gone, or write nothing.
	Idle []Position
	// Reserve is what the write reserves (ADR 071). Lost are reservations that it removes, if they are
	// still as seen: what goes back is a part of its changes.
	Reserve []ReserveAdd
	Lost    []Reservation
}

// A Change is what a [Refill] does to one limit. The balance changes by Earned less
// Debit, if it lies between AtLeast and AtMost before the write.
type Change struct {
	Limit string
	Kind  ChangeKind
	// Earned is the accrual, or, if negative, the trimmed amount. For [AddLimit] it is
	// the opening balance.
	Earned int64
	// Debit is the consumed amount; if negative, the returned amount.
	Debit int64
	// AtLeast and AtMost bound the balance before the write. They let takes and credits
	// land between image and write without losing accrual or lifting the balance above
	// the capacity. [AddLimit] does not use them.
	AtLeast, AtMost int64
	// Renews ends what a shard was Granted of a quota: the write begins a period, or gives the
	// shard another share. A limit that becomes a quota has no grant.
	Renews bool
	// TopUp, a part of Earned, raises what a shard may hold of a quota until its period ends.
	// Resets counts a reset of a quota by an operator.
	TopUp  int64
	Resets bool
	// Opened, if not 0, is when a session begins, or [NoSession] if the session has ended and
	// the write does not use the next one. 0 leaves it.
	Opened int64
	// SoftUntil, if not 0, is the stamp of a soft limit, see [Extra]. That of Seen leaves the
	// stamp as the item has it, which may be a later one. If the write keeps the parameters, so
	// does 0. Otherwise the item must have one, unless the refill repairs. If it sets or adds
	// parameters, 0 makes the limit hard.
	SoftUntil int64
	// Mode is what a stamped limit is to be, if the write sets or adds parameters.
	Mode Mode
	// Counts is as in [Debit]. Earned has the amount then, too. Shadowed, if not 0, is noted as what
	// a limit in shadow would have refused, by the time of the new stamp.
	Counts   bool
	Shadowed int64
	// Params are the parameters to write, for [SetParams] and [AddLimit]. If the refill
	// is loose or uses FullSince, they are the parameters that the limit must have.
	Params Params
}

// ChangeKind is what happens to a limit's parameters.
type ChangeKind uint8

// The kinds of [Change].
const (
	KeepParams  ChangeKind = iota // parameters stay
	SetParams                     // parameters are replaced
	AddLimit                      // the limit is not on the item yet
	RemoveLimit                   // the limit is removed from the item
)

// An Expiry changes when the sweep may delete a bucket item. The zero Expiry changes
// nothing.
type Expiry struct {
	Change bool
	At     int64 // seconds since the Unix epoch; 0 is never
}

// A Validity changes when the parameters of a bucket item lapse. The zero Validity changes
// nothing.
type Validity struct {
	Change bool
	Until  int64 // in milliseconds since the Unix epoch; 0 is never
	InStep bool  // the item is in step, see [Image]; if not, and the stamp moves, it no longer is
}

// A Stamp is what a [Refill] makes of whether an item is bypassed. The zero Stamp leaves it alone.
type Stamp struct {
	// Change requires that the item is as seen: bypassed until the same instant, or not at all.
	Change bool
	Until  int64 // the stamp that the item gets or keeps; 0 is that it is not bypassed
}

// A Create makes a bucket item, if there is none.
type Create struct {
	Bucket
	Now int64 // when the item is made
	// RefilledAt is the stamp; 0 is Now. A shard gets that of its sibling, which is older.
	RefilledAt int64
	ShardCount int
	Limits     []NewLimit // by limit name
	Writes     NewLimit   // the hidden write limit
	Owner      Owner
	ExpiresAt  int64 // seconds since the Unix epoch; 0 is never
	ValidUntil int64 // milliseconds since the Unix epoch; 0 is never
	InStep     bool  // as in [Image]
	// Disabled, Bypassed and MarkedUntil are as in [Image]. A shard has those of its sibling.
	Disabled, Bypassed bool
	MarkedUntil        int64
	// Position, if it has a name, is the first position of the item, and Reserved are reservations of its
	// process. The item gets no more of them than it has room for, as the image of the outcome says: the
	// reservations only with the position, and all or none.
	Position Position
	Reserved []Reservation
}

// Stamp is the stamp of the item.
func (c *Create) Stamp() int64 { return cmp.Or(c.RefilledAt, c.Now) }

// A NewLimit is a limit of a bucket being created.
type NewLimit struct {
	NamedParams
	Tokens    int64 // opening balance less what the creation debits
	Consumed  int64
	Opened    int64 // as in [Extra]
	SoftUntil int64 // the stamp of a soft limit; 0 is hard
	Observed
	TopUp int64 // as in [Granted]
}

// A Birth makes a shard that does not exist, and creates no tokens. With a Donor, the
// sibling gives the opening balances in the same transaction. Without one, the shard
// opens empty, and the sibling must not exist. Shard 0, unless it is the one born, must
// then have the shard count that the new shard gets, and be Disabled if that is.
type Birth struct {
	Create
	// Donor is the sibling's write, which debits the sibling by the new shard's opening
	// balances; nil if there is no sibling.
	Donor *Refill
	// Sibling is the sibling's number. Without a Donor, that shard must not exist.
	Sibling int
}

// A Pair is two shards of a bucket that a merge makes one. Shard i of 2n survives as
// shard i of n. Shard i+n is deleted, if it is as it was seen.
type Pair struct {
	// Survivor is the write that adds the retired shard's balances and sets the smaller
	// number of shards.
	Survivor *Refill
	// Retired is the image of the deleted shard. The shard must still have the image's
	// stamp, number of shards, parameters and ValidUntil. It must not be disabled, must hold
	// no more of any limit than the image, and a limit in shadow must have noted no more.
	Retired *Image
	// AtLeast is the least that the retired shard must still hold of each limit of
	// Retired, in order.
	AtLeast []int64
}

// A Joint is the answer to writes that are applied together or not at all.
type Joint struct {
	// Applied says that all writes were applied.
	Applied bool
	// Refusals has an entry for each write if the writes were not applied: whether the
	// state of its item refused it. With [ErrThrottled] it may say which item's
	// partition throttled.
	Refusals []Refusal
}

// A Refusal is one write's part in a [Joint] that was not applied.
type Refusal struct {
	// Refused says that the state of this write's item refused the write, not
	// another's.
	Refused bool
	// Image is the item that refused the write; nil if there is none, or if it did not
	// refuse.
	Image *Image
	// Throttled says that the item's partition rejected the write for its rate.
	Throttled bool
}

// An Adjust moves balances of an existing bucket, if each limit's balance lies within
// the bounds of its delta. A debit also requires that the limit still has the
// parameters seen, unless the item is foreign. A credit also requires that the limit
// still has the capacity seen, and what it was topped up by, if anything. On a foreign
// item, it requires that the item still has the ValidUntil seen, if it had one. The item
// must still have the shard count seen, unless it is foreign and the Adjust only debits.
type Adjust struct {
	Bucket
	Seen   *Image
	Deltas []Delta // by limit name
	// Before, if not 0, is the instant before which the item's stamp must lie, and it must not
	// have been moved back since Seen: a credit is of the period of Seen, which ends then.
	Before   int64
	Turn     *Turn // as in [Take]
	Sequence Sequence
	Reserve  []ReserveAdd // ADR 071
}

// A Delta is what an [Adjust] does to one limit.
type Delta struct {
	Limit string
	// Tokens is added to the balance; negative debits it.
	Tokens int64
	// Consumed is added to the count of consumed tokens. It differs from -Tokens where
	// a part of a credit exceeds the capacity.
	Consumed int64
	// AtMost bounds the balance before the write. See [Debit] and [Change].
	AtMost int64
	// Covered says that the balance before the write must suffice for the debit.
	Covered bool
	Pinned  bool // the balance before the write must equal AtMost
}

// A ConfigKey names one level of configuration. In order, the levels are: an entity's
// for a resource, an entity's for [DefaultResource], a resource's (no Entity), the
// system's (neither). The first level that has limits holds.
type ConfigKey struct{ Entity, Resource string }

// String is the level in words: "entity bob for gpt-4", "the system".
func (k ConfigKey) String() string {
	switch {
	case k.Entity != "" && k.Resource == DefaultResource:
		return "entity " + k.Entity + " for every resource"
	case k.Entity != "":
		return "entity " + k.Entity + " for " + k.Resource
	case k.Resource != "":
		return "resource " + k.Resource
	}
	return "the system"
}

// A Config is the configuration of one level.
type Config struct {
	Limits []Limit // by name
	// OnUnavailable is set only at system level.
	OnUnavailable OnUnavailable
	// Disabled and Cascade are policies of an entity or resource level.
	Disabled Switch
	Cascade  Policy
	// Slots are the limits of how many requests run at a time, by name. The first level that has
	// any holds for them, whichever level has Limits.
	Slots []SlotLimit // ADR 055
	// Features are those of a peer that the limits use.
	Features Features
}

// IsEvaluable reports whether this version can evaluate all features of the limits.
func (c *Config) IsEvaluable() bool { return c.Features.Unsupported() == 0 }

// An Entity is a consumer: an API key, a user, a project.
type Entity struct {
	ID       string
	Name     string            // for display; the ID if none was given
	Parent   string            // "" if none
	Cascade  bool              // an acquire from the entity also acquires from Parent
	Metadata map[string]string // never nil on an entity that was read
	Created  time.Time         // to the second
	// Generation counts the parents that the entity has had. Incarnation tells apart
	// two entities with the same ID, one after the other.
	Generation  int64
	Incarnation string
}

// A Load requests configuration, an entity's record if Entity is not "", and a bucket
// item if Bucket is not nil.
type Load struct {
	Entity  string
	Configs []ConfigKey
	Bucket  *Bucket
	// Consistent requests reads that include every write answered before. Otherwise
	// reads are eventually consistent, at half the price.
	Consistent bool
}

// Loaded is the answer to a [Load].
type Loaded struct {
	Entity  *Entity   // nil if there is none
	Configs []*Config // as asked for; nil where there is none
	Image   *Image    // nil if there is none
}

// OnUnavailable is what an acquire does when it cannot reach the store.
type OnUnavailable string

// The values of [OnUnavailable]. The zero value leaves the choice to the system level
// of configuration. If that has no value either, [Block] holds.
const (
	// Block makes the acquire return [ErrUnavailable].
	Block OnUnavailable = "block"
	// Allow makes the acquire return a degraded lease: the work goes on unmetered.
	Allow OnUnavailable = "allow"
	// Share makes the acquire take from this process's share of the limits, and debit that
	// once the store is back (ADR 061).
	Share OnUnavailable = "share"
)

// Validate reports a value that is none, as a [*ValidationError]. "" is one.
func (on OnUnavailable) Validate() error {
	switch on {
	case "", Block, Allow, Share:
		return nil
	}
	return &ValidationError{Field: "on unavailable", Value: string(on), Reason: `give "block", "allow" or "share"`}
}
