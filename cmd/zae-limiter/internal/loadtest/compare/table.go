package compare

import (
	"fmt"
	"strconv"
)

// Table returns the rows for people: a header, and rows with as many cells. A cell is ""
// where there is nothing.
func (c *Comparison) Table() (header []string, rows [][]string) {
	header = []string{"SIDE", "PHASE", "CLASS", "FIGURE", "A", "B", "B/A", "95 % INTERVAL", "CHANGE"}
	for i := range c.Rows {
		r := &c.Rows[i]
		rows = append(rows, []string{
			r.Side, r.Phase, r.Class, r.Metric.title(), r.Metric.format(r.A), r.Metric.format(r.B),
			ratio(r.Ratio), r.interval(), string(r.Change),
		})
	}
	return header, rows
}

// interval is the interval as text, "" if there is none.
func (r *Row) interval() string {
	if !r.Low.Known() {
		return ""
	}
	high := "no bound"
	if r.High.Known() {
		high = ratio(r.High)
	}
	return ratio(r.Low) + " to " + high
}

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
	text := fmt.Sprintf("%s went from %s to %s", r.Metric.title(), r.Metric.format(r.A), r.Metric.format(r.B))
	if r.Ratio.Known() {
		text += ", a ratio of " + ratio(r.Ratio)
	}
	return text + " (95 % interval " + r.interval() + ")"
}

// title is the name of a figure for people.
func (m Metric) title() string {
	return map[Metric]string{
		OperationsPerSecond: "operations/s", P50: "latency p50", P99: "latency p99", P999: "latency p99.9",
		RefusedShare: "refused", ErrorShare: "errors", Lag: "generator lag p99", RequestsPerOperation: "round trips/operation",
		WCUPerOperation: "WCU/operation", RCUPerOperation: "RCU/operation", DollarsPerMillion: "dollars/million",
	}[m]
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
