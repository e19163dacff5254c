package store

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Bounds of a limit's parameters, of amounts and of writes, and the unit of amounts.
const (
	// MaxTokens is the largest capacity, refill amount or requested amount, in tokens.
	// Stored amounts are in millitokens, a thousand times as many. That still leaves a
	// factor of nine before an int64 overflows.
	MaxTokens = 1_000_000_000_000_000
	// MaxPeriod is the longest refill period: 10^9 seconds, about 31 years.
	MaxPeriod = 1_000_000_000 * time.Second
	// MaxShards is the maximum number of shards that a limiter gives a bucket: 32,000
	// writes a second to one bucket.
	MaxShards = 32
	// MaxLimits is the maximum number of limits of a bucket, and so of a level of
	// configuration or of a request. One conditional write cannot carry more (ADR 028). An item
	// of more than about ten limits is larger than 1 KB. Each kilobyte, even a partial
	// one, costs every write to the item one write unit.
	MaxLimits = 32
	// MaxSoftTake is the maximum number of soft limits that a [Take] debits, or a [Refill]
	// that sets balances. Any other refill requires less of each limit, and has no such
	// maximum.
	MaxSoftTake = 12
	// MaxRollover is how many amounts of a period a quota may carry at most into the next one.
	MaxRollover = 1000
	// MaxReturns is all of what a lost process took, as the percentage of [Limit.Returns].
	MaxReturns = 100
	// WritesPerSecond is what the hidden write limit of one shard admits: the writes that
	// one DynamoDB partition sustains.
	WritesPerSecond = 1000
	// MaxSettlementWrites is the most bucket items that a [Settlement] writes to.
	MaxSettlementWrites = 99
	// Milli is the number of millitokens in a token. Stores keep millitokens.
	Milli = 1000
)

// A Limit is a token bucket's configuration: the bucket holds at most Capacity tokens
// and earns Amount of them, evenly, every Period. A bucket starts full.
//
// A limit that Renews is a quota: it holds Capacity tokens when a period of the calendar
// begins, or with the first use after a session has ended, and earns nothing until the next
// one. A limit that Varies is as its schedule says at some times, and as it says itself at all
// others. A Soft one refuses nobody.
//
// The constructors of package limiter (PerSecond, PerMinute, PerHour, PerDay, Custom)
// cover the usual cases. Their capacity equals the rate unless Burst sets it.
type Limit struct {
	// Name is the name of the limit in requests, "rpm" or "tpm" for instance. It has 1 to
	// 64 characters: first a letter, then letters, digits and "_.-". The name "wcu" is
	// reserved.
	Name string
	// Capacity is the most tokens that the bucket holds, at least 1.
	Capacity int64
	// Amount is the number of tokens earned every Period, at least 1.
	Amount int64
	// Period is a whole number of seconds, at least one.
	Period time.Duration
	// Renews, if not nil, makes the limit a quota. Amount and Period are then 0.
	Renews *Renewal // ADR 044; a session: ADR 051
	// Varies, if not nil, says when the limit has other parameters, and which. Of a quota, its
	// entries scale or set the capacity.
	Varies *Schedule // ADR 048; of a quota: ADR 057
	// Soft makes the limit count, and never refuse: its balance may fall below zero.
	Soft bool // ADR 050
	// Mode is what the limit does to requests, by default [Enforce]. It holds for Percent of entities
	// (from 1 to 100; 0 is all of them), and the other entities are enforced. Which entities those are
	// depends on their names alone, see [Limit.Of].
	Mode    Mode // ADR 062
	Percent int
	// Returns is the percentage, from 0 to 100, of what a lease took that goes back if the process which holds
	// the lease is lost: killed, or cut off for 15 minutes. By default it is 0: what was taken stays debited. It
	// holds for what is taken from then on.
	Returns int // ADR 071
	// Carries says what a quota of a calendar takes from a period into the next one; by default
	// nothing.
	Carries Carry // ADR 053
}

