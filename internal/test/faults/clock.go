package faults

import (
	"sync/atomic"
	"time"
)

// A Clock is a local clock that may be wrong. The zero value is right.
type Clock struct{ off atomic.Int64 }

// Skewed returns a clock that is ahead of the true time; if by is negative, behind.
func Skewed(by time.Duration) *Clock {
	c := &Clock{}
	c.Set(by)
	return c
}

// Set sets how far ahead the clock is from now on.
func (c *Clock) Set(ahead time.Duration) { c.off.Store(int64(ahead)) }

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time { return now().Add(time.Duration(c.off.Load())) }
