package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

//go:embed swarm.html
var swarmSource string

// swarmPage is what the template of a swarm shows.
type swarmPage struct {
	*swarm.Result

	Title    string
	Styles   []template.CSS
	Worst    result.Weight
	Verdict  string
	Findings []result.Finding
	Tile     []fact
	Requests table
	Errors   table
	Over     []kind
}

var swarmLayout = sync.OnceValue(func() *template.Template {
	return template.Must(parse().New("swarm").Parse(swarmSource))
})

// Swarm writes the page of a test that ran on the workers of a Locust master. It has what the
// master's page has: no due instants, capacity, shards or books. It returns the errors of w.
func Swarm(w io.Writer, r *swarm.Result) error {
	p := swarmPage{
		Result: r, Title: "Users of a Locust master", Styles: []template.CSS{chart.Style, style},
		Findings: swarmFindings(r), Requests: swarmRequests(r), Errors: swarmErrors(r), Over: swarmOverTime(r),
	}
	if len(r.Classes) > 0 {
		p.Title = strings.Join(r.Classes, ", ")
	}
	if r.Shape != "" {
		p.Title = r.Shape
	}
	switch p.Worst = result.Worst(p.Findings); p.Worst {
	case result.Serious:
		p.Verdict = "The run is not complete."
	default:
		p.Verdict = "The figures are those of Locust, with the notes below."
	}
	all := &r.Total
	p.Tile = []fact{
		{"requests", limitarg.Grouped(all.Requests)},
		{"throughput", chart.Number(all.PerSecond) + "/s"},
		{"failures", share(all.Failures, all.Requests)},
		{"mean", locustTime(all, all.Mean)},
		{"p50", locustTime(all, all.P50)},
		{"p95", locustTime(all, all.P95)},
		{"p99", locustTime(all, all.P99)},
		{"longest", locustTime(all, all.Max)},
	}
	return swarmLayout().Execute(w, p)
}

// swarmFindings say how far the figures go.
func swarmFindings(r *swarm.Result) (all []result.Finding) {
	add := func(w result.Weight, format string, args ...any) {
		all = append(all, result.Finding{Weight: w, Text: fmt.Sprintf(format, args...)})
	}
	if r.Total.Requests == 0 {
		add(result.Serious, "The workers reported no request.")
	}
	if r.Interrupted {
		add(result.Serious, "The run was interrupted: these are the measurements so far.")
	}
	if r.EndedEarly && r.Shape == "" {
		add(result.Serious, "The test ended before its time: somebody stopped it, or its last worker left.")
	}
	if r.LeastWorkers < r.MostWorkers {
		add(result.Note, "Between %d and %d workers were connected.", r.LeastWorkers, r.MostWorkers)
	}
	if r.Total.Failures > 0 {
		add(result.Note, "%s of the requests failed.", share(r.Total.Failures, r.Total.Requests))
	}
	add(result.Note, "Users wait for their answers, so these times leave out the requests that would have come meanwhile. "+
		"Locust rounds quantiles to two digits. Nothing here says whether the answers are right: loadtest run compares them with the table.")
	return all
}

// locustTime is a time of requests, if there are any.
func locustTime(q *swarm.Request, ms float64) string {
	if q.Requests == 0 {
		return "–"
	}
	return milliseconds(result.Milliseconds(ms))
}

func swarmRequests(r *swarm.Result) table {
	t := table{Header: []string{"method", "name", "requests", "failures", "a second", "mean", "p50", "p95", "p99", "longest"}, Names: 2}
	row := func(q *swarm.Request, method string) {
		t.add(plain(method, q.Name, limitarg.Grouped(q.Requests), limitarg.Grouped(q.Failures), chart.Number(q.PerSecond),
			locustTime(q, q.Mean), locustTime(q, q.P50), locustTime(q, q.P95), locustTime(q, q.P99), locustTime(q, q.Max)))
	}
	row(&r.Total, "all")
	for i := range r.Requests {
		row(&r.Requests[i], r.Requests[i].Method)
	}
	return t
}

func swarmErrors(r *swarm.Result) table {
	t := table{Header: []string{"method", "name", "error", "times"}, Names: 3}
	for _, e := range r.Errors {
		t.add(plain(e.Method, e.Name, e.Error, limitarg.Grouped(e.Occurrences)))
	}
	return t
}

// swarmOverTime draws the charts of Locust's own page.
func swarmOverTime(r *swarm.Result) (all []kind) {
	series := func(name, class string, of func(*swarm.Sample) float64) chart.Series {
		s := chart.Series{Name: name, Class: class}
		for i := range r.Samples {
			s.Y = append(s.Y, of(&r.Samples[i]))
		}
		return s
	}
	at := series("", "", func(s *swarm.Sample) float64 { return s.At }).Y
	draw := func(title, note, unit string, lines ...chart.Series) {
		if len(at) < 2 || !hasValue(lines) {
			return
		}
		c := chart.Lines{
			Title: title, Text: note, X: chart.Axis{Label: "time since the start of the measurement", Time: true},
			Y: chart.Axis{Label: unit}, At: at, Series: lines,
		}
		all = append(all, kind{Title: title, Note: note, Figures: []figure{{"", c.SVG()}}})
	}
	quantile := func(of func(*swarm.Sample) float64) func(*swarm.Sample) float64 {
		return func(s *swarm.Sample) float64 {
			if v := of(s); v > 0 {
				return v
			}
			return math.NaN() // Locust has none
		}
	}
	draw("Response times over time", "Quantiles of the ten seconds before, from the start of a request to its end.", "ms",
		series("p50", "a", quantile(func(s *swarm.Sample) float64 { return s.P50 })),
		series("p95", "b", quantile(func(s *swarm.Sample) float64 { return s.P95 })))
	draw("Requests over time", "Requests and failures a second, of the ten seconds before.", "a second",
		series("requests", "ok", func(s *swarm.Sample) float64 { return s.PerSecond }),
		series("failures", "failed", func(s *swarm.Sample) float64 { return s.FailedPerSecond }))
	draw("Users over time", "Users that ran.", "users", series("users", "a", func(s *swarm.Sample) float64 { return float64(s.Users) }))
	draw("Workers over time", "Workers that were connected.", "workers",
		series("workers", "a", func(s *swarm.Sample) float64 { return float64(s.Workers) }))
	return all
}

// hasValue reports whether any of the lines is above 0.
func hasValue(lines []chart.Series) bool {
	for _, l := range lines {
		for _, v := range l.Y {
			if v > 0 {
				return true
			}
		}
	}
	return false
}
