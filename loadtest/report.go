package loadtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Table returns the result for people: a header, and rows with as many cells. A cell is ""
// where nothing was measured.
func (r *Result) Table() (header []string, rows [][]string) {
	if r.Attack != nil {
		return r.attackTable()
	}
	header = []string{strings.ToUpper(string(r.Scenario)), "LIMITER"}
	sides := []*Measurement{r.Limiter}
	if r.Raw != nil {
		header = append(header, "BARE WRITES", "RATIO")
		sides = append(sides, r.Raw)
	}
	for _, line := range measured {
		row := []string{line.name}
		for _, m := range sides {
			row = append(row, line.show(m))
		}
		if r.Raw != nil {
			row = append(row, line.ratio(r.Limiter, r.Raw))
		}
		rows = append(rows, row)
	}
	for i := range r.Limiter.Limits {
		row := []string{"admitted of entitled " + r.Limiter.Limits[i].Limit}
		for _, m := range sides {
			row = append(row, admitted(m.Limits[i]))
		}
		if r.Raw != nil {
			row = append(row, "")
		}
		rows = append(rows, row)
	}
	return header, rows
}

// FirstErrors returns the first error of each measurement that has errors, with the
// measurement's name.
func (r *Result) FirstErrors() (errs []string) {
	add := func(whose string, m *Measurement) {
		if m != nil && m.Answers.FirstError != "" {
			errs = append(errs, whose+": "+m.Answers.FirstError)
		}
	}
	add("limiter", r.Limiter)
	add("bare writes", r.Raw)
	if r.Attack == nil {
		return errs
	}
	for _, way := range []struct {
		name string
		side *AttackSide
	}{{"bare item", r.Attack.Bare}, {"limiter", r.Attack.Limiter}, {"shared limiter", r.Attack.Shared}} {
		if way.side != nil {
			add("neighbours, quiet, "+way.name, way.side.Quiet)
			add("neighbours, "+way.name, way.side.Neighbours)
			add("attacker, "+way.name, way.side.Attacker)
		}
	}
	return errs
}

// A line is one figure of a measurement.
type line struct {
	name   string
	value  func(*Measurement) float64
	format func(float64) string
	// plain means that a ratio of two such figures is meaningless.
	plain bool
}

func (l line) show(m *Measurement) string {
	if m == nil {
		return ""
	}
	return l.format(l.value(m))
}

func (l line) ratio(m, of *Measurement) string {
	if l.plain || m == nil || of == nil || l.value(of) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", l.value(m)/l.value(of))
}