// A Carry is what a quota takes from a period into the next one. The zero Carry is nothing.
type Carry struct {
	// Rollover is the most of what is left that is added to the next period's amount; 0 is
	// nothing. It is in tokens in a [Limit], and in millitokens in [Params].
	Rollover int64
	// Debt says that a debt is taken from the next period's amount, and not forgiven.
	Debt bool
}

// String says in words what the limit allows, like "rpm: 100 every 1m0s" or
// "rpd: 1000 each day in Europe/Berlin".
func (l Limit) String() string {
	text := fmt.Sprintf("%s: %d every %v", l.Name, l.Amount, l.Period)
	switch {
	case l.Renews != nil && l.Renews.Session() != 0:
		text = fmt.Sprintf("%s: %d each %s", l.Name, l.Capacity, l.Renews)
	case l.Renews != nil:
		text = fmt.Sprintf("%s: %d each %s in %s", l.Name, l.Capacity, l.Renews, l.Renews.Zone())
	case l.Capacity != l.Amount:
		text += fmt.Sprintf(", at most %d at once", l.Capacity)
	}
	if l.Varies != nil {
		text += fmt.Sprintf("; %s in %s", l.Varies, l.Varies.Zone())
	}
	if l.Soft {
		text += ", soft"
	}
	if l.Mode != Enforce {
		text += ", " + l.ModeText()
	}
	if l.Returns != 0 {
		text += fmt.Sprintf(", returns %d%% of what is lost", l.Returns)
	}
	return text + l.Carries.words()
}

// validateReturns reports a percentage that is none.
func (l Limit) validateReturns(field func(name string) string) error {
	if l.Returns < 0 || l.Returns > MaxReturns {
		return &ValidationError{Field: field("returns"), Value: strconv.Itoa(l.Returns), Reason: "give the percentage that goes back, from 1 to 100, or 0 to keep all"}
	}
	return nil
}

// words says what is carried, after a comma.
func (c Carry) words() (text string) {
	if c.Rollover != 0 {
		text = fmt.Sprintf(", at most %d rolled over", c.Rollover)
	}
	if c.Debt {
		text += ", debt carried"
	}
	return text
}

// validateCarry reports what a limit cannot carry.
func (l Limit) validateCarry(field func(name string) string) error {
	most := min(MaxTokens, MaxRollover*min(l.Capacity, MaxTokens))
	switch c := l.Carries; {
	case c == (Carry{}):
		return nil
	case l.Renews == nil:
		return &ValidationError{
			Field: field("carries"), Value: c.words()[2:], Reason: "a rate has no periods: give neither rollover nor carried debt, or give a quota",
		}
	case l.Renews.Session() != 0:
		return &ValidationError{
			Field: field("carries"), Value: c.words()[2:], Reason: "a session begins full: give neither rollover nor carried debt, or give a calendar",
		}
	case c.Rollover < 0 || c.Rollover > most:
		return &ValidationError{
			Field: field("rollover"), Value: strconv.FormatInt(c.Rollover, 10),
			Reason: fmt.Sprintf("give a whole number of tokens from 1 to %d, or none", most),
		}
	}
	return nil
}

// validateVaried reports what a quota that varies cannot have (ADR 057).
func (l Limit) validateVaried(field func(name string) string) error {
	switch {
	case l.Renews.Zone() != "" && l.Renews.Zone() != l.Varies.Zone():
		return &ValidationError{
			Field: field("schedule"), Value: l.Renews.Zone() + " and " + l.Varies.Zone(), Reason: "give the quota and its schedule the same time zone",
		}
	case !l.Varies.SetsAmounts():
		return &ValidationError{
			Field: field("schedule"), Value: l.Varies.String(), Reason: "a quota earns nothing: give entries a factor or a capacity only, or give a rate",
		}
	case l.Carries != (Carry{}):
		return &ValidationError{
			Field: field("carries"), Value: l.Carries.words()[2:], Reason: "the periods of a quota with a schedule differ: give neither rollover nor carried debt, or no schedule",
		}
	}
	return nil
}

