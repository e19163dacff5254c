package store

import (
	"fmt"
	"strconv"
	"time"
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

// ValidateLimits checks every limit, that no name occurs twice, and that there are at
// most [MaxLimits].
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
			if before.Name == l.Name {
				return &ValidationError{
					Field: "limits", Value: l.Name, Reason: "name each limit once",
				}
			}
		}
	}
	return nil
}
