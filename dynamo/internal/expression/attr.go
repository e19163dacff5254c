package expression

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// An Attr is an attribute of the item: one of the constants, or a field of a limit that a
// [Write] has declared.
type Attr int32

// The attributes that are not of a limit.
const (
	RF Attr = iota
	ShardCount
	ValidUntil
	InStep
	Zone // of the limits' calendars
	TTL
	Disabled
	DisabledUntil
	Bypass
	Cascade
	Parent
	ParentGeneration
	Incarnation
	Created
	WriteTokens // the balance of the hidden write limit
	WriteConsumed
	Hour           // that is open in the diary
	ClosedHour     // that was closed last
	DiaryText      // of the hours before
	Acquires       // ever
	AcquiresOpened // when the open hour began
	AcquiresGained // in the closed hour
	PositionCount
)

// fixed has the aliases and names of the constants. An alias that equals the name needs
// no entry in the request's names.
var fixed = [...]struct{ alias, name string }{
	RF:               {"#rf", schema.RF},
	ShardCount:       {"#sc", schema.ShardCount},
	ValidUntil:       {"#vu", schema.ValidUntil},
	InStep:           {"#st", schema.InStep},
	Zone:             {"#tz", schema.SchedTZ},
	TTL:              {"#ttl", schema.TTL},
	Disabled:         {"#dis", schema.Disabled},
	DisabledUntil:    {"#du", schema.DisabledUntil},
	Bypass:           {"#by", schema.Bypass},
	Cascade:          {"#cascade", schema.Cascade},
	Parent:           {"#parent", schema.ParentID},
	ParentGeneration: {"#pgen", schema.PGen},
	Incarnation:      {"#pinc", schema.PInc},
	Created:          {schema.Created, schema.Created},
	WriteTokens:      {"#w", schema.WCUTokens},
	WriteConsumed:    {"#x", schema.WCUConsumed},
	Hour:             {schema.OpenHour, schema.OpenHour},
	ClosedHour:       {schema.ClosedHour, schema.ClosedHour},
	DiaryText:        {schema.DiaryText, schema.DiaryText},
	Acquires:         {schema.Acquires, schema.Acquires},
	AcquiresOpened:   {"#do", schema.OpenedAttr("")},
	AcquiresGained:   {"#dp", schema.GainedAttr("")},
	PositionCount:    {schema.PositionCount, schema.PositionCount},
}

// An Attr has in its lower byte a constant above, or the kind of a field. The upper
// bytes then have the number of the limit.
const (
	firstField  = 64 // a bucket's limit: see schema.LimitFields
	diaryOpened = 128
	diaryGained = 129
	position    = 130
	reservation = 131
	numberShift = 8
)

// numbered reports whether an attribute of a kind belongs to a limit.
func numbered(kind byte) bool { return kind >= firstField }

var (
	tokens   = fieldOf(schema.FieldTokens)
	capacity = fieldOf(schema.FieldCapacity)
	amount   = fieldOf(schema.FieldAmount)
	period   = fieldOf(schema.FieldPeriod)
	consumed = fieldOf(schema.FieldConsumed)
	renewal  = fieldOf(schema.FieldRSched)
	schedule = fieldOf(schema.FieldSched)
	grant    = fieldOf(schema.FieldGrantCount)
	topUp    = fieldOf(schema.FieldToppedUp)
	session  = fieldOf(schema.FieldResetAfter)
	opened   = fieldOf(schema.FieldWindowStart)
	applied  = fieldOf(schema.FieldApplied)
	soft     = fieldOf(schema.FieldSoft)
	resets   = fieldOf(schema.FieldResets)
	carry    = fieldOf(schema.FieldCarry)
	mode     = fieldOf(schema.FieldMode)
	shadowed = fieldOf(schema.FieldShadowed)
	lastly   = fieldOf(schema.FieldShadowedAt)
)

// fieldOf is the kind of a limit's field.
func fieldOf(name string) byte { return firstField + byte(slices.Index(schema.LimitFields[:], name)) }

