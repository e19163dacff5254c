package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/report"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// herd is a swarm of a minute with two kinds of requests.
func herd() *swarm.Result {
	r := &swarm.Result{
		Format: swarm.Format, Started: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC), Users: 40, SpawnRate: 4, Classes: []string{"Reader", "Writer"},
		Seconds: 60, LeastUsers: 38, MostUsers: 40, LeastWorkers: 2, MostWorkers: 2,
		Requests: []swarm.Request{
			{Method: "ACQUIRE", Name: "gpt-4o", Requests: 18_000, Failures: 180, Mean: 7.25, P50: 7, P95: 12, P99: 31, Max: 1400, PerSecond: 300},
			{Method: "COMMIT", Name: "gpt-4o", Requests: 6000, Mean: 5, P50: 5, P95: 9, P99: 20, Max: 90, PerSecond: 100},
			{Method: "AVAILABLE", Name: "never"},
		},
		Total:  swarm.Request{Requests: 24_000, Failures: 180, Mean: 6.7, P50: 6, P95: 11, P99: 29, Max: 1400, PerSecond: 400},
		Errors: []swarm.Error{{Method: "ACQUIRE", Name: "gpt-4o", Error: "throttled", Occurrences: 180}},
	}
	for i := range 30 {
		r.Samples = append(r.Samples, swarm.Sample{
			At: float64(2 * i), Users: 38 + i/15, Workers: 2, PerSecond: 400, FailedPerSecond: float64(i % 3), P50: float64(6 * min(i, 1)), P95: 11,
		})
	}
	return r
}

func writeSwarm(t *testing.T, r *swarm.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.Swarm(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageOfASwarmHasEveryPart(t *testing.T) {
	t.Parallel()
	page := writeSwarm(t, herd())
	all := parse(t, page)
	for _, id := range []string{"verdict", "requests", "time", "errors", "run"} {
		if section(t, all, id) == "" {
			t.Errorf("there is no section %s", id)
		}
	}
	for _, want := range []string{
		"Reader, Writer", "24,000", "400/s", "0.75 %", "29 ms", "1.4 s", "180", "throttled", "RATE_LIMITED", "38 to 40", "2 to 2", "40, 4 a second",
		"Locust rounds quantiles", "Nothing here says whether the answers are right",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "<svg"); n != 4 {
		t.Errorf("%d charts, want times, requests, users and workers", n)
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "<script") || strings.Contains(page, "http") {
		t.Error("the page has NaN, a script or an address")
	}
}

func TestTheJudgementOfASwarm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*swarm.Result)
		want   string
		weight string
	}{
		"complete":      {func(*swarm.Result) {}, "0.75 % of the requests failed.", "note"},
		"interrupted":   {func(r *swarm.Result) { r.Interrupted = true }, "The run was interrupted", "serious"},
		"ended early":   {func(r *swarm.Result) { r.EndedEarly = true }, "The test ended before its time", "serious"},
		"a shape ended": {func(r *swarm.Result) { r.EndedEarly, r.Shape = true, "Spike" }, "Spike", "note"},
		"replacements":  {func(r *swarm.Result) { r.MostWorkers = 3 }, "Between 2 and 3 workers were connected.", "note"},
		"nothing":       {func(r *swarm.Result) { *r = swarm.Result{} }, "The workers reported no request.", "serious"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := herd()
			c.change(r)
			page := writeSwarm(t, r)
			parse(t, page)
			if !strings.Contains(page, c.want) || !strings.Contains(page, `<section class="verdict `+c.weight+`"`) || strings.Contains(page, "NaN") {
				t.Errorf("the page lacks %q, or is not %s:\n%.2500s", c.want, c.weight, page[strings.Index(page, "<header>"):])
			}
		})
	}
}

// Text of the result is text in the page, whatever it contains.
func TestHostileNamesOfASwarm(t *testing.T) {
	t.Parallel()
	const name = `<script>alert("x")</script></title></style>&amp;'`
	r := herd()
	r.Classes, r.Shape = []string{name}, name
	r.Requests[0].Method, r.Requests[0].Name = name, name
	r.Errors[0] = swarm.Error{Method: name, Name: name, Error: name, Occurrences: 1}
	page := writeSwarm(t, r)
	all := parse(t, page)
	if strings.Contains(page, "<script") || len(texts(all, "style")) != 1 {
		t.Error("a name ends an element or begins a script")
	}
	if got := texts(all, "h1"); len(got) != 1 || got[0] != name {
		t.Errorf("the heading is %q", got)
	}
}
