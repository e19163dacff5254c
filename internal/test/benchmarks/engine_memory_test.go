package benchmarks_test

import "testing"

// TestEngineMemory measures the memory of items of 10 attributes and 400 bytes, in a
// process that does nothing else. It measures after the items were created, and after each
// was overwritten twice on average. It measures the process first, and then the live bytes
// in a collected heap.
//
// The target is that a million items without an index fit into a process of 2 GB. Live
// bytes may be half of that, because the collector lets a heap double.
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

// within fails the test if a quantity is above its maximum, and reports the comparison.
func within(tb testing.TB, what string, got, most float64) verdict {
	tb.Helper()
	if got > most {
		tb.Errorf("%s: %.0f, want at most %.0f", what, got, most)
		return missed
	}
	return met
}
