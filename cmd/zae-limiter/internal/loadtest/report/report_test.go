package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/report"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/resulttest"
)

// attack is a run of three sides, two phases and two classes.
func attack() *result.Result {
	return resulttest.New(resulttest.Run{
		Noise: 0.1, Correlation: 0.5,
		Sides:  []resulttest.Side{{Name: "bare", Bare: true, Slower: 3}, {Name: "limiter"}, {Name: "shared", Slower: 1.1}},
		Phases: []resulttest.Phase{{Name: "quiet", Seconds: 30}, {Name: "attack", Seconds: 30}},
		Classes: []resulttest.Class{
			{Name: "Neighbours", Rate: 100, Refused: 0.1},
			{Name: "Attacker", Rate: 300, Throttled: 0.1, Median: 20, Spread: 0.8, Only: "attack"},
		},
	})
}

// write returns the page of a result.
func write(t *testing.T, r *result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An element is what a test asks of the page.
type element struct {
	name, id, class string
	words           strings.Builder
}

// text is that of the element and what it contains, with one space between words.
func (e *element) text() string { return strings.Join(strings.Fields(e.words.String()), " ") }

// parse reads a page, which must be well formed apart from void elements and attributes
// without a value.
func parse(t *testing.T, page string) (all []*element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var open []*element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			for _, outer := range open {
				outer.words.WriteByte(' ')
			}
			of := &element{name: e.Name.Local}
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "id":
					of.id = a.Value
				case "class":
					of.class = a.Value
				case "src", "href", "onload", "onclick":
					t.Errorf("%s has %s=%q: the page loads something or runs a script", of.name, a.Name.Local, a.Value)
				}
			}
			all, open = append(all, of), append(open, of)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, of := range open {
				of.words.Write(e)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("%d elements are not closed", len(open))
	}
	return all
}

// texts are the texts of the elements of a name.
func texts(all []*element, name string) (found []string) {
	for _, e := range all {
		if e.name == name {
			found = append(found, e.text())
		}
	}
	return found
}

func section(t *testing.T, all []*element, id string) string {
	t.Helper()
	for _, e := range all {
		if e.id == id {
			return e.text()
		}
	}
	t.Fatalf("there is no section %s", id)
	return ""
}

// The page has every part, and the figures of the result.
func TestThePageHasEveryPart(t *testing.T) {
	t.Parallel()
	r := attack()
	all := parse(t, write(t, r))
	want := []string{
		"The figures are usable, with the notes below.", "Figures", "Over time", "Distribution of latencies",
		"Limits: admitted against entitled", "Cost", "Item writes and throttles", "The run",
	}
	if got := texts(all, "h2"); !slices.Equal(got, want) {
		t.Errorf("the headings are %q, want %q", got, want)
	}
	var kinds []string
	for _, h := range texts(all, "h3") {
		if strings.Contains(h, "time") || strings.Contains(h, "Rate") {
			kinds = append(kinds, h)
		}
	}
	if want := []string{
		"Latency over time", "Outcomes over time", "Rate asked and done", "Capacity over time", "Price over time",
		"Writes throttled over time", "Users over time", "Shards over time", "Lag of the generator over time",
	}; !slices.Equal(kinds, want) {
		t.Errorf("the charts are %q, want %q", kinds, want)
	}
	// Nine kinds of charts over time for each of three sides, three distributions, and one
	// each of limits, cost and reasons.
	if got := len(texts(all, "svg")); got != 9*3+3+3 {
		t.Errorf("%d charts", got)
	}
	run := section(t, all, "run")
	for _, text := range []string{
		"gateway", "an engine in this process", "linux/amd64, 2 processors", "v1.2.3", "4 March 2026, 05:06:07 UTC", "Seed 7", "Limiters 2", "load-1", "us-east-1, 2026-01-01",
	} {
		if !strings.Contains(run, text) {
			t.Errorf("the section of the run has no %q: %s", text, run)
		}
	}
	figures := section(t, all, "figures")
	for _, s := range r.Sides {
		c := s.Phases[1].Classes[1]
		if text := fmt.Sprintf("attack Attacker %s 30 %s", s.Name, grouped(c.Due)); !strings.Contains(figures, text) {
			t.Errorf("the figures have no %q: %s", text, figures)
		}
	}
	if n := strings.Count(figures, "×"); n != 1+3*2*6 { // in the text, and for two sides in three places
		t.Errorf("%d ratios", n)
	}
	if !strings.Contains(section(t, all, "writes"), "TableWriteKeyRangeThroughputExceeded, side limiter") {
		t.Error("the reasons of throttled writes are missing")
	}
	if len(texts(all, "details")) != 3 {
		t.Error("the samples of each side are missing")
	}
	for _, name := range []string{"script", "link", "img", "iframe"} {
		if len(texts(all, name)) > 0 {
			t.Errorf("the page has an element %s", name)
		}
	}
}

