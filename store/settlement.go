package store

import (
	"context"
	"time"
)

// A OnceStore is a [Store] that also carries out settlements of leases that were written down,
// each of them once (ADR 058).
type OnceStore interface {
	// Namespace returns the name and the id of the store's namespace. Two namespaces never have
	// the same id.
	Namespace() (name, id string)
	// SettleOnce carries out the writes of a settlement together with its record, or nothing.
	// Of all settlements with the same record's Bucket and Key, one is carried out at most.
	SettleOnce(ctx context.Context, s *Settlement) (SettledOnce, error)
}

// A Settlement is what becomes of a lease that was written down.
type Settlement struct {
	Record SettlementRecord
	// Writes are at most [MaxSettlementWrites], no two of the same bucket item. There may be none.
	Writes []SettlementWrite
}

// A SettlementWrite is one write of a [Settlement]: one of its fields is not nil.
type SettlementWrite struct {
	Adjust *Adjust
	Refill *Refill
}

// Bucket names the item.
func (w *SettlementWrite) Bucket() Bucket {
	if w.Refill != nil {
		return w.Refill.Bucket
	}
	return w.Adjust.Bucket
}

// A SettlementRecord says what a settlement did. Whoever settles the same lease again finds it.
type SettlementRecord struct {
	Bucket        // of the item beside which the record is kept
	Key    string // of the lease: 1 to 64 letters, digits, ".", "_", ":" and "-"
	// Totals are what the lease has taken in the end, in tokens, by names that the caller
	// chooses.
	Totals    map[string]int64
	ExpiresAt time.Time // until then the record is kept, at least
}

// A SettledOnce is the answer to a [Settlement].
type SettledOnce struct {
	// Joint has refusals in the order of the writes.
	Joint
	// Before is the record of an earlier settlement, which then refused this one; nil if there
	// was none.
	Before *SettlementRecord
}
