package estimate

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// lane is the number of writes a second with which one process serves callers of one item
// who come at random, rate a second. A write takes the latency. It simulates the lane of
// package lane: a caller writes at once if there is a place, and else shares the next
// write; a line of 16 gets another place, up to 4.
func lane(rate float64, latency time.Duration, places int) float64 {
	const rarely = 1e-3 // so rarely do two callers meet that it does not matter
	took := latency.Seconds()
	if rate*took < rarely {
		return rate
	}
	const callers, longLine, most = 20_000, 16, 4
	dice := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a simulation that is to repeat
	var ends instants
	now, line, writes := 0.0, 0, 0
	begin := func(at float64) {
		heap.Push(&ends, at+took)
		writes++
	}
	for range callers {
		now += dice.ExpFloat64() / rate
		for len(ends) > 0 && ends[0] <= now {
			end, _ := heap.Pop(&ends).(float64)
			if line > 0 && len(ends) < places {
				line = 0
				begin(end)
			}
		}
		switch {
		case len(ends) < places:
			begin(now)
		case line+1 >= longLine && places > 1 && len(ends) < most:
			line = 0
			begin(now)
		default:
			line++
		}
	}
	return float64(writes) / now
}

// instants is a heap.
type instants []float64

// Len is part of [heap.Interface], as are the methods below.
func (h *instants) Len() int           { return len(*h) }
func (h *instants) Less(i, j int) bool { return (*h)[i] < (*h)[j] }
func (h *instants) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push adds an instant.
func (h *instants) Push(x any) {
	at, _ := x.(float64)
	*h = append(*h, at)
}

// Pop removes the last instant.
func (h *instants) Pop() any {
	last := len(*h) - 1
	at := (*h)[last]
	*h = (*h)[:last]
	return at
}
