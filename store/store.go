package store

import (
	"context"
	"time"
)

// A Store keeps buckets and configuration. The limiter decides; the store
// carries out one conditional write and hands back the item it met.
//
// A write that the item's state refuses is not an error: the [Outcome] carries
// the image that refused it, and nothing has changed. Errors are failures to
// find out, and answer errors.Is to one of [ErrThrottled], [ErrUnavailable],
// [ErrConflict] (nothing was applied), [ErrAccessDenied] or [ErrNotFound]. A
// bucket write whose answer was lost is never sent again: it may have landed. A
// joint write may be: it is sent under a token, and applied once. One that was
// lost and then turned away is ErrUnavailable, since the lost attempt may land
// yet.
//
// Package storetest holds the suite every implementation passes.
type Store interface {
	// Now is the clock that stamps buckets: the local clock, corrected by what
	// the store has learnt of the server's.
	Now() time.Time

	// Take debits a bucket that can afford it.
	Take(ctx context.Context, t *Take) (Outcome, error)
	// Refill accrues to a new stamp, debits, and repairs parameters, provided
	// that the bucket still has the stamp seen.
	Refill(ctx context.Context, r *Refill) (Outcome, error)
	// Create makes a bucket that does not exist, already debited.
	Create(ctx context.Context, c *Create) (Outcome, error)
	// Adjust moves balances of an existing bucket, into debt if need be.
	Adjust(ctx context.Context, a *Adjust) (Outcome, error)
	ShardStore

	// Buckets reads every shard that exists of an entity's bucket for a
	// resource, in order; none is an empty slice. Each item is read
	// consistently, but not all at the same instant. shards is how many are
	// believed to exist, which saves requests if it is right; 0 says that shard
	// 0 is known to be missing, so that only its siblings are looked for.
	Buckets(ctx context.Context, entity, resource string, shards int) ([]*Image, error)
	// Load reads configuration items and an entity's record in one request.
	Load(ctx context.Context, l *Load) (*Loaded, error)
}

// A ShardStore writes to several shards of a bucket, all or none.
type ShardStore interface {
	// Bear makes a shard that does not exist. The refusals are the shard's own
	// (its image is the shard that exists), the sibling's, and, without a donor
	// and unless shard 0 is the one born, shard 0's.
	Bear(ctx context.Context, b *Birth) (Joint, error)
	// Gather carries out refills, 1 to 100, each bucket once. The refusals are in
	// the order of the refills; at least one is Refused, others may merely not
	// have been looked at.
	Gather(ctx context.Context, rs []*Refill) (Joint, error)
	// Merge makes one shard of two, for each of 1 to 50 pairs. The refusals are two
	// for each pair, the survivor's and the retired shard's, as those of Gather.
	Merge(ctx context.Context, pairs []*Pair) (Joint, error)
}

// A ConfigWatcher is a [Store] that changes configuration too and tells whoever
// caches it. A limiter on such a store sees its own process's changes at once.
type ConfigWatcher interface {
	// WatchConfig calls f after every change made through this store, until
	// the function returned is called. f must not block.
	WatchConfig(f func(ConfigKey)) (stop func())
}

// An ImmediateStore is a [Store] whose operations may never wait for anything,
// as those on an engine in the same process. Nobody leaves while one is under
// way, so a limiter serves acquires on the goroutine of their caller.
type ImmediateStore interface {
	Immediate() bool
}

// A CheckedClock is a [Store] that can tell whether its clock was compared with the one
// that all clients go by. A limiter on such a store moves back stamps that lie further
// ahead than any honest clock.
type CheckedClock interface {
	// CheckedNow is [Store.Now], and whether the last answer agreed with it. It must
	// be right to within a few seconds then.
	CheckedNow() (now time.Time, checked bool)
}

// A Bucket names one bucket item: one shard of what an entity may consume of a
// resource.
type Bucket struct {
	Entity, Resource string
	Shard            int
}