func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	if len(s) > 3 {
		s = s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return s
}

// The page says first whether the figures hold and the answers are right.
func TestTheJudgement(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*result.Result)
		title  string
		class  string
		texts  []string
	}{
		{
			"good", func(*result.Result) {}, "The figures are reliable, and no answer was wrong.", "verdict good",
			[]string{"no wrong answers", "the books balance with the table", "every operation was answered"},
		},
		{
			"interrupted", func(r *result.Result) { r.Interrupted = true }, "The figures are usable, with the notes below.", "verdict note",
			[]string{"The run was interrupted"},
		},
		{
			"errors", func(r *result.Result) {
				a := &r.Sides[0].Phases[0].Classes[0].Answers
				a.Failed, a.FirstError = 1234, "it broke"
			}, "The figures are usable, with the notes below.", "verdict note",
			[]string{"1,234 of", "0 throttled, 0 unavailable, 1,234 other errors. The first: it broke"},
		},
		{
			"not compared", func(r *result.Result) { r.Sides[0].Balance = nil }, "The figures are usable, with the notes below.", "verdict note",
			[]string{"the books could not be compared"},
		},
		{
			"some not compared", func(r *result.Result) { r.Sides[0].Balance.Expired = 3 }, "The figures are usable, with the notes below.", "verdict note",
			[]string{"3 buckets whose items expired"},
		},
		{
			"wrong answers", func(r *result.Result) { r.Sides[0].Wrong.Refusals = 2 }, "Answers or books are wrong.", "verdict serious",
			[]string{"2 wrong answers: 0 tokens admitted beyond the entitlement, 2 refusals"},
		},
		{
			"wrong books", func(r *result.Result) { r.Sides[0].Balance.Wrong, r.Sides[0].Balance.FirstWrong = 1, "tenants-1 rpm" }, "Answers or books are wrong.", "verdict serious",
			[]string{"the books do not balance", "The first: tenants-1 rpm"},
		},
		{
			"unreliable", func(r *result.Result) { r.Unreliable = "it was 9 ms late" }, "The figures are not reliable.", "verdict serious",
			[]string{"it was 9 ms late"},
		},
		{
			"unreliable and wrong", func(r *result.Result) { r.Unreliable, r.Sides[0].Wrong.Beyond = "late", 1 }, "The figures are not reliable, and answers or books are wrong.", "verdict serious",
			[]string{"1 wrong answers"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := resulttest.New(resulttest.Run{})
			tt.change(r)
			all := parse(t, write(t, r))
			if got := texts(all, "h2")[0]; got != tt.title {
				t.Errorf("%q, want %q", got, tt.title)
			}
			judgement := section(t, all, "verdict")
			for _, text := range tt.texts {
				if !strings.Contains(judgement, text) {
					t.Errorf("no %q in %q", text, judgement)
				}
			}
			if !slices.ContainsFunc(all, func(e *element) bool { return e.class == tt.class }) {
				t.Errorf("no element has the class %q", tt.class)
			}
		})
	}
}

