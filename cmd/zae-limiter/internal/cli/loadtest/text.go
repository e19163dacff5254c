package loadtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

const million = 1_000_000

// text shows a result: for each phase a table of each class and one of the costs, with a
// column for each side.
func text(w *strings.Builder, r *result.Result) {
	for i := range most(r) {
		classes(w, r, i)
		costs(w, r, i)
	}
	uses(w, r)
	summary(w, r)
}

// most is the number of phases that any side has measured.
func most(r *result.Result) (n int) {
	for i := range r.Sides {
		n = max(n, len(r.Sides[i].Phases))
	}
	return n
}

// sides are the headers of the columns of figures.
func sides(r *result.Result) (header []string) {
	for i := range r.Sides {
		header = append(header, strings.ToUpper(r.Sides[i].Name))
	}
	if len(r.Sides) == 2 {
		header = append(header, "RATIO")
	}
	return header
}

// A line is one figure of a T.
type line[T any] struct {
	name   string
	value  func(*T) float64
	format func(float64) string
	// plain means that a ratio of two such figures means nothing.
	plain bool
}

// rows makes a row of each figure; a cell is "" where nothing was measured.
func rows[T any](lines []line[T], of []*T) (all [][]string) {
	for _, l := range lines {
		row := []string{l.name}
		for _, t := range of {
			cell := ""
			if t != nil {
				cell = l.format(l.value(t))
			}
			row = append(row, cell)
		}
		if len(of) == 2 {
			row = append(row, l.ratio(of[0], of[1]))
		}
		all = append(all, row)
	}
	return all
}

func (l line[T]) ratio(a, of *T) string {
	if l.plain || a == nil || of == nil || l.value(of) == 0 {
		return ""
	}
	return ratio(l.value(a) / l.value(of))
}

var ofClass = []line[result.Class]{
	{"operations", func(c *result.Class) float64 { return float64(c.Answers.Operations) }, count, true},
	{"operations/s", (*result.Class).PerSecond, count, false},
	{"latency p50", func(c *result.Class) float64 { return float64(c.Latency.P50) }, took, false},
	{"latency p95", func(c *result.Class) float64 { return float64(c.Latency.P95) }, took, false},
	{"latency p99", func(c *result.Class) float64 { return float64(c.Latency.P99) }, took, false},
	{"latency p99.9", func(c *result.Class) float64 { return float64(c.Latency.P999) }, took, false},
	{"latency max", func(c *result.Class) float64 { return float64(c.Latency.Max) }, took, false},
	{"admitted", func(c *result.Class) float64 { return float64(c.Answers.Admitted) }, count, true},
	{"refused", func(c *result.Class) float64 { return float64(c.Answers.Refused) }, count, true},
	{"errors: throttled", func(c *result.Class) float64 { return float64(c.Answers.Throttled) }, count, true},
	{"errors: unavailable", func(c *result.Class) float64 { return float64(c.Answers.Unavailable) }, count, true},
	{"errors: other", func(c *result.Class) float64 { return float64(c.Answers.Failed) }, count, true},
	{"generator lag p99", func(c *result.Class) float64 { return float64(c.Lag.P99) }, took, true},
}

// operations is the number of operations of a phase.
func operations(p *result.Phase) (n int64) {
	for i := range p.Classes {
		n += p.Classes[i].Answers.Operations
	}
	return n
}

func each(p *result.Phase) result.Cost { return p.Cost.Per(operations(p)) }

var ofPhase = []line[result.Phase]{
	{"round trips/operation", func(p *result.Phase) float64 { return each(p).Requests }, units, false},
	{"RCU/operation", func(p *result.Phase) float64 { return each(p).RCU }, units, false},
	{"WCU/operation", func(p *result.Phase) float64 { return each(p).WCU }, units, false},
	{"dollars/million", func(p *result.Phase) float64 { return million * each(p).Dollars }, units, false},
}

// phases are a phase of all sides; nil where it was not measured.
func phases(r *result.Result, phase int) (all []*result.Phase) {
	for i := range r.Sides {
		var p *result.Phase
		if phase < len(r.Sides[i].Phases) {
			p = &r.Sides[i].Phases[phase]
		}
		all = append(all, p)
	}
	return all
}

// first is a phase that was measured.
func first(all []*result.Phase) *result.Phase {
	return all[slices.IndexFunc(all, func(p *result.Phase) bool { return p != nil })]
}

// classes shows the classes of a phase.
func classes(w *strings.Builder, r *result.Result, phase int) {
	all := phases(r, phase)
	for k, class := range first(all).Classes {
		of := make([]*result.Class, len(all))
		for i, p := range all {
			if p != nil {
				of[i] = &p.Classes[k]
			}
		}
		title := strings.ToUpper(first(all).Name + " " + class.Name)
		figures := append(rows(ofClass, of), sinceFirst(phases(r, 0), of)...)
		app.Table(w, append([]string{title}, sides(r)...), figures)
		w.WriteByte('\n')
	}
}

// sinceFirst compares the latencies of a class in a later phase with those in the first one. There
// are none if the class was not active then.
func sinceFirst(begin []*result.Phase, of []*result.Class) [][]string {
	type pair struct{ now, first *result.Class }
	pairs := make([]*pair, len(of))
	name := ""
	for i, now := range of {
		if now == nil {
			continue
		}
		at := slices.IndexFunc(begin[i].Classes, func(c result.Class) bool { return c.Name == now.Name })
		if at < 0 || &begin[i].Classes[at] == now {
			return nil
		}
		name = begin[i].Name
		if first := &begin[i].Classes[at]; first.Latency.P50 > 0 {
			pairs[i] = &pair{now, first}
		}
	}
	times := func(a, b result.Milliseconds) float64 { return float64(a) / float64(b) }
	return rows([]line[pair]{
		{"latency p50, times " + name, func(p *pair) float64 { return times(p.now.Latency.P50, p.first.Latency.P50) }, ratio, true},
		{"latency p99, times " + name, func(p *pair) float64 { return times(p.now.Latency.P99, p.first.Latency.P99) }, ratio, true},
	}, pairs)
}