// An Image is a bucket item as it stood when a store last answered. It is
// immutable: the limiter keeps it and shares it between callers.
//
// Tokens are in millitokens, instants in milliseconds since the Unix epoch
// unless the name says otherwise.
type Image struct {
	Bucket
	// ShardCount is the number of shards the item believes in, at least 1.
	ShardCount int
	// RefilledAt is the instant up to which the balances have accrued: the
	// lock of every write that accrues.
	RefilledAt int64
	// ExpiresAt is when the item may be swept, in seconds since the Unix
	// epoch; 0 is never.
	ExpiresAt int64
	// ValidUntil is when the item's parameters lapse, if HasValidUntil. A peer
	// writes 0 to ask for one pass that trims every balance.
	ValidUntil    int64
	HasValidUntil bool
	// Disabled is an operator's switch: nothing may be acquired.
	Disabled bool
	// Cascade says that acquiring here acquires from Parent too.
	Cascade bool
	Parent  string // "" if none
	// ParentGeneration and Incarnation identify the owner's record this item
	// was stamped from.
	ParentGeneration int64
	Incarnation      string
	// Foreign names the first feature of a peer that the item carries and this
	// version cannot evaluate ("parameter schedule", "quota"); "" if none. Such
	// an item may be debited while its parameters are valid, and is otherwise
	// left alone.
	Foreign string
	// Writes is the hidden limit on writes to the item.
	Writes LimitState
	// Limits are the item's limits by name, in order, [Image.Writes] excluded.
	Limits []LimitState
}

// Limit finds a limit's state by name.
func (i *Image) Limit(name string) (LimitState, bool) {
	k := i.index(name)
	if k < 0 {
		return LimitState{}, false
	}
	return i.Limits[k], true
}

// index is where a limit is among the image's, -1 if it is not there.
func (i *Image) index(limit string) int {
	for k := range i.Limits {
		if i.Limits[k].Name == limit {
			return k
		}
	}
	return -1
}

// A LimitState is one limit on a bucket item: this shard's balance, and the
// whole limit's parameters, not divided by the number of shards.
type LimitState struct {
	Name string
	// Tokens are the millitokens held, negative in debt. A store gives what is below
	// −8·10^18 as that.
	Tokens int64
	// Consumed are the millitokens ever consumed less those returned, modulo 2^64:
	// the count has no end. Only the difference of two images of an item means
	// anything; it is exact, by wrap-around, within 64 bits.
	Consumed int64
	Params
}

// ConsumedSince is how much was consumed between an earlier image of the limit and this
// one, in millitokens.
func (s *LimitState) ConsumedSince(earlier *LimitState) int64 { return s.Consumed - earlier.Consumed }

// Params are a limit's parameters as a bucket item stores them.
type Params struct {
	Capacity int64 // millitokens
	Amount   int64 // millitokens earned every Period
	Period   int64 // milliseconds
}

// Params are the limit's parameters as a bucket item stores them.
func (l Limit) Params() Params {
	return Params{Capacity: l.Capacity * Milli, Amount: l.Amount * Milli, Period: l.Period.Milliseconds()}
}

// An Outcome is the answer to a conditional write.
type Outcome struct {
	// Applied says that the write took place.
	Applied bool
	// Image is the item after the write, or the item that refused it; nil if
	// there is no item.
	Image *Image
}

// An Amount is what a write debits from one limit.
type Amount struct {
	Limit string
	Milli int64 // millitokens, not negative
}

// A Take debits every amount, and one token of the hidden write limit, of a
// bucket that exists, is neither expired, lapsed nor disabled, and holds them
// all, none of them above its debit's AtMost. An amount of 0 asks only that the
// limit exists.
type Take struct {
	Bucket
	Now    int64
	Debits []Debit // by limit name, each once
	// ShardCount, if not 0, is the number of shards that AtMost was worked out
	// from, which the item must still believe in.
	ShardCount int
	// Since, if not 0, is the oldest stamp that the item may have.
	Since int64
	// Stamp, if not 0, is a stamp since which each limit has earned what its debit
	// says, and the hidden write limit Earned. As long as the item has it, the
	// balances need to be enough only together with that.
	Stamp, Earned int64
}

// A Debit is what a [Take] debits from one limit.
type Debit struct {
	Amount
	// AtMost bounds the balance before the debit. A balance is stored as it
	// was at the item's stamp; one that has since accrued to its capacity has
	// to be cut there before anything is taken off it, or the next refill
	// would fill the hole with what had already overflowed.
	AtMost int64
	// Params, if not zero, are the parameters that AtMost was worked out from,
	// which the limit must still have.
	Params Params
	// Earned is what the limit has earned since the take's Stamp.
	Earned int64
}

