package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Bounds of slots, and the mark of a lease.
const (
	// MaxSlots is the largest number of slots of a limit.
	MaxSlots = 1_000_000
	// MaxDead is the most entries that a [Hold] removes of other processes.
	MaxDead = 24
	// MaxWritten is the most leases that a [Hold] writes down.
	MaxWritten = 8
	// LeasePrefix begins the Process of an entry that is no process: that of a lease which was written down.
	// It holds the lease's slots until Until, whoever made it, and nobody renews it. No process has such a name.
	LeasePrefix = "0"
)

// A SlotLimit says how many requests may run at a time: together they hold at most Slots slots.
// Its name is as that of a [Limit], which is another one even if it has the same name.
type SlotLimit struct {
	Name  string
	Slots int64 // from 1 to [MaxSlots]
}

// String says in words what the limit allows, like "inflight: 20 at a time".
func (l SlotLimit) String() string { return fmt.Sprintf("%s: %d at a time", l.Name, l.Slots) }

// ValidateSlots checks limits of slots, and that no name occurs twice, as a [*ValidationError].
func ValidateSlots(limits []SlotLimit) error {
	if len(limits) > MaxLimits {
		return &ValidationError{Field: "slots", Value: strconv.Itoa(len(limits)), Reason: fmt.Sprintf("give at most %d limits", MaxLimits)}
	}
	for i, l := range limits {
		if err := CheckLimitName(l.Name); err != nil {
			return err
		}
		switch {
		case l.Slots < 1 || l.Slots > MaxSlots:
			return &ValidationError{
				Field: "slots of " + l.Name, Value: strconv.FormatInt(l.Slots, 10), Reason: fmt.Sprintf("give a whole number from 1 to %d", MaxSlots),
			}
		case slices.ContainsFunc(limits[:i], func(before SlotLimit) bool { return before.Name == l.Name }):
			return &ValidationError{Field: "slots", Value: l.Name, Reason: "name each limit once"}
		}
	}
	return nil
}

// A SlotStore is a [Store] that also keeps slots: how many requests of an entity for a resource
// run at a time. Each limit of that kind has an item of its own, and each process an entry in it
// (ADR 055).
type SlotStore interface {
	// Hold replaces the entry of a process. If the item's state refuses that, nothing has
	// changed, and the outcome has the image that refused it; nil if there is no item. A repeated
	// request is applied once, and each of its answers says so while its entry is there.
	Hold(ctx context.Context, h *Hold) (SlotOutcome, error)
	// Slots reads the entries of an item, consistently; nil if there is no item.
	Slots(ctx context.Context, k SlotKey) (*SlotImage, error)
}

// A SlotLister is a [SlotStore] that can list slots.
type SlotLister interface {
	// ResourceSlots yields the slots of a resource, or of all resources if it is "", by entity. A
	// read need not be consistent, and slots that were just held for the first time may be
	// missing. After an error it yields nothing more.
	ResourceSlots(ctx context.Context, resource string) iter.Seq2[*SlotImage, error]
}

// A SlotKey names the slots of one limit.
type SlotKey struct{ Entity, Resource, Limit string }

// A Holding is the entry of a process: what it holds, and until when. The next entry of the
// process has a larger Seq, so two entries with the same Process and Seq are the same.
type Holding struct {
	Process string // 1 to 16 lower-case letters and digits, different for each process
	Held    int64  // slots, held or kept for the next callers of the process
	Wants   int64  // slots that its callers wait for
	Until   int64  // the process has renewed the entry by then, or is gone; in ms
	Seq     int64
}

// IsLease reports whether the entry is of a lease that was written down.
func (h *Holding) IsLease() bool { return strings.HasPrefix(h.Process, LeasePrefix) }

// IsEmpty reports whether the process needs no entry.
func (h *Holding) IsEmpty() bool { return h.Held == 0 && h.Wants == 0 }

// A SlotImage is an item as a write left it or found it. Used is the sum of what is held.
type SlotImage struct {
	SlotKey
	Used     int64
	Holdings []Holding // by process
}

// Of is the entry of a process; nil if there is none.
func (img *SlotImage) Of(process string) *Holding {
	if img == nil {
		return nil
	}
	for i := range img.Holdings {
		if h := &img.Holdings[i]; h.Process == process {
			return h
		}
	}
	return nil
}

// A Hold replaces the entry of a process. It requires that the entry is still Seen, or that there
// is none if Seen is nil, that the Dead ones are still there, and that none of the Written ones is. If it
// raises the number of slots that are used, no more than Cap may be used afterwards.
type Hold struct {
	SlotKey
	Cap  int64
	Seen *Holding
	Next Holding // an empty one removes the entry
	// Dead are entries of other processes that are gone, at most [MaxDead].
	Dead []Holding
	// Written are entries of leases that the process writes down, at most [MaxWritten].
	Written []Holding
	// ExpiresAt is when the item may be deleted; in seconds since the Unix epoch.
	ExpiresAt int64
}

// Net is by how much the write changes how many slots are used.
func (h *Hold) Net() int64 {
	net := h.Next.Held
	if h.Seen != nil {
		net -= h.Seen.Held
	}
	for i := range h.Dead {
		net -= h.Dead[i].Held
	}
	for i := range h.Written {
		net += h.Written[i].Held
	}
	return net
}

// A SlotOutcome is the answer to a [Hold].
type SlotOutcome struct {
	Applied bool
	Image   *SlotImage
}