// Validate reports the first field that is out of bounds, as a
// [*ValidationError].
func (l Limit) Validate() error {
	if err := CheckLimitName(l.Name); err != nil {
		return err
	}
	field := func(name string) string { return "limit " + l.Name + ": " + name }
	switch {
	case l.Capacity < 1 || l.Capacity > MaxTokens:
		return &ValidationError{
			Field: field("capacity"), Value: strconv.FormatInt(l.Capacity, 10),
			Reason: fmt.Sprintf("give a whole number of tokens from 1 to %d", int64(MaxTokens)),
		}
	case l.Renews != nil && (l.Amount != 0 || l.Period != 0):
		return &ValidationError{
			Field: field("refill amount"), Value: fmt.Sprintf("%d every %v", l.Amount, l.Period),
			Reason: "a quota renews as a whole: give no refill",
		}
	case cmp.Or(l.validateMode(field), l.validateReturns(field)) != nil:
		return cmp.Or(l.validateMode(field), l.validateReturns(field))
	case l.Renews != nil && l.Varies != nil && l.validateVaried(field) != nil:
		return l.validateVaried(field)
	case l.Carries != (Carry{}):
		return l.validateCarry(field)
	case l.Renews != nil:
		return nil
	case l.Amount < 1 || l.Amount > MaxTokens:
		return &ValidationError{
			Field: field("refill amount"), Value: strconv.FormatInt(l.Amount, 10),
			Reason: fmt.Sprintf("give a whole number of tokens from 1 to %d", int64(MaxTokens)),
		}
	case l.Period < time.Second || l.Period > MaxPeriod || l.Period%time.Second != 0:
		return &ValidationError{
			Field: field("refill period"), Value: l.Period.String(),
			Reason: "give a whole number of seconds from 1 to 10^9",
		}
	}
	return nil
}

// ValidateLimits checks every limit, that no name occurs twice, that there are at most
// [MaxLimits], and that the quotas and schedules have one time zone: the table keeps one for a
// bucket.
func ValidateLimits(limits []Limit) error {
	if len(limits) > MaxLimits {
		return &ValidationError{
			Field: "limits", Value: strconv.Itoa(len(limits)), Reason: fmt.Sprintf("give at most %d limits", MaxLimits),
		}
	}
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			return err
		}
		for _, before := range limits[:i] {
			if one, other := before.Zone(), l.Zone(); one != "" && other != "" && one != other {
				return &ValidationError{
					Field: "limits", Value: before.Name + " in " + one + ", " + l.Name + " in " + other,
					Reason: "give all quotas and schedules of a level the same time zone",
				}
			}
			if before.Name == l.Name {
				return &ValidationError{
					Field: "limits", Value: l.Name, Reason: "name each limit once",
				}
			}
		}
	}
	return nil
}

// ParseRenewal reads when a quota renews: "day", "week from monday", "month", "month from
// last day", "day at 06:00" or five fields of cron, for instance; several are separated by
// ";". zone is a name of the IANA time zone database; "" is UTC. "session 5h" is five hours
// from the first use after the last session ended; it has no zone, and zone must be "". The
// error is a [*ValidationError].
func ParseRenewal(text, zone string) (*Renewal, error) {
	r, err := calendar.Parse(text, zone)
	return r, invalidCalendar("renewal", err)
}

// Zone is the time zone of the calendar that the limit follows, "" if it follows none.
func (l Limit) Zone() string { return l.Params().Zone() }