// NamedParams are the parameters of the limit named.
type NamedParams struct {
	Limit string
	Params
}

// A Refill accrues, debits and repairs a bucket in one write, on the condition
// that its stamp is still Seen, and its ValidUntil, its number of shards and whether
// it is disabled still those of the image. One that repairs, that is, changes, adds or
// removes a limit, or restamps the owner, asks the same of every limit's parameters
// and of the owner: peers change those without moving the stamp.
// It also debits the hidden write limit, whose [Change] is Writes.
type Refill struct {
	Bucket
	// Seen is the image that the changes were worked out on.
	Seen *Image
	// RefilledAt is the new stamp. It is before the one seen only if that lies ahead
	// of every honest clock.
	RefilledAt int64
	// FullSince, if not 0, replaces the lock of the stamp: the stamp may be
	// any up to this instant. Every limit then had room for less than it
	// earned since, if its balance was at least AtLeast, and is full whatever
	// its balance was: balances become Earned less Debit. Parameters are the
	// ones seen.
	FullSince int64
	// Loose, too, replaces the lock of the stamp: it may be any up to
	// RefilledAt, which becomes the new one. What accrued since is lost, so it
	// is for stamps that are never older than milliseconds. Parameters are kept,
	// and are the ones that the changes carry.
	Loose   bool
	Writes  Change
	Changes []Change // by limit name; limits without one are left alone
	Expiry  Expiry
	// Lapse removes ValidUntil: the trim that a peer asked for is done.
	Lapse bool
	// ShardCount, if not 0, is the number of shards that the item believes in
	// from now on, instead of the one seen.
	ShardCount int
	// Owner, if not nil, restamps who the bucket belongs to.
	Owner *Owner
}

// A Change is what a [Refill] does to one limit. The balance changes by Earned
// less Debit, if it lies between AtLeast and AtMost before the write.
type Change struct {
	Limit string
	Kind  ChangeKind
	// Earned is the accrual, or, negative, what is trimmed. For [AddLimit] it
	// is the opening balance.
	Earned int64
	// Debit is what is consumed; negative, what is returned.
	Debit int64
	// AtLeast and AtMost bound the balance before the write, so that takes and
	// credits which land between image and write neither lose accrual nor
	// lift the balance above the capacity. They are not used by [AddLimit].
	AtLeast, AtMost int64
	// Params are the parameters to write, for [SetParams] and [AddLimit], or
	// those that the limit must have, if the refill is loose or does without
	// its lock.
	Params Params
}

// ChangeKind is what happens to a limit's parameters.
type ChangeKind uint8

// The kinds of [Change].
const (
	KeepParams  ChangeKind = iota // parameters stay
	SetParams                     // parameters are replaced
	AddLimit                      // the limit is not on the item yet
	RemoveLimit                   // the limit is taken off the item
)

// An Expiry changes when a bucket item may be swept. The zero Expiry leaves
// that as it is.
type Expiry struct {
	Change bool
	At     int64 // seconds since the Unix epoch; 0 is never
}

// An Owner is what a bucket item copies from its entity's record.
type Owner struct {
	Cascade     bool
	Parent      string // "" if none
	Generation  int64
	Incarnation string // "" if the entity has no record
}

// A Create makes a bucket item, provided that there is none.
type Create struct {
	Bucket
	Now        int64
	ShardCount int
	Limits     []NewLimit // by limit name
	Writes     NewLimit   // the hidden write limit
	Owner      Owner
	ExpiresAt  int64 // seconds since the Unix epoch; 0 is never
}

// A NewLimit is a limit of a bucket being created.
type NewLimit struct {
	NamedParams
	Tokens   int64 // opening balance less what is consumed at once
	Consumed int64
}

// A Birth makes a shard that does not exist. Nothing it holds is new: either
// its sibling gives it, in the same transaction, or it opens empty, provided
// that there is no sibling to give and that shard 0, unless that is the one
// born, has the shard count that it is born with.
type Birth struct {
	Create
	// Donor is the sibling's write, which takes off the sibling what the shard
	// opens with; nil if there is no sibling.
	Donor *Refill
	// Sibling is the sibling's number, which must not exist without a Donor.
	Sibling int
}

