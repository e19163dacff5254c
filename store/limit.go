package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Bounds of a limit's parameters and of an amount in a request.
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
)

// Milli is the number of millitokens in a token. Stores keep millitokens.
const Milli = 1000

// A Limit is a token bucket's configuration: the bucket holds at most Capacity tokens
// and earns Amount of them, evenly, every Period. A bucket starts full.
//
// A limit that Renews is a quota: it holds Capacity tokens when a period of the calendar begins,
// and earns nothing until the next one.
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
	Renews *Renewal // ADR 044
}

// String says in words what the limit allows, like "rpm: 100 every 1m0s" or
// "rpd: 1000 each day in Europe/Berlin".
func (l Limit) String() string {
	if l.Renews != nil {
		return fmt.Sprintf("%s: %d each %s in %s", l.Name, l.Capacity, l.Renews, l.Renews.Zone())
	}
	text := fmt.Sprintf("%s: %d every %v", l.Name, l.Amount, l.Period)
	if l.Capacity != l.Amount {
		text += fmt.Sprintf(", at most %d at once", l.Capacity)
	}
	return text
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
	case l.Renews != nil && l.Renews.Session() != 0:
		return &ValidationError{
			Field: field("renewal"), Value: l.Renews.String(), Reason: "this version has no session quotas: give days, weeks, months or a pattern",
		}
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
// [MaxLimits], and that the quotas have one time zone: the table keeps one for a bucket.
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
			if l.Renews != nil && before.Renews != nil && l.Renews.Zone() != before.Renews.Zone() {
				return &ValidationError{
					Field: "limits", Value: before.Name + " in " + before.Renews.Zone() + ", " + l.Name + " in " + l.Renews.Zone(),
					Reason: "give all quotas of a level the same time zone",
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

// ParseRenewal reads when a quota renews: "day", "week from monday", "month", "month from last
// day", "day at 06:00" or five fields of cron, for instance; several are separated by ";". zone is
// a name of the IANA time zone database; "" is UTC. The error is a [*ValidationError].
func ParseRenewal(text, zone string) (*Renewal, error) {
	r, err := calendar.Parse(text, zone)
	if e, ok := errors.AsType[*calendar.Error](err); ok {
		field := "renewal"
		if e.Field != field {
			field += ": " + e.Field // a part of it
		}
		return nil, &ValidationError{Field: field, Value: e.Value, Reason: e.Reason + ": " + e.Advice}
	}
	return r, err
}

// Params are a limit's parameters as a bucket item stores them.
type Params struct {
	Capacity int64    // millitokens
	Amount   int64    // millitokens earned every Period
	Period   int64    // milliseconds
	Renewal  *Renewal // of a quota, whose Amount is 0
}

// A Renewal says when a quota renews. It is made by [ParseRenewal]. Two Renewals that are
// written alike are the same pointer.
type Renewal = calendar.Renewal

// Params are the limit's parameters as a bucket item stores them.
func (l Limit) Params() Params {
	if l.Renews != nil {
		return Params{Capacity: l.Capacity * Milli, Period: quotaPeriod.Milliseconds(), Renewal: l.Renews}
	}
	return Params{Capacity: l.Capacity * Milli, Amount: l.Amount * Milli, Period: l.Period.Milliseconds()}
}

// quotaPeriod is the refill period that an item has of a quota. It means nothing.
const quotaPeriod = time.Second

// ValidUntil is the end of the first period that ends after an instant, of the quotas among
// the limits of a bucket; 0 if none is a quota. Until then an item's parameters are valid. So a
// take meets a balance of the period in which it comes: its condition is ValidUntil.
func ValidUntil[L any](at int64, limits []L, params func(*L) Params) (until int64) {
	for i := range limits {
		if r := params(&limits[i]).Renewal; r != nil {
			if next := r.Next(at); until == 0 || next < until {
				until = next
			}
		}
	}
	return until
}
