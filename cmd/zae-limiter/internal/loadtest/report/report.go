// Package report writes the result of a load test as one HTML page. The page opens from a
// file, loads nothing else and has no script.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

//go:embed page.html
var source string

//go:embed page.css
var style template.CSS

// Bounds of a page. What is left out is counted in the page.
const (
	// MaxPoints is how many points a chart over time has, about. More samples are merged.
	MaxPoints = 600
	// maxRows is how many rows a table has, apart from that of samples.
	maxRows = 400
	// maxDistributions is how many distributions of latency are drawn.
	maxDistributions = 12
	// maxLimits is how many limits are drawn, those with the least admitted first.
	maxLimits = 24
)

// page is what the template shows.
type page struct {
	*result.Result

	Styles   []template.CSS
	Worst    result.Weight
	Verdict  string
	Findings []result.Finding
	Tiles    []tile
	Figures  table
	Several  bool // several sides
	Over     []kind
	Merged   string // how samples were merged, "" if they were not
	Shapes   []figure
	Left     int // distributions that are not drawn
	Limits   table
	LimitBar template.HTML
	Costs    table
	CostBars template.HTML
	Items    table
	Reasons  template.HTML
	Samples  []sampleTable
}

// A table is rows of text. The first columns are names. Left is the number of rows left out.
type table struct {
	Header []string
	Names  int
	Rows   [][]cell
	Left   int
}

// A cell is the text of a cell, and a smaller text below it.
type cell struct{ Text, Below string }

// A figure is one chart with a caption.
type figure struct {
	Caption string
	Chart   template.HTML
}

// A kind is the same chart of every side, with the same axes.
type kind struct {
	Title, Note string
	Figures     []figure
}

// A tile is the most important figures of one side.
type tile struct {
	Side  string
	Facts []fact
}

type fact struct{ Name, Value string }

type sampleTable struct {
	Side string
	table
}

// layout is the page, once it is needed.
var layout = sync.OnceValue(parse)

// parse parses the page, and the form of its tables.
func parse() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"instant": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 MST") },
		"dollars": dollars, "count": limitarg.Grouped[int64], "number": chart.Number,
	}).Parse(source))
}

// HTML writes the page of a result. It returns the errors of w.
func HTML(w io.Writer, r *result.Result) error {
	p := page{
		Result: r, Styles: []template.CSS{chart.Style, style}, Several: len(r.Sides) > 1,
		Findings: r.Findings(),
	}
	p.Worst = result.Worst(p.Findings)
	p.Verdict = verdict(p.Worst, r)
	sides := make([]side, len(r.Sides))
	for i := range r.Sides {
		sides[i] = newSide(&r.Sides[i])
		p.Tiles = append(p.Tiles, tileOf(&r.Sides[i]))
		if len(r.Sides[i].Samples) > MaxPoints {
			p.Merged = fmt.Sprintf("Samples are merged into about %d points for each side. A point has the sum of the counts, "+
				"the greatest p99, p99.9 and lag, and the mean p50 of its seconds.", MaxPoints)
		}
		p.Samples = append(p.Samples, sampleTable{r.Sides[i].Name, sides[i].table()})
	}
	p.Figures, p.Limits, p.Costs, p.Items = figures(r), limits(r), costs(r), items(r)
	p.LimitBar, p.CostBars, p.Reasons = limitBars(r), costBars(r), reasonBars(r)
	p.Over = overTime(sides)
	p.Shapes, p.Left = distributions(r)
	return layout().Execute(w, p)
}

// verdict is the judgement in one sentence.
func verdict(worst result.Weight, r *result.Result) string {
	unreliable := r.Unreliable != "" || r.Operations() == 0
	switch {
	case worst == result.Good:
		return "The figures are reliable, and no answer was wrong."
	case worst == result.Note:
		return "The figures are usable, with the notes below."
	case unreliable && r.IsWrong():
		return "The figures are not reliable, and answers or books are wrong."
	case unreliable:
		return "The figures are not reliable."
	}
	return "Answers or books are wrong."
}

func tileOf(s *result.Side) tile {
	answers, seconds, cost := s.Answers(), 0.0, result.Cost{}
	for i := range s.Phases {
		longest := 0.0
		for j := range s.Phases[i].Classes {
			longest = max(longest, s.Phases[i].Classes[j].Seconds)
		}
		seconds += longest
		cost = cost.Plus(s.Phases[i].Cost)
	}
	t := tile{Side: s.Name}
	add := func(name, value string) { t.Facts = append(t.Facts, fact{name, value}) }
	rate := "–"
	if seconds > 0 {
		rate = chart.Number(float64(answers.Operations)/seconds) + "/s"
	}
	add("operations", limitarg.Grouped(answers.Operations))
	add("throughput", rate)
	add("latency p50", quantile(s, func(l *result.Latency) result.Milliseconds { return l.P50 }))
	add("latency p99", quantile(s, func(l *result.Latency) result.Milliseconds { return l.P99 }))
	add("admitted", share(answers.Admitted, answers.Operations))
	add("refused", share(answers.Refused, answers.Operations))
	add("without an answer", share(answers.Errors(), answers.Operations))
	add("per million", dollars(cost.Per(answers.Operations).Dollars*million))
	wrong := "not judged"
	if s.Wrong != nil {
		wrong = limitarg.Grouped(s.Wrong.Answers())
	}
	add("wrong answers", wrong)
	return t
}

const million = 1e6

// quantile is the range of a quantile over all phases and classes with operations.
func quantile(s *result.Side, of func(*result.Latency) result.Milliseconds) string {
	var all []result.Milliseconds
	for i := range s.Phases {
		for j := range s.Phases[i].Classes {
			if c := &s.Phases[i].Classes[j]; c.Answers.Operations > 0 {
				all = append(all, of(&c.Latency))
			}
		}
	}
	if len(all) == 0 {
		return "–"
	}
	low, high := slices.Min(all), slices.Max(all)
	if low == high {
		return milliseconds(low)
	}
	return milliseconds(low) + " to " + milliseconds(high)
}

// milliseconds writes a latency.
func milliseconds(m result.Milliseconds) string {
	const second = 1000
	switch {
	case m >= second:
		return chart.Number(float64(m)/second) + " s"
	case m < 1 && m > 0:
		return chart.Number(float64(m)*second) + " µs"
	}
	return chart.Number(float64(m)) + " ms"
}

// share writes a part of a whole in percent.
func share(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	const percent = 100
	return chart.Number(percent*result.Share(part, whole)) + " %"
}

// dollars writes a price with at least two digits after the point.
func dollars(v float64) string {
	const cent, digits, precise = 0.1, 2, 3
	if v >= cent || v == 0 {
		return "$" + strconv.FormatFloat(v, 'f', digits, 64)
	}
	return "$" + strconv.FormatFloat(v, 'g', precise, 64)
}

// ratio is the ratio to the first side, "" for that side itself.
func ratio(v, first float64, isFirst bool) string {
	if isFirst || first == 0 {
		return ""
	}
	return "× " + chart.Number(v/first)
}

// plain are cells without smaller texts.
func plain(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, t := range texts {
		cells[i].Text = t
	}
	return cells
}

// add adds a row, or counts it.
func (t *table) add(row []cell) {
	if len(t.Rows) >= maxRows {
		t.Left++
		return
	}
	t.Rows = append(t.Rows, row)
}

// names joins what identifies a row, without what is empty.
func names(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}