// A Pair is two shards of a bucket that become one: shard i of 2n, which survives
// as shard i of n, and shard i+n, which is deleted, provided that it is as it was
// seen.
type Pair struct {
	// Survivor is the write that takes over what the other one held, and learns
	// the smaller number of shards.
	Survivor *Refill
	// Retired is the image of the other one. It must still have its stamp, its
	// number of shards and its parameters, be neither disabled nor limited in its
	// validity, and hold no more of any limit.
	Retired *Image
	// AtLeast is how much it must still hold of each limit of Retired, in order.
	AtLeast []int64
}

// A Joint is the answer to writes that take place together or not at all.
type Joint struct {
	// Applied says that all of them took place.
	Applied bool
	// Refusals has, if they did not, an entry for each write: whether the
	// state of its item refused it. With [ErrThrottled] it may say which of the
	// items was too busy.
	Refusals []Refusal
}

// A Refusal is one write's part in a [Joint] that was not applied.
type Refusal struct {
	// Refused says that the item's state refused the write, not another's.
	Refused bool
	// Image is the item that refused it; nil if there is none, or if it did
	// not refuse.
	Image *Image
	// Throttled says that the item's partition turned the write away.
	Throttled bool
}

// An Adjust moves balances of a bucket that exists, as long as each limit's
// balance lies within the bounds of its delta. A debit moreover asks that the
// limit still has the parameters seen, unless they are foreign; a credit, that
// it still has the capacity seen, and the item the shard count seen.
type Adjust struct {
	Bucket
	Seen   *Image
	Deltas []Delta // by limit name
}

// A Delta is what an [Adjust] does to one limit.
type Delta struct {
	Limit string
	// Tokens is added to the balance, negative to take.
	Tokens int64
	// Consumed is added to the count of tokens consumed. It differs from
	// -Tokens where part of a credit finds no room.
	Consumed int64
	// AtMost bounds the balance before. See [Debit] and [Change].
	AtMost int64
	// Covered says that the balance before must be enough for what is taken.
	Covered bool
	// Pinned says that the balance before must be AtMost.
	Pinned bool
}

// A ConfigKey names one level of configuration, the first that has limits
// being the one that holds: an entity's for a resource, an entity's for
// [DefaultResource], a resource's (no Entity), the system's (neither).
type ConfigKey struct{ Entity, Resource string }

// A Config is what one level of configuration says.
type Config struct {
	Limits []Limit // by name
	// OnUnavailable is set at system level only.
	OnUnavailable OnUnavailable
	// Disabled and Cascade are policies of an entity or resource level.
	Disabled, Cascade Policy
	// Foreign names the first feature of a peer that the limits use and this
	// version cannot evaluate; "" if none.
	Foreign string
}

// A Policy is a switch that a level of configuration may leave to the next.
type Policy uint8

// The values of a [Policy].
const (
	Inherit Policy = iota
	Yes
	No
)

// An Entity is who consumes: an API key, a user, a project.
type Entity struct {
	ID       string
	Name     string            // for people; the ID if none was given
	Parent   string            // "" if none
	Cascade  bool              // acquiring from the entity acquires from Parent too
	Metadata map[string]string // never nil on an entity that was read
	Created  time.Time         // to the second
	// Generation counts the entity's parents, and Incarnation tells two
	// entities apart that had the same ID one after the other.
	Generation  int64
	Incarnation string
}

// A Load asks for an entity's record, if Entity is not "", for configuration,
// and for a bucket item, if Bucket is not nil.
type Load struct {
	Entity  string
	Configs []ConfigKey
	Bucket  *Bucket
	// Consistent asks for each item as every write left it that was answered before.
	// Otherwise reads are eventually consistent, at half the price.
	Consistent bool
}

// Loaded is the answer to a [Load].
type Loaded struct {
	Entity  *Entity   // nil if there is none
	Configs []*Config // as asked for; nil where there is none
	Image   *Image    // nil if there is none
}

// OnUnavailable is what an acquire does when the store cannot be reached.
type OnUnavailable string

// The values of [OnUnavailable]. The zero value leaves the choice to the system
// level of configuration, and failing that to [Block].
const (
	// Block returns [ErrUnavailable].
	Block OnUnavailable = "block"
	// Allow returns a degraded lease: the work goes on, unmetered.
	Allow OnUnavailable = "allow"
)
