package store

import (
	"fmt"
	"strconv"
	"time"
)

// Bounds of a limit's parameters and of an amount in a request.
const (
	// MaxTokens is the largest capacity, refill amount or requested amount, in
	// tokens. A thousand times as many, the millitokens that are stored, still
	// leaves a factor of nine before an int64 overflows.
	MaxTokens = 1_000_000_000_000_000
	// MaxPeriod is the longest refill period: 10^9 seconds, some 31 years.
	MaxPeriod = 1_000_000_000 * time.Second
	// MaxLimits is how many limits a bucket has at most, and so a level of
	// configuration or a request: as many as one conditional write can carry. An item
	// of more than about ten limits is larger than 1 KB, and each kilobyte that it
	// begins costs every write to it a write unit.
	MaxLimits = 32
)

// Milli is the number of millitokens, the unit that is stored, in a token.
const Milli = 1000

// A Limit is a token bucket's configuration: it holds at most Capacity tokens
// and earns Amount of them, evenly, every Period. A bucket starts full.
//
// The constructors of package limiter (PerSecond, PerMinute, PerHour, PerDay, Custom)
// cover what is usually wanted; capacity equals the rate unless a burst is given.
type Limit struct {
	// Name is what requests call the limit, "rpm" or "tpm" for instance: 1 to 64
	// characters, a letter first, then letters, digits and "_.-". "wcu" is taken.
	Name string
	// Capacity is the most tokens the bucket holds, at least 1.
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

// ValidateLimits checks every limit, that no name comes twice, and that there are at
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