// ParseSchedule reads when a limit has other parameters, and which. zone is a name of the IANA
// time zone database; "" is UTC. An entry is five fields of cron, and then what holds in the
// minutes that they match: a factor of the capacity and of the amount, or parameters in place of
// the limit's own.
//
//	0-59 9-16 * * mon-fri x0.5
//	0-59 22-23,0-5 * * * capacity=1000 amount=1000
//	0-59 * 24-26 12 * seconds=3600
//
// Several are separated by ";". Of those that match a minute, the first one holds. Outside of all
// entries the limit is as it is without a schedule. The error is a [*ValidationError].
func ParseSchedule(text, zone string) (*Schedule, error) {
	s, err := calendar.ParseSchedule(text, zone)
	return s, invalidCalendar("schedule", err)
}

// invalidCalendar is the error of a field that is a calendar.
func invalidCalendar(field string, err error) error {
	if e, ok := errors.AsType[*calendar.Error](err); ok {
		if e.Field != field {
			field += ": " + e.Field // a part of it
		}
		return &ValidationError{Field: field, Value: e.Value, Reason: e.Reason + ": " + e.Advice}
	}
	return err
}

// Params are a limit's parameters as a bucket item stores them.
type Params struct {
	Capacity int64    // millitokens
	Amount   int64    // millitokens earned every Period
	Period   int64    // milliseconds
	Renewal  *Renewal // of a quota, whose Amount is 0
	// Varies says when the other parameters are not those above, and what they are.
	Varies *Schedule
	// Carries is what a quota takes into the next period.
	Carries Carry
}

// Zone is the time zone of the calendar that a limit follows, "" if it follows none.
func (p Params) Zone() string {
	zone := ""
	if p.Renewal != nil {
		zone = p.Renewal.Zone() // a session has none
	}
	if p.Varies != nil && zone == "" {
		zone = p.Varies.Zone()
	}
	return zone
}

// A Renewal says when a quota renews. It is made by [ParseRenewal]. Two Renewals that are
// written alike are the same pointer.
type Renewal = calendar.Renewal

// A Schedule says when a limit has other parameters, and which. It is made by
// [ParseSchedule], and interned like a [Renewal].
type Schedule = calendar.Schedule

// A ScheduleEntry is an entry of a [Schedule].
type ScheduleEntry = calendar.Change

// NewSchedule makes a schedule of entries, in the time zone of an IANA name; "" is UTC. The
// error is a [*ValidationError].
func NewSchedule(entries []ScheduleEntry, zone string) (*Schedule, error) {
	s, err := calendar.NewSchedule(entries, zone)
	return s, invalidCalendar("schedule", err)
}

// Params are the limit's parameters as a bucket item stores them.
func (l Limit) Params() Params {
	if l.Renews != nil {
		carries := Carry{l.Carries.Rollover * Milli, l.Carries.Debt}
		return Params{Capacity: l.Capacity * Milli, Period: quotaPeriod.Milliseconds(), Renewal: l.Renews, Varies: l.Varies, Carries: carries}
	}
	return Params{Capacity: l.Capacity * Milli, Amount: l.Amount * Milli, Period: l.Period.Milliseconds(), Varies: l.Varies}
}

// quotaPeriod is the refill period that an item has of a quota. It means nothing.
const quotaPeriod = time.Second

// ValidUntil is the first instant after another one at which, of the limits of a bucket, a
// quota's period ends or a schedule changes; 0 if none follows a calendar. Until then an
// item's parameters are valid. So a take meets a balance of the period in which it comes: its
// condition is ValidUntil.
//
// A session that has ended stays so until a use opens the next one. Its end is then in the
// past, so that no take is admitted. opened is when a session began.
func ValidUntil[L any](at int64, limits []L, params func(*L) (_ Params, opened int64)) (until int64) {
	for i := range limits {
		var next int64
		switch p, opened := params(&limits[i]); {
		case p.Renewal != nil && p.Varies != nil:
			next = min(p.Renewal.End(opened, at), p.Varies.Piece(at).End)
		case p.Renewal != nil:
			next = p.Renewal.End(opened, at)
		case p.Varies != nil:
			next = p.Varies.Piece(at).End
		}
		if next != 0 && (until == 0 || next < until) {
			until = next
		}
	}
	return until
}
