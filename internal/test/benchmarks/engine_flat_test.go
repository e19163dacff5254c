package benchmarks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// TestEngineFlat compares the latency of one caller with few items and with many, of 10
// attributes and 400 bytes each:
//
//   - in process: two databases in this process, so that both have the same heap;
//   - each its process: each is called in its own process, so that each has its own heap;
//   - HTTP: with the SDK's client, each served by its own process.
//
// Hot keys are always the same 100 keys of a table. Random keys are all keys: no cache has
// the requested item. A call of a microsecond must show that, so in process the target
// applies to hot keys only.
//
// Not parallel: other work would be measured too.
func TestEngineFlat(t *testing.T) {
	const most = 1.3
	few, many := 1_000, *manyItems
	s := newSheet("items", "operation", "keys", "few: p50", "p99", "mean", "many: p50", "p99", "mean", "p50", "target", "p99", "target", "mean")
	for _, place := range []struct {
		name        string
		start       func(testing.TB, int) func(driveOrder) burstSummary
		overNetwork bool
	}{
		{"in process", hereDriver, false}, {"each its process", processDriver, false}, {"HTTP", httpDriver, true},
	} {
		// Both exist before either is measured.
		fewDrive, manyDrive := place.start(t, few), place.start(t, many)
		for _, get := range []bool{false, true} {
			for _, hot := range []bool{true, false} {
				var sums [2][]burstSummary
				for round := range *sliceRounds + 1 {
					for i := range 2 {
						which := (round + i) % 2
						drive, n := fewDrive, few
						if which == 1 {
							drive, n = manyDrive, many
						}
						order := driveOrder{Get: get, Keys: n, Of: n, Long: *sliceTime}
						if hot {
							order.Keys = 100
						}
						if b := drive(order); round > 0 { // the first connects
							sums[which] = append(sums[which], b)
						}
					}
				}
				operation, keys := "UpdateItem", "random"
				if get {
					operation = "GetItem"
				}
				if hot {
					keys = "hot"
				}
				row := []string{fmt.Sprintf("%s, %d and %d", place.name, few, many), operation, keys}
				for _, sum := range sums {
					for _, q := range summaries {
						row = append(row, latency(medianOf(sum, q)))
					}
				}
				for i, q := range summaries {
					var all []float64
					for round := range sums[0] {
						all = append(all, q(sums[1][round])/q(sums[0][round]))
					}
					e := estimateOf(all)
					row = append(row, e.String())
					if i == 2 {
						continue
					}
					v := judge(e, most)
					if hot || place.overNetwork {
						hold(t, strings.Join(row[:3], ", ")+[]string{", p50", ", p99"}[i], e, most)
					}
					row = append(row, "≤ 1.3 "+string(v))
				}
				s.row(row...)
			}
		}
	}
	s.print(t, inSlices())
}

// summaries are the quantities of a summary.
var summaries = []func(burstSummary) float64{
	func(b burstSummary) float64 { return b.P50 },
	func(b burstSummary) float64 { return b.P99 },
	func(b burstSummary) float64 { return b.Mean },
}

func medianOf(sums []burstSummary, of func(burstSummary) float64) float64 {
	var all []float64
	for _, b := range sums {
		all = append(all, of(b))
	}
	return estimateOf(all).median
}

// hereDriver fills a database in this process and drives it.
func hereDriver(tb testing.TB, n int) func(driveOrder) burstSummary {
	tb.Helper()
	db := dynamolite.New(dynamolite.Options{})
	tb.Cleanup(func() { _ = db.Close() })
	if err := fill(tb.Context(), db, medium, n, false); err != nil {
		tb.Fatal(err)
	}
	return driver(tb, db)
}

// httpDriver fills a database in another process, which serves it.
func httpDriver(tb testing.TB, n int) func(driveOrder) burstSummary {
	tb.Helper()
	p := filledProcess(tb, "served", n)
	return driver(tb, engineClient(ask[string](tb, p, orders{Serve: true}), 1))
}

func driver(tb testing.TB, api items) func(driveOrder) burstSummary {
	tb.Helper()
	return func(o driveOrder) burstSummary {
		b, err := drive(1, o.Long, o.operation(tb.Context(), api))
		if err != nil {
			tb.Fatal(err)
		}
		return b.summary()
	}
}

// processDriver fills a database in another process, which drives it.
func processDriver(tb testing.TB, n int) func(driveOrder) burstSummary {
	tb.Helper()
	p := filledProcess(tb, "driven", n)
	return func(o driveOrder) burstSummary { return ask[burstSummary](tb, p, orders{Drive: &o}) }
}

func filledProcess(tb testing.TB, name string, n int) *process {
	tb.Helper()
	p := startProcess(tb, fmt.Sprint(name, n))
	ask[opened](tb, p, orders{Open: &openOrder{}})
	ask[usage](tb, p, orders{Fill: &fillOrder{Items: n}})
	return p
}