func count(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func units(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func percent(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }

// took formats nanoseconds with three significant digits.
func took(v float64) string {
	d := time.Duration(v)
	for unit := time.Duration(1); unit < time.Second; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(10 * time.Millisecond).String()
}

var measured = []line{
	{"operations", func(m *Measurement) float64 { return float64(m.Answers.Operations) }, count, true},
	{"operations/s", (*Measurement).PerSecond, count, false},
	{"latency p50", func(m *Measurement) float64 { return float64(m.Latency.P50) }, took, false},
	{"latency p95", func(m *Measurement) float64 { return float64(m.Latency.P95) }, took, false},
	{"latency p99", func(m *Measurement) float64 { return float64(m.Latency.P99) }, took, false},
	{"latency max", func(m *Measurement) float64 { return float64(m.Latency.Max) }, took, false},
	{"round trips/operation", func(m *Measurement) float64 { return m.Cost.RoundTrips }, units, false},
	{"RCU/operation", func(m *Measurement) float64 { return m.Cost.RCU }, units, false},
	{"WCU/operation", func(m *Measurement) float64 { return m.Cost.WCU }, units, false},
	{"dollars/million", func(m *Measurement) float64 { return m.Cost.Dollars() * million }, units, false},
	{"admitted", func(m *Measurement) float64 { return float64(m.Answers.Admitted) }, count, true},
	{"refused", func(m *Measurement) float64 { return float64(m.Answers.Refused) }, count, true},
	{"errors: throttled", func(m *Measurement) float64 { return float64(m.Answers.Throttled) }, count, true},
	{"errors: unavailable", func(m *Measurement) float64 { return float64(m.Answers.Unavailable) }, count, true},
	{"errors: other", func(m *Measurement) float64 { return float64(m.Answers.Failed) }, count, true},
	{"writes throttled", func(m *Measurement) float64 { return float64(m.Writes.Throttled) }, count, true},
	{"wrong answers", wrong, judged, true},
	{"shards at the end", func(m *Measurement) float64 { return float64(m.Shards) }, count, true},
}

const unjudged = -1

func wrong(m *Measurement) float64 {
	if m.Wrong == nil {
		return unjudged
	}
	return float64(*m.Wrong)
}

func judged(v float64) string {
	if v == unjudged {
		return ""
	}
	return count(v)
}

func admitted(u LimitUse) string {
	return fmt.Sprintf("%d of %d (%.2f %%)", u.Admitted, u.Entitled, u.Percent())
}

// attackTable shows the sides of the attack in columns.
func (r *Result) attackTable() (header []string, rows [][]string) {
	sides := []*AttackSide{r.Attack.Bare, r.Attack.Limiter, r.Attack.Shared}
	show := func(name string, of func(*AttackSide) *Measurement, cell func(*Measurement) string) {
		row := []string{name}
		for _, s := range sides {
			if s == nil || of(s) == nil {
				row = append(row, "")
				continue
			}
			row = append(row, cell(of(s)))
		}
		rows = append(rows, row)
	}
	attacker := func(s *AttackSide) *Measurement { return s.Attacker }
	quiet := func(s *AttackSide) *Measurement { return s.Quiet }
	neighbours := func(s *AttackSide) *Measurement { return s.Neighbours }

	show("attacker: operations/s", attacker, func(m *Measurement) string { return count(m.PerSecond()) })
	show("attacker: writes throttled, first 2s", attacker, func(m *Measurement) string { return percent(m.Writes.Early()) })
	show("attacker: writes throttled, after", attacker, func(m *Measurement) string { return percent(m.Writes.Late()) })
	show("attacker: errors", attacker, errorsOf)
	show("attacker: latency p50 / p99", attacker, latencies)
	show("attacker: WCU/operation", attacker, func(m *Measurement) string { return units(m.Cost.WCU) })
	show("attacker: admitted of entitled", attacker, func(m *Measurement) string { return admitted(m.Limits[0]) })
	show("attacker: wrong answers", attacker, func(m *Measurement) string { return judged(wrong(m)) })
	show("attacker: shards at the end", attacker, func(m *Measurement) string { return strconv.Itoa(m.Shards) })
	show("neighbours: latency p50 / p99, quiet", quiet, latencies)
	show("neighbours: latency p50 / p99, attack", neighbours, latencies)
	rows = append(rows, append([]string{"neighbours: p99, attack : quiet"}, ratioOfP99(sides)...))
	show("neighbours: errors, quiet", quiet, errorsOf)
	show("neighbours: errors, attack", neighbours, errorsOf)
	show("neighbours: admitted of entitled", neighbours, func(m *Measurement) string { return admitted(m.Limits[0]) })
	show("neighbours: wrong answers", neighbours, func(m *Measurement) string { return judged(wrong(m)) })
	return []string{"ATTACK", "BARE ITEM", "LIMITER", "SHARED LIMITER"}, rows
}

func errorsOf(m *Measurement) string {
	return fmt.Sprintf("%d (%s)", m.Answers.Errors(), percent(share(m.Answers.Errors(), m.Answers.Operations)))
}

func latencies(m *Measurement) string {
	return took(float64(m.Latency.P50)) + " / " + took(float64(m.Latency.P99))
}

func ratioOfP99(sides []*AttackSide) (cells []string) {
	for _, s := range sides {
		cell := ""
		if s != nil && s.Quiet != nil && s.Neighbours != nil && s.Quiet.Latency.P99 > 0 {
			cell = fmt.Sprintf("%.2f", float64(s.Neighbours.Latency.P99)/float64(s.Quiet.Latency.P99))
		}
		cells = append(cells, cell)
	}
	return cells
}