// Text of the result is text in the page, whatever it contains.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	const name = `<script>alert("x")</script></title></style>&amp;'`
	r := attack()
	r.Scenario, r.About, r.Version, r.Target, r.Machine, r.Namespace, r.Prices, r.Unreliable = name, name, name, name, name, name, name, name
	for i := range r.Sides {
		s := &r.Sides[i]
		s.Name = name + s.Name
		s.Balance = &result.Balance{Wrong: 1, FirstWrong: name}
		for j := range s.Limits {
			s.Limits[j] = result.LimitUse{Population: name, Resource: name, Limit: name, Demanded: 1, Entitled: 1, Admitted: 1}
		}
		for j := range s.Phases {
			p := &s.Phases[j]
			p.Name = name + p.Name
			for k := range p.Classes {
				p.Classes[k].Name = name + p.Classes[k].Name
				p.Classes[k].Answers.FirstError = name
				p.Classes[k].Answers.Failed = 1
			}
			for k := range p.Populations {
				p.Populations[k].Name = name
				p.Populations[k].Writes.Reasons = map[string]int64{name: 3}
			}
		}
	}
	page := write(t, r)
	all := parse(t, page)
	if strings.Contains(page, "<script") || len(texts(all, "style")) != 1 || len(texts(all, "title")) < 1 {
		t.Error("a name ends an element or begins a script")
	}
	if got := texts(all, "h1"); len(got) != 1 || got[0] != name {
		t.Errorf("the heading is %q", got)
	}
}

// A result with nothing in it, or with parts missing, gives a page without NaN.
func TestEmptyResults(t *testing.T) {
	t.Parallel()
	empty := resulttest.New(resulttest.Run{Classes: []resulttest.Class{{Name: "Users"}}, Phases: []resulttest.Phase{{Name: "all", Seconds: 5}}})
	short := resulttest.New(resulttest.Run{Phases: []resulttest.Phase{{Name: "all", Seconds: 1}}})
	zero := resulttest.New(resulttest.Run{})
	for i := range zero.Sides[0].Samples {
		zero.Sides[0].Samples[i].Seconds = 0
	}
	for name, r := range map[string]*result.Result{
		"nothing":       {Format: result.Format, Scenario: "s"},
		"a side":        {Format: result.Format, Scenario: "s", Sides: []result.Side{{Name: "limiter"}}},
		"no operations": empty, "one second": short, "no time": zero,
		"a sample of no phase": {Format: result.Format, Scenario: "s", Sides: []result.Side{{Name: "limiter", Samples: []result.Sample{{Phase: 3, Seconds: 1, Done: 1, Due: 1, P50: 1}}}}},
	} {
		page := write(t, r)
		parse(t, page)
		for _, bad := range []string{"NaN", "Inf", "%!", "&lt;nil"} {
			if strings.Contains(page, bad) {
				at := strings.Index(page, bad)
				t.Errorf("%s: the page has %s: %s", name, bad, page[max(0, at-100):at+50])
			}
		}
	}
	if got := texts(parse(t, write(t, empty)), "h2")[0]; got != "The figures are not reliable." {
		t.Errorf("a run without an answer: %q", got)
	}
}

// A day has 86,400 samples; the page merges them, says so, and loses no operation and no
// peak.
func TestADay(t *testing.T) {
	t.Parallel()
	r := resulttest.New(resulttest.Run{
		Noise: 0.3, Correlation: 0.99, Trend: 3,
		Classes: []resulttest.Class{{Name: "Users", Rate: 2}}, Phases: []resulttest.Phase{{Name: "morning", Seconds: 30000}, {Name: "evening", Seconds: 56400}},
	})
	r.Sides[0].Samples[41234].P99 = 123456 // the tooltip of the point shows it, or the table
	page := write(t, r)
	if len(page) > 1_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	all := parse(t, page)
	if !strings.Contains(section(t, all, "time"), "Samples are merged into about 600 points") {
		t.Error("the page does not say that samples are merged")
	}
	if !strings.Contains(page, "123 s") {
		t.Error("the greatest p99 is missing")
	}
	summary := texts(all, "summary")[0]
	var rows int
	if _, err := fmt.Sscanf(summary, "Samples of side limiter: %d rows", &rows); err != nil || rows < 500 || rows > 700 {
		t.Errorf("%q", summary)
	}
	sums := map[string]int64{}
	for _, cells := range regexp.MustCompile(`<tr><td class="name">(morning|evening)</td>(?:<td>[^<]*</td>){2}<td>([0-9,]+)</td>`).FindAllStringSubmatch(page, -1) {
		var n int64
		_, _ = fmt.Sscan(strings.ReplaceAll(cells[2], ",", ""), &n)
		sums[cells[1]] += n
	}
	for _, p := range r.Sides[0].Phases {
		if due := p.Classes[0].Due; sums[p.Name] != due {
			t.Errorf("the samples of the %s have %d operations due, want %d", p.Name, sums[p.Name], due)
		}
	}
	if page := write(t, resulttest.New(resulttest.Run{})); strings.Contains(page, "are merged") {
		t.Error("samples of a minute are not merged")
	}
}