// costs shows the costs of a phase, and what the items of each population did.
func costs(w *strings.Builder, r *result.Result, phase int) {
	all := phases(r, phase)
	figures := rows(ofPhase, all)
	for k, population := range first(all).Populations {
		for _, l := range ofPopulation {
			row := []string{population.Name + ": " + l.name}
			for _, p := range all {
				cell := ""
				if p != nil {
					cell = l.show(&p.Populations[k])
				}
				row = append(row, cell)
			}
			if len(all) == 2 {
				row = append(row, "")
			}
			figures = append(figures, row)
		}
	}
	app.Table(w, append([]string{strings.ToUpper(first(all).Name + " cost")}, sides(r)...), figures)
	w.WriteByte('\n')
}

// ofPopulation are the figures of the items of a population.
var ofPopulation = []struct {
	name string
	show func(*result.Population) string
}{
	{"writes", func(p *result.Population) string { return limitarg.Grouped(p.Writes.Sent) }},
	{"writes throttled, first 2s", func(p *result.Population) string { return percent(p.Writes.Early()) }},
	{"writes throttled, after", func(p *result.Population) string { return percent(p.Writes.Late()) }},
	{"WCU", func(p *result.Population) string { return count(p.Cost.WCU) }},
	{"RCU", func(p *result.Population) string { return count(p.Cost.RCU) }},
	{"shards at the end", func(p *result.Population) string { return strconv.Itoa(p.Shards) }},
}

// uses shows admitted against entitled, per limit.
func uses(w *strings.Builder, r *result.Result) {
	var all [][]string
	for i := range r.Sides {
		for _, u := range r.Sides[i].Limits {
			all = append(all, []string{
				r.Sides[i].Name, u.Population, u.Resource, u.Limit, limitarg.Grouped(u.Demanded),
				limitarg.Grouped(u.Entitled), limitarg.Grouped(u.Admitted), fmt.Sprintf("%.2f %%", u.Percent()),
			})
		}
	}
	app.Table(w, []string{"SIDE", "POPULATION", "RESOURCE", "LIMIT", "DEMANDED", "ENTITLED", "ADMITTED", "OF ENTITLED"}, all)
	w.WriteByte('\n')
}

func summary(w *strings.Builder, r *result.Result) {
	var pairs []string
	for i := range r.Sides {
		s := &r.Sides[i]
		answers := "not judged: no limiter"
		if s.Wrong != nil {
			answers = limitarg.Grouped(s.Wrong.Answers()) + " wrong"
		}
		pairs = append(pairs, "Answers of "+s.Name, answers, "Books of "+s.Name, books(s.Balance))
	}
	app.Fields(w, append(pairs,
		"Load", fmt.Sprintf("%s, %d limiters, seed %d, on %s", r.Scenario, r.Limiters, r.Seed, r.Target),
		"Spent", fmt.Sprintf("%s round trips, %s WCU, %s RCU: $%.4f (%s)", count(r.Spent.Requests), count(r.Spent.WCU),
			limitarg.GroupedDecimal(strconv.FormatFloat(r.Spent.RCU, 'f', 1, 64)), r.Spent.Dollars, r.Prices))...)
	for i := range r.Sides {
		if text := r.Sides[i].Unthrottled(); text != "" {
			fmt.Fprintf(w, "Side %s: %s\n", r.Sides[i].Name, text)
		}
		for _, p := range r.Sides[i].Phases {
			for k := range p.Classes {
				if first := p.Classes[k].Answers.FirstError; first != "" {
					fmt.Fprintf(w, "First error of %s, %s, %s: %s\n", r.Sides[i].Name, p.Name, p.Classes[k].Name, first)
				}
			}
		}
	}
	if r.Interrupted {
		w.WriteString("Interrupted: these are the measurements so far.\n")
	}
}

// books says whether the books and the table agree.
func books(b *result.Balance) string {
	if b == nil {
		return "not compared with the table"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s tokens, the table counts %s in %s buckets", limitarg.Grouped(b.Booked), limitarg.Grouped(b.Found), limitarg.Grouped(b.Buckets))
	if b.Open > 0 {
		fmt.Fprintf(&s, "; %s more of operations without an answer", limitarg.Grouped(b.Open))
	}
	if b.Expired+b.Left > 0 {
		fmt.Fprintf(&s, "; %s buckets expired and %s were left out", limitarg.Grouped(b.Expired), limitarg.Grouped(b.Left))
	}
	if b.Wrong > 0 {
		fmt.Fprintf(&s, "; %s counters differ", limitarg.Grouped(b.Wrong))
	}
	return s.String()
}

func count(v float64) string {
	return limitarg.GroupedDecimal(strconv.FormatFloat(v, 'f', 0, 64))
}

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func units(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func percent(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }

// took formats milliseconds with three significant digits.
func took(v float64) string {
	d := result.Milliseconds(v).Duration()
	for unit := time.Duration(1); unit < time.Second; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(10 * time.Millisecond).String()
}

// seconds formats seconds for people.
func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
