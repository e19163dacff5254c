package compare

import (
	"fmt"
	"strconv"
)

// Table returns the rows for people: a header, and rows with as many cells. A cell is ""
// where there is nothing.
func (c *Comparison) Table() (header []string, rows [][]string) {
	header = []string{"SIDE", "PHASE", "CLASS", "FIGURE", "A", "B", "B/A", "P", "CHANGE"}
	for i := range c.Rows {
		r := &c.Rows[i]
		rows = append(rows, []string{
			r.Side, r.Phase, r.Class, figureOf(r.Metric).title, r.Metric.format(r.A), r.Metric.format(r.B),
			ratio(r.Ratio), ratio(r.P), string(r.Change),
		})
	}
	return header, rows
}

// ratio writes a ratio or a probability.
func ratio(n Number) string {
	if !n.Known() {
		return ""
	}
	const digits = 3
	return strconv.FormatFloat(float64(n), 'f', digits, 64)
}

// where names a row.
func (r *Row) where() string {
	text := "Side " + r.Side + ", phase " + r.Phase
	if r.Class != "" {
		text += ", class " + r.Class
	}
	return text
}

// sentence says by how much a figure changed.
func (r *Row) sentence() string {
	text := fmt.Sprintf("%s went from %s to %s", figureOf(r.Metric).title, r.Metric.format(r.A), r.Metric.format(r.B))
	if r.Ratio.Known() {
		text += ", a ratio of " + ratio(r.Ratio)
	}
	return text + " (p = " + ratio(r.P) + ")"
}

// format writes a value of the metric with its unit.
func (m Metric) format(n Number) string {
	const digits, percent = 4, 100
	v := float64(n)
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', digits, 64) }
	switch m {
	case P50, P99, P999, Lag:
		return short(v) + " ms"
	case RefusedShare, ErrorShare:
		return short(percent*v) + " %"
	case OperationsPerSecond:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return short(v)
	}
}
