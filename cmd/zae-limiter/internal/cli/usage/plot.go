package usage

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Size of a chart.
const (
	chartHeight = 10
	chartPoints = 60
	chartAxis   = 14 // columns
	// barWindows is how many windows have a bar each. A line needs more of them.
	barWindows = 20
	// barUsers is how many entities and resources have a bar each, of one window.
	barUsers = 20
)

// plot draws a chart for each limit of a page, on some columns: a bar for each entity and
// resource of the only window, a bar for each of a few windows, or a line through many.
func plot(w *strings.Builder, columns int, q *usage.Query, page *usage.Page) {
	starts, series := chart(q, page)
	if len(series) == 0 {
		w.WriteString("there is nothing to draw\n")
		return
	}
	for i, limit := range slices.Sorted(maps.Keys(series)) {
		if i > 0 {
			w.WriteByte('\n')
		}
		switch {
		case len(starts) == 1:
			plotUsers(w, columns, q, starts[0], limit, page)
		case len(starts) <= barWindows:
			plotWindows(w, columns, q, limit, starts, series[limit])
		default:
			plotLine(w, columns, q, limit, starts, series[limit])
		}
	}
}

// A bar is one of a chart. Usage that returns outweigh has none, and a number below 0.
type bar struct {
	cells []string // what it stands for
	milli *big.Int
}

// plotBars draws bars on a common scale from 0, with the numbers behind them.
func plotBars(w *strings.Builder, columns int, header []string, bars []bar) {
	most := 0.0
	for i := range bars {
		most = max(most, float(bars[i].milli))
	}
	lines := app.BarTable(columns, func(width int) ([]string, [][]string) {
		rows := make([][]string, len(bars))
		for i, b := range bars {
			rows[i] = append(slices.Clip(b.cells), grouped(b.milli))
			if width > 0 {
				part := 0.0
				if most > 0 {
					part = float(b.milli) / most
				}
				rows[i] = append(rows[i], app.Gauge(part, width))
			}
		}
		if width > 0 {
			return append(slices.Clip(header), "TOKENS", "CHART"), rows
		}
		return append(slices.Clip(header), "TOKENS"), rows
	})
	for _, line := range lines {
		w.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// plotUsers draws a bar for each entity and resource of a window, the largest first.
func plotUsers(w *strings.Builder, columns int, q *usage.Query, start time.Time, limit string, page *usage.Page) {
	fmt.Fprintf(w, "%s: tokens, %s, %s\n", limit, q.Window, start.Format(time.RFC3339))
	var bars []bar
	for i := range page.Snapshots {
		u := &page.Snapshots[i]
		for _, a := range u.Tokens {
			if a.Limit == limit && u.Start.Equal(start) {
				bars = append(bars, bar{[]string{u.Entity, u.Resource}, a.Milli})
			}
		}
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Or(b.milli.Cmp(a.milli), slices.Compare(a.cells, b.cells)) })
	more, rest := 0, new(big.Int)
	if len(bars) > barUsers {
		for _, b := range bars[barUsers:] {
			rest.Add(rest, b.milli)
		}
		more, bars = len(bars)-barUsers, bars[:barUsers]
	}
	plotBars(w, columns, []string{"ENTITY", "RESOURCE"}, bars)
	if more > 0 {
		fmt.Fprintf(w, "and %d more, with %s tokens together\n", more, grouped(rest))
	}
}

// plotWindows draws a bar for each window, the first on top.
func plotWindows(w *strings.Builder, columns int, q *usage.Query, limit string, starts []time.Time, series []*big.Int) {
	fmt.Fprintf(w, "%s: tokens, %s\n", limit, q.Window)
	bars := make([]bar, len(starts))
	for i, start := range starts {
		bars[i] = bar{[]string{start.Format(time.RFC3339)}, series[i]}
	}
	plotBars(w, columns, []string{"START"}, bars)
}

// plotLine draws a line through windows, or through the peaks of several if there are more
// of them than columns.
func plotLine(w *strings.Builder, columns int, q *usage.Query, limit string, starts []time.Time, series []*big.Int) {
	points := min(chartPoints, max(1, columns-chartAxis))
	per := (len(starts) + points - 1) / points
	span := ""
	if per > 1 {
		span = fmt.Sprintf(", the highest of each %d", per)
	}
	values := make([]float64, len(series))
	for i, amount := range series {
		values[i] = float(amount)
	}
	fmt.Fprintf(w, "%s: tokens, %s%s\n", limit, q.Window, span)
	w.WriteString(asciigraph.Plot(highest(values, per), asciigraph.Height(chartHeight), asciigraph.LowerBound(0)))
	fmt.Fprintf(w, "\n%s to %s\n", starts[0].Format(time.RFC3339), starts[len(starts)-1].Format(time.RFC3339))
}

// float is an amount of millitokens in tokens, for drawing.
func float(amount *big.Int) float64 {
	const milli = 1000
	used, _ := new(big.Float).SetInt(amount).Float64()
	return used / milli
}

// chart sums a page by limit, in millitokens, for every window from the first to the last. It
// leaves out a window that the page may contain only in part.
func chart(q *usage.Query, page *usage.Page) (starts []time.Time, series map[string][]*big.Int) {
	if len(page.Snapshots) == 0 {
		return nil, nil
	}
	first, last := page.Snapshots[len(page.Snapshots)-1].Start, page.Snapshots[0].Start
	if page.Next != "" && first.Before(last) {
		first = q.Window.End(first)
	}
	at := map[int64]int{}
	for start := first; !start.After(last); start = q.Window.End(start) {
		at[start.Unix()] = len(starts)
		starts = append(starts, start)
	}
	series = map[string][]*big.Int{}
	for _, u := range page.Snapshots {
		i, there := at[u.Start.Unix()]
		for _, a := range u.Tokens {
			if !there {
				break
			}
			if series[a.Limit] == nil {
				series[a.Limit] = make([]*big.Int, len(starts))
				for j := range starts {
					series[a.Limit][j] = new(big.Int)
				}
			}
			series[a.Limit][i].Add(series[a.Limit][i], a.Milli)
		}
	}
	return starts, series
}

// highest returns the maximum of each n values, so that the chart keeps the peaks.
func highest(values []float64, n int) []float64 {
	var all []float64
	for chunk := range slices.Chunk(values, n) {
		all = append(all, slices.Max(chunk))
	}
	return all
}
