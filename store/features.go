package store

import (
	"fmt"
	"math/bits"
)

// Features are what an item or a level of configuration uses beyond plain token
// buckets, as a peer may write it. Each is a bit, so that this library can take one over
// without the others.
type Features uint8

// The features, in the order in which errors name them.
const (
	// Scheduled: parameters change at given times, in a way that this version cannot evaluate.
	Scheduled Features = 1 << iota
	// Quota: a balance is reset at given times instead of accruing.
	Quota
	// ManyLimits: more than [MaxLimits] limits.
	ManyLimits
)

// evaluated are the features that this version evaluates.
const evaluated = 0

// Unsupported are those of the features that this version cannot evaluate.
func (f Features) Unsupported() Features { return f &^ evaluated }

// String names the first of the features, "" if there are none.
func (f Features) String() string {
	if f == 0 {
		return ""
	}
	switch first := Features(1) << bits.TrailingZeros8(uint8(f)); first {
	case Scheduled:
		return "parameter schedule"
	case Quota:
		return "quota"
	case ManyLimits:
		return fmt.Sprintf("more than %d limits", MaxLimits)
	}
	return fmt.Sprintf("feature %#x", uint8(f))
}