// Many phases, classes and limits do not make the page arbitrarily large.
func TestALargeResult(t *testing.T) {
	t.Parallel()
	run := resulttest.Run{}
	for i := range 50 {
		run.Phases = append(run.Phases, resulttest.Phase{Name: fmt.Sprint("phase-", i), Seconds: 2})
		run.Classes = append(run.Classes, resulttest.Class{Name: fmt.Sprint("class-", i), Rate: 2})
	}
	r := resulttest.New(run)
	for i := range 1000 {
		r.Sides[0].Limits = append(r.Sides[0].Limits, result.LimitUse{Population: strconv.Itoa(i), Demanded: 1, Entitled: 1})
	}
	page := write(t, r)
	if len(page) > 1_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	all := parse(t, page)
	if got := section(t, all, "figures"); !strings.Contains(got, "2100 more rows are in the result’s file.") {
		t.Errorf("the page does not say what is left out: %s", got[len(got)-100:])
	}
	missing := -12
	for _, p := range r.Sides[0].Phases {
		for _, c := range p.Classes {
			if c.Answers.Operations > 0 {
				missing++
			}
		}
	}
	if got := section(t, all, "latencies"); !strings.Contains(got, strconv.Itoa(missing)+" more are in the result’s file.") {
		t.Errorf("the page does not say what is left out: %s", got[:200])
	}
}

// The last interval of a phase may be short. Its operations belong to the one before.
func TestAShortInterval(t *testing.T) {
	t.Parallel()
	r := resulttest.New(resulttest.Run{})
	r.Sides[0].Samples = append(r.Sides[0].Samples, result.Sample{At: 60, Seconds: 0.01, Due: 1, Done: 100_000, Admitted: 100_000, P50: 1, P99: 2, P999: 3})
	if page := write(t, r); !strings.Contains(page, "60 rows") || strings.Contains(page, "10 M") {
		t.Error("an interval of 10 ms has a point of its own")
	}
}

// failing is a writer that fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("the disk is full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestTheErrorOfTheWriter(t *testing.T) {
	t.Parallel()
	if err := report.HTML(&failing{5000}, attack()); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

// A distribution has all operations, in the bins of their latencies.
func TestDistribution(t *testing.T) {
	t.Parallel()
	r := resulttest.New(resulttest.Run{})
	c := &r.Sides[0].Phases[0].Classes[0]
	c.Latency.Histogram = []result.Bin{{UpTo: 1, Count: 300}, {UpTo: 10, Count: 100}}
	page := write(t, r)
	chart := page[strings.Index(page, `id="latencies"`):]
	chart = chart[:strings.Index(chart, "</figure>")]
	shares, sum := map[string]float64{}, 0.0
	for _, m := range regexp.MustCompile(`([0-9.]+) to ([0-9.]+) ms \(logarithmic\)\nlimiter: ([0-9.]+)<`).FindAllStringSubmatch(chart, -1) {
		var share float64
		_, _ = fmt.Sscan(m[3], &share)
		shares[m[2]], sum = share, sum+share
	}
	if shares["1"] != 75 || shares["10"] != 25 || sum != 100 {
		t.Errorf("%v", shares)
	}
}

// The charts of one kind have the same axes on every side, so that their heights compare.
func TestSidesHaveTheSameAxes(t *testing.T) {
	t.Parallel()
	page := write(t, attack())
	from := strings.Index(page, "<h3>Latency over time</h3>")
	page = page[from : from+strings.Index(page[from:], "</section>")]
	var ticks []string
	for chart := range strings.SplitSeq(page, "<figure>") {
		var of []string
		for _, m := range regexp.MustCompile(`<text class="end"[^>]*>([^<]*)<`).FindAllStringSubmatch(chart, -1) {
			of = append(of, m[1])
		}
		ticks = append(ticks, strings.Join(of, " "))
	}
	if len(ticks) != 4 || ticks[1] == "" || ticks[1] != ticks[2] || ticks[1] != ticks[3] {
		t.Errorf("the ticks are %q", ticks)
	}
}
