package usage

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// Size of a chart.
const (
	chartHeight = 10
	chartPoints = 60
)

// plot draws a chart for each limit of a page.
func plot(w *strings.Builder, q *usage.Query, page *usage.Page) {
	starts, series := chart(q, page)
	if len(series) == 0 {
		w.WriteString("there is nothing to draw\n")
		return
	}
	per := (len(starts) + chartPoints - 1) / chartPoints
	span := ""
	if per > 1 {
		span = fmt.Sprintf(", the highest of each %d", per)
	}
	for i, limit := range slices.Sorted(maps.Keys(series)) {
		if i > 0 {
			w.WriteByte('\n')
		}
		fmt.Fprintf(w, "%s: tokens, %s%s\n", limit, q.Window, span)
		w.WriteString(asciigraph.Plot(highest(series[limit], per), asciigraph.Height(chartHeight), asciigraph.LowerBound(0)))
		fmt.Fprintf(w, "\n%s to %s\n", starts[0].Format(time.RFC3339), starts[len(starts)-1].Format(time.RFC3339))
	}
}

// chart sums a page by limit, in tokens, for every window from the first to the last. It
// leaves out a window that the page may contain only in part.
func chart(q *usage.Query, page *usage.Page) (starts []time.Time, series map[string][]float64) {
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
	series = map[string][]float64{}
	for _, u := range page.Snapshots {
		i, there := at[u.Start.Unix()]
		for _, a := range u.Tokens {
			if !there {
				break
			}
			if series[a.Limit] == nil {
				series[a.Limit] = make([]float64, len(starts))
			}
			used, _ := new(big.Float).SetInt(a.Milli).Float64()
			series[a.Limit][i] += used / milli
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
