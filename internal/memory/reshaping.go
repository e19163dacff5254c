package memory

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// Reshaping lets one caller at a time double, mend or merge.
func (a *Account) Reshaping() *calls.Flight {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &a.rareLocked().reshaping
}

// HasDoubled reports whether all shards are known to have a number larger than from.
func (a *Account) HasDoubled(from int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > from && !a.uneven
}

// BeginReshaping claims background work on the set of shards.
func (a *Account) BeginReshaping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reshaping {
		return false
	}
	a.reshaping = true
	return true
}

// BeginMending claims the mending of the set of shards, if it needs any. A set that
// cannot be mended is not tried all the time.
func (a *Account) BeginMending(up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.uneven || a.reshaping {
		return false
	}
	r := a.rareLocked()
	if r.mendedAt != 0 && up-r.mendedAt < DoublingPause {
		return false
	}
	a.reshaping, r.mendedAt = true, up
	return true
}

// EndReshaping ends what [Account.BeginReshaping] or [Account.BeginMending] began.
func (a *Account) EndReshaping() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reshaping = false
}
