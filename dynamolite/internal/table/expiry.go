package table

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// expiredYears is for how long an item may have been expired: one that has been for longer is taken for
// a mistake and kept.
//
// expiredYears is how many years ago an item may have expired. One that expired earlier is taken
// for a mistake and kept. AWS documents five years ("Using time to live (TTL) in DynamoDB"). A
// stamp in milliseconds lies in the far future, so its item never expires.
const expiredYears = 5

// SetExpiry switches expiry on or off. Another attribute needs the old one to be disabled first, as
// on AWS. Enabling makes new expiries and leaves the old ones: a sweep may still use them.
func (s *Schema) SetExpiry(attribute string, enabled bool, wake func(at int64)) error {
	switch current := s.Expiry(); {
	case current != "" && current != attribute:
		return api.Validationf("TimeToLive is active on a different AttributeName: current AttributeName is %s", current)
	case enabled && current != "":
		return api.Validationf("TimeToLive is already enabled")
	case enabled:
		s.Expiries = &expiries{Attribute: attribute, wake: wake}
	case current == "":
		return api.Validationf("TimeToLive is already disabled")
	default:
		s.Expiries = nil
	}
	return nil
}

// Expiry is the attribute that holds an item's time to live; "": none.
func (s *Schema) Expiry() string {
	if s.Expiries == nil {
		return ""
	}
	return s.Expiries.Attribute
}

// Past is the span of time, in seconds since 1970, in which what is expired has expired.
//
// Past is the span of time, in seconds since 1970, in which what is expired has expired. From is in
// it, To is not.
//
// An item expires when its second is over, so no item goes before its time.
type Past struct{ from, To int64 }

// PastOf returns the span before an instant. The span begins five calendar years before, whatever
// leap days they have.
func PastOf(now time.Time) Past {
	return Past{from: now.AddDate(-expiredYears, 0, 0).Unix(), To: now.Unix()}
}

// Has tells whether the span has an instant.
func (p Past) Has(at int64) bool { return p.from <= at && at < p.To }

// ExpiryOf returns when an item expires by an attribute, in seconds since 1970, or never. A number
// beyond an int64 counts as never: it is not in the past five years. Digits after the point are
// dropped, so the item expires with the second. It reads the encoded item: a sweep looks at many
// items and decodes none.
func ExpiryOf(r *storage.Record, attribute string) int64 {
	digits, ok := value.LookupNumber(r.Data, attribute)
	if !ok {
		return Never
	}
	whole, _, _ := strings.Cut(digits, ".")
	at, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return Never
	}
	return at
}

// UnknownExpiry stands for the expiry of items that the sweep has not read. It has always passed.
// New expiries begin with it, because a table may get a time to live when it has items.
const UnknownExpiry = 0

// Never is the expiry of an item that does not expire.
const Never = math.MaxInt64

// expiries is what the sweep knows of when a table's items expire. Each time a table gets a time to
// live, it gets new expiries, which know nothing of an earlier attribute. The naive design reads
// all items at every sweep. A million items would be read each minute to find nothing. A heap of
// all expiries would be exact, but each update of an item would move it there, under one lock for
// the whole table.
//
// One instant for each shard is enough. It may be too early, and the sweep then reads a shard
// without need. It is never too late for an item that the sweep would delete, except while the
// sweep reads the shard.
type expiries struct {
	Attribute string
	wake      func(at int64) // tells the sweep of an earlier expiry
	// Earliest is, for each shard, the earliest expiry of its items or an earlier instant, in
	// seconds since 1970. Writes lower it while they hold the shard. Only the sweep raises it,
	// before it reads all items of the shard. Zero is UnknownExpiry: the first sweep reads every
	// shard.
	Earliest [storage.Shards]atomic.Int64
}

// Least is the earliest expiry of all items, or earlier. Writes may lower it meanwhile, and then
// wake the sweep.
func (x *expiries) Least() int64 {
	at := int64(Never)
	for shard := range x.Earliest {
		at = min(at, x.Earliest[shard].Load())
	}
	return at
}

// Lower notes that an item of a shard expires at an instant. The sweep is woken after the expiry is
// stored. Woken before, it could read the old one and sleep again.
//
//	write    lower · wake ·························
//	sweep                  reads the lower expiry · sleeps until it
func (x *expiries) Lower(shard int, at int64) {
	earliest := &x.Earliest[shard]
	for {
		known := earliest.Load()
		if known <= at {
			return
		}
		if earliest.CompareAndSwap(known, at) {
			break
		}
	}
	x.wake(at)
}

// Wrote notes when a written item expires. Touched are the attributes that may have changed; nil:
// any. The caller holds the shard. Nil expiries note nothing, so a write need not ask whether its
// table has a time to live.
func (x *expiries) Wrote(shard int, r *storage.Record, touched []string) {
	if x == nil || touched != nil && !slices.Contains(touched, x.Attribute) {
		return
	}
	x.Lower(shard, ExpiryOf(r, x.Attribute))
}