// A Limit is a limit that a [Write] has declared.
type Limit struct{ subject }

// Tokens is the limit's balance.
func (l Limit) Tokens() Attr { return l.attr(tokens) }

// Consumed is the limit's count of consumed tokens.
func (l Limit) Consumed() Attr { return l.attr(consumed) }

// Capacity is a parameter of the limit.
func (l Limit) Capacity() Attr { return l.attr(capacity) }

// Amount is a parameter of the limit: what it earns in a period.
func (l Limit) Amount() Attr { return l.attr(amount) }

// Period is a parameter of the limit.
func (l Limit) Period() Attr { return l.attr(period) }

// Renewal is a parameter of a quota: when it renews.
func (l Limit) Renewal() Attr { return l.attr(renewal) }

// Schedule is a parameter of the limit: when it has other parameters, and which.
func (l Limit) Schedule() Attr { return l.attr(schedule) }

// Grant is the number of shards among which a quota was divided when it was last renewed.
func (l Limit) Grant() Attr { return l.attr(grant) }

// TopUp is what somebody has added to a quota for its period.
func (l Limit) TopUp() Attr { return l.attr(topUp) }

// Session is a parameter of a session: its length. A limit without it is no session.
func (l Limit) Session() Attr { return l.attr(session) }

// SessionOpened is when the session began last, on any shard. SessionApplied is when the one
// began that the balance is of.
func (l Limit) SessionOpened() Attr { return l.attr(opened) }

// SessionApplied is like SessionOpened.
func (l Limit) SessionApplied() Attr { return l.attr(applied) }

// Soft is the stamp of a soft limit.
func (l Limit) Soft() Attr { return l.attr(soft) }

// Resets counts the operators' resets of a quota.
func (l Limit) Resets() Attr { return l.attr(resets) }

// Carry is a parameter of a quota: what it takes into its next period.
func (l Limit) Carry() Attr { return l.attr(carry) }

// Mode is the mode of a limit that has the stamp of a soft one.
func (l Limit) Mode() Attr { return l.attr(mode) }

// Shadowed is what a limit in shadow would have refused, and ShadowedAt when it did so last.
func (l Limit) Shadowed() Attr { return l.attr(shadowed) }

// ShadowedAt is like Shadowed.
func (l Limit) ShadowedAt() Attr { return l.attr(lastly) }

// Fields is the number of fields that a limit may have on a bucket item.
const Fields = len(schema.LimitFields)

// Field is one of the limit's fields, 0 to [Fields]−1.
func (l Limit) Field(i int) Attr { return l.attr(firstField + byte(i)) }

// Opened is the limit's count of consumed tokens when the open hour of the diary began.
func (l Limit) Opened() Attr { return l.attr(diaryOpened) }

// Gained is what the limit consumed in the hour that was closed last.
func (l Limit) Gained() Attr { return l.attr(diaryGained) }

// A Position is a place of a process on the item, which a [Write] has declared.
type Position struct{ subject }

// Last is the last number of a write there.
func (p Position) Last() Attr { return p.attr(position) }

// A Reservation is what a process has reserved on the item, which a [Write] has declared.
type Reservation struct{ subject }

// Milli is the reserved amount.
func (r Reservation) Milli() Attr { return r.attr(reservation) }

// A subject is a limit or shard by its number in the write.
type subject struct {
	write  *Write
	number int
}

func (s subject) attr(kind byte) Attr { return Attr(s.number)<<numberShift | Attr(kind) }

// Number gives a number as a value of the subject; see [Write.Number]. letter is from
// 'a' to 'z', another one for each value of the subject.
func (s subject) Number(letter byte, n int64) Value {
	return s.write.Number(alias(letter, s.number), n)
}

// Text gives a string as a value of the subject, like [subject.Number].
func (s subject) Text(letter byte, text string) Value {
	return s.write.Text(alias(letter, s.number), text)
}
