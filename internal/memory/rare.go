package memory

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// A rare is the part of an account that few buckets need: those that had several shards,
// are shared, were found disabled, or had several callers at a time. Its zero value is what
// an account without one says.
type rare struct {
	others    []*shard      // shards from 1 on; nil where nothing is known
	grewAt    time.Duration // when the number of shards last grew
	roundAt   time.Duration // when the last round of claims on all shards of a shared bucket began
	mendedAt  time.Duration // when mending in the background last began
	reshaping calls.Flight  // see [Account.Reshaping]
	disabled  *disabling    // nil if no item was found disabled
	turn      turn
}

// A disabling is that an item was found disabled.
type disabling struct {
	at    time.Duration // when it was found
	epoch uint64        // the process's configuration epoch at that time
	until int64         // when it ends, in milliseconds by the store's clock; 0 is never
}

// A turn is the next one of this process, if others write to the only shard (ADR 035).
type turn struct {
	at   time.Duration // when the process may write again, because it has taken ahead
	room int           // how many callers may wait for turns; 0 if that is not known
}

// rareLocked returns the part to change it, and makes it if there is none.
func (a *Account) rareLocked() *rare {
	if a.rare == nil {
		a.rare = &rare{}
	}
	return a.rare
}

func (a *Account) turnLocked() turn {
	if a.rare == nil {
		return turn{}
	}
	return a.rare.turn
}
