package benchmarks_test

import "testing"

// TestEngineMemory is what items of 10 attributes and 400 bytes take, in a process that does nothing else: when they have been
// made, and when each has been overwritten twice on average. What is live is measured in a collected heap, the process before
// that.
//
// The target is that a million without an index live in a process of 2 GB. What is live may be half of that, because the collector
// lets a heap double.
func TestEngineMemory(t *testing.T) {
	const (
		mostResident = 2e9
		mostLive     = 1_000 // bytes for an item
		empty        = 2e6   // bytes live in a process without items, or a little less
	)
	s := newSheet("items", "index", "after", "resident", "peak", "target", "live heap", "live per item", "target")
	n := float64(*manyItems)
	for _, index := range []string{"none", "KEYS_ONLY"} {
		p := startProcess(t, index)
		ask[opened](t, p, orders{Open: &openOrder{}})
		for _, stage := range []struct {
			name string
			fillOrder
		}{
			{"load", fillOrder{Items: *manyItems, Indexed: index != "none"}},
			{"overwriting", fillOrder{Items: *manyItems, Overwrites: 2 * *manyItems}},
		} {
			u := ask[usage](t, p, orders{Fill: &stage.fillOrder})
			resident := "none"
			if index == "none" {
				resident = "≤ 2 GB " + string(within(t, "bytes resident after "+stage.name, u.Peak, mostResident))
			}
			live := within(t, "live bytes per item, index "+index+", after "+stage.name, (u.Live-empty)/n, mostLive)
			s.row(perSecond(n), index, stage.name, megabytes(u.Resident), megabytes(u.Peak), resident,
				megabytes(u.Live), perSecond(u.Live/n)+" B", "≤ 1,000 B "+string(live))
		}
		p.end()
	}
	s.print(t, "one process for each index")
}

// within fails the test if a quantity is above what it may be, and says how it stands.
func within(tb testing.TB, what string, got, most float64) verdict {
	tb.Helper()
	if got > most {
		tb.Errorf("%s: %.0f, want at most %.0f", what, got, most)
		return missed
	}
	return met
}
