package labels

import (
	"slices"
	"sync"

	limiter "github.com/zeroae/zae-limiter-go"
)

// Limiters are limiters whose own counts are metrics, too. The zero value is empty. It is
// safe for concurrent use.
type Limiters struct {
	mu  sync.Mutex
	all []*limiter.Limiter
}

// Add adds limiters. Each counts once, however often it is added. A closed limiter stays, so
// that sums never fall.
func (l *Limiters) Add(limiters ...*limiter.Limiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range limiters {
		if each != nil && !slices.Contains(l.all, each) {
			l.all = append(l.all, each)
		}
	}
}

// Sum returns the sums of what the limiters count, and false if there are none.
func (l *Limiters) Sum() (sum Counts, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range l.all {
		s := each.Stats()
		sum.Waiting += int64(s.Waiting)
		sum.Healed += int64(s.Healed)       //nolint:gosec // no process counts that far
		sum.Braked += int64(s.Braked)       //nolint:gosec // as above
		sum.SlotsLost += int64(s.SlotsLost) //nolint:gosec // as above
		sum.Outages += int64(s.Outages)     //nolint:gosec // as above
		sum.Resent += int64(s.Resent)       //nolint:gosec // as above
		sum.SentOnce += int64(s.SentOnce)   //nolint:gosec // as above
		sum.Reclaimed += int64(s.Reclaimed) //nolint:gosec // as above
		sum.LostReturned += s.LostReturned
		sum.LostKept += s.LostKept
		sum.Unreserved += int64(s.Unreserved)     //nolint:gosec // as above
		sum.TakenForLost += int64(s.TakenForLost) //nolint:gosec // as above
		sum.DegradedSpent += s.DegradedSpent
		if s.Away {
			sum.Away++
		}
	}
	return sum, len(l.all) > 0
}

// Counts are those of [limiter.Stats] that no call and no operation shows.
type Counts struct {
	Waiting        int64 // callers of Wait that wait now
	Healed, Braked int64 // since the limiters were made
	SlotsLost      int64
	Outages        int64
	Away           int64 // limiters that have lost the store
	DegradedSpent  int64 // tokens
	// Writes of which an answer was lost, or might be.
	Resent, SentOnce, Reclaimed int64
	// What lost processes took, in tokens, acquires and buckets.
	LostReturned, LostKept, Unreserved, TakenForLost int64
}

// A SlotCount is how many slots of a limit requests hold and wait for.
type SlotCount struct {
	Resource, Limit string // labels
	Held, Waiting   int64
}

// Slots are the sums of the slots that requests of the limiters hold and wait for, in no order.
func (l *Limiters) Slots(names *Names) (counts []SlotCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := map[[2]string]int{}
	for _, each := range l.all {
		for _, c := range each.SlotCounts() {
			of := names.Known(c.Resource)
			key := [2]string{of.Label, of.Limit(c.Limit)}
			i, ok := at[key]
			if !ok {
				i = len(counts)
				at[key], counts = i, append(counts, SlotCount{Resource: key[0], Limit: key[1]})
			}
			counts[i].Held += c.Held
			counts[i].Waiting += c.Waiting
		}
	}
	return counts
}
