package chart_test

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
)

// A drawn is a chart read back.
type drawn struct {
	wide, high float64
	label      string
	texts      []string // in order
	titles     []string
	lines      []string // paths of series
	areas      []string
	rects      int
}

// number matches a coordinate.
var number = regexp.MustCompile(`-?[0-9.]+(e[-+]?[0-9]+)?`)

// read parses a chart, and fails unless it is well formed and every coordinate is a number
// within the view box.
func read(tb testing.TB, svg template.HTML) drawn {
	tb.Helper()
	var d drawn
	var inside []string
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	var element xml.StartElement
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			tb.Fatalf("%v in %s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inside = append(inside, e.Name.Local)
			d.element(tb, e)
			element = e
		case xml.EndElement:
			inside = inside[:len(inside)-1]
		case xml.CharData:
			switch inside[len(inside)-1] {
			case "text":
				d.texts = append(d.texts, string(e))
				d.isWithin(tb, element, string(e))
			case "title":
				d.titles = append(d.titles, string(e))
			}
		}
	}
	return d
}

func (d *drawn) element(tb testing.TB, e xml.StartElement) {
	tb.Helper()
	attr := map[string]string{}
	for _, a := range e.Attr {
		attr[a.Name.Local] = a.Value
	}
	switch e.Name.Local {
	case "svg":
		box := number.FindAllString(attr["viewBox"], -1)
		d.wide, d.high, d.label = parse(tb, box[2]), parse(tb, box[3]), attr["aria-label"]
		if attr["role"] != "img" {
			tb.Errorf("the role is %q", attr["role"])
		}
	case "path":
		if strings.ContainsAny(attr["d"], "NI") { // NaN, Inf
			tb.Errorf("a path has no number: %s", attr["d"])
		}
		for _, n := range number.FindAllString(attr["d"], -1) {
			if v := parse(tb, n); v < 0 || v > max(d.wide, d.high) {
				tb.Errorf("%v is outside of the view box: %s", v, attr["d"])
			}
		}
		switch kind, _, _ := strings.Cut(attr["class"], " "); kind {
		case "line":
			d.lines = append(d.lines, attr["d"])
		case "area":
			d.areas = append(d.areas, attr["d"])
		}
	case "rect":
		d.rects++
		x, y := parse(tb, attr["x"]), parse(tb, attr["y"])
		if w, h := parse(tb, attr["width"]), parse(tb, attr["height"]); x < 0 || y < 0 || x+w > d.wide+1 || y+h > d.high || w < 0 || h < 0 {
			tb.Errorf("a rectangle is outside of the view box: %v", attr)
		}
	}
}

// isWithin fails if an edge cuts a text off.
func (d *drawn) isWithin(tb testing.TB, e xml.StartElement, text string) {
	tb.Helper()
	attr := map[string]string{}
	for _, a := range e.Attr {
		attr[a.Name.Local] = a.Value
	}
	const character = 6 // wide, about
	wide := character * float64(len([]rune(text)))
	if attr["transform"] != "" || wide > d.wide {
		return
	}
	left := parse(tb, attr["x"])
	switch anchor, _, _ := strings.Cut(attr["class"], " "); anchor {
	case "middle":
		left -= wide / 2
	case "end":
		left -= wide
	}
	if left < 0 || left+wide > d.wide {
		tb.Errorf("the text %q is from %v to %v of %v", text, left, left+wide, d.wide)
	}
}

func parse(tb testing.TB, s string) float64 {
	tb.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func lines(y ...float64) chart.Lines {
	l := chart.Lines{Title: "Latency", Text: "Of all.", X: chart.Axis{Label: "time", Time: true}, Y: chart.Axis{Label: "ms"}}
	for i := range y {
		l.At = append(l.At, float64(i))
	}
	l.Series = []chart.Series{{Name: "p99", Class: "a", Y: y}}
	return l
}

// The texts of a chart are its legend, the ticks of both axes and their labels.
func TestAxes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		line chart.Lines
		want []string
	}{
		{"linear", lines(0, 7, 3), []string{"p99", "0", "2", "4", "6", "8", "0 s", "1 s", "2 s", "time", "ms"}},
		{"thousands", lines(0, 23456, 0), []string{"p99", "0", "5,000", "10,000", "15,000", "20,000", "25,000", "0 s", "1 s", "2 s", "time", "ms"}},
		{"all zero", lines(0, 0), []string{"p99", "0", "0.2", "0.4", "0.6", "0.8", "1", "0 s", "1 s", "time", "ms"}},
		{"logarithmic", func() chart.Lines {
			l := lines(3, 90, 40)
			l.Y.Log = true
			return l
		}(), []string{"p99", "2", "5", "10", "20", "50", "100", "0 s", "1 s", "2 s", "time", "ms"}},
		{"many decades", func() chart.Lines {
			l := lines(0.2, 4000)
			l.Y.Log = true
			return l
		}(), []string{"p99", "1", "10", "100", "1,000", "0 s", "1 s", "time", "ms"}},
		{"a day", func() chart.Lines {
			l := lines(1, 1)
			l.At[1] = 86400
			return l
		}(), []string{"p99", "0", "0.2", "0.4", "0.6", "0.8", "1", "0 h", "3 h", "6 h", "9 h", "12 h", "15 h", "18 h", "21 h", "24 h", "time", "ms"}},
		{"minutes, as long as another chart", func() chart.Lines {
			l := lines(1, 1)
			l.X.Max, l.Y.Max = 300, 4
			return l
		}(), []string{"p99", "0", "1", "2", "3", "4", "0 min", "1 min", "2 min", "3 min", "4 min", "5 min", "time", "ms"}},
	} {
		d := read(t, tt.line.SVG())
		if diff := cmp.Diff(tt.want, d.texts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// The text alternative says what is drawn, and the range of each series.
func TestTextAlternative(t *testing.T) {
	t.Parallel()
	d := read(t, lines(4, math.NaN(), 7.5).SVG())
	if want := "Latency. Of all. p99: from 4 to 7.5."; d.label != want {
		t.Errorf("%q, want %q", d.label, want)
	}
	if want := []string{"Latency", "at 0 s\np99: 4", "at 1 s", "at 2 s\np99: 7.5"}; !slices.Equal(d.titles, want) {
		t.Errorf("%q, want %q", d.titles, want)
	}
}

// A gap breaks a line, and a value between two gaps is seen.
func TestGaps(t *testing.T) {
	t.Parallel()
	d := read(t, lines(1, 2, math.NaN(), 2, math.NaN(), 1, 1).SVG())
	if path := d.lines[1]; strings.Count(path, "M") != 3 || strings.Count(path, "L") != 2 || strings.Count(path, "h1") != 1 {
		t.Errorf("%s", path)
	}
}

// Areas stand on one another: the sum is as high as the axis.
func TestStacks(t *testing.T) {
	t.Parallel()
	l := lines(1, 1)
	l.Stacked = true
	l.Series = append(l.Series, chart.Series{Name: "more", Class: "b", Y: []float64{3, 3}})
	d := read(t, l.SVG())
	// The highest area comes first. The plot is from 24 to 206, and the axis to 4.
	if want := []string{"M62 206L62 24L626 24L626 206Z", "M62 206L62 160.5L626 160.5L626 206Z"}; !slices.Equal(d.areas, want) {
		t.Errorf("%q, want %q", d.areas, want)
	}
}

// Names from elsewhere are texts, whatever they contain.
func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	const name = `</svg><script>alert("1")</script>&'`
	l := lines(1, 2)
	l.Title, l.Text, l.X.Label, l.Y.Label, l.Series[0].Name = name, name, name, name, name
	l.Marks = []chart.Mark{{At: 0, Name: name}}
	bars := chart.Bars{
		Title: name, Text: name, Unit: name, Key: []chart.Series{{Name: name}},
		Groups: []chart.Group{{Label: name, Bars: []chart.Bar{{Value: 1, Text: name}}}},
	}
	for what, svg := range map[string]template.HTML{
		"lines": l.SVG(), "bars": bars.SVG(), "columns": chart.Columns(name, name, []chart.Column{{Label: name, Mark: name, High: 1}}),
		"spark": chart.Spark(name, []chart.Column{{Label: name, High: 1}}),
	} {
		d := read(t, svg)
		if strings.Contains(string(svg), "<script") {
			t.Errorf("%s: %s", what, svg)
		}
		if !slices.Contains(d.texts, name) && !slices.Contains(d.titles, name) {
			t.Errorf("%s do not show the name", what)
		}
	}
}

// Whatever the values are, every coordinate is within the picture.
func TestEveryChartIsWithinItsBox(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Float64Range(0, 1e-9), rapid.Float64Range(0, 1e-300), rapid.SampledFrom([]float64{0, 1, math.NaN(), 5e-324, 1e300}))
		n := rapid.IntRange(0, 300).Draw(r, "points")
		l := chart.Lines{
			Title: "t", Stacked: rapid.Bool().Draw(r, "stacked"),
			X: chart.Axis{Time: rapid.Bool().Draw(r, "time")}, Y: chart.Axis{Log: rapid.Bool().Draw(r, "log"), Max: rapid.Float64Range(0, 100).Draw(r, "max")},
		}
		step := rapid.Float64Range(0.01, 10000).Draw(r, "step")
		for i := range n {
			l.At = append(l.At, float64(i)*step)
		}
		for range rapid.IntRange(0, 8).Draw(r, "series") {
			s := chart.Series{Name: rapid.StringN(0, 40, -1).Filter(isText).Draw(r, "name"), Class: "a"}
			for range n {
				v := value.Draw(r, "value")
				if l.Stacked && math.IsNaN(v) {
					v = 0
				}
				s.Y = append(s.Y, v)
			}
			l.Series = append(l.Series, s)
		}
		if n > 0 {
			l.Marks = []chart.Mark{{At: 0, Name: "first"}, {At: l.At[n-1], Name: "last"}}
		}
		if d := read(t, l.SVG()); d.rects > 110 {
			t.Errorf("%d columns show values", d.rects)
		}
		b := chart.Bars{Title: "t", Unit: "u"}
		for range rapid.IntRange(0, 5).Draw(r, "groups") {
			b.Groups = append(b.Groups, chart.Group{Label: "g", Bars: []chart.Bar{{Class: "a", Value: rapid.Float64Range(0, 1e9).Draw(r, "bar")}}})
		}
		read(t, b.SVG())
	})
}

// isText reports whether XML can have a name.
func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '�' || r > 0xFFFD })
}

// Bars are as long as their values, and a value of 0 is seen.
func TestBars(t *testing.T) {
	t.Parallel()
	svg := string(chart.Bars{Title: "Cost", Unit: "dollars", Groups: []chart.Group{
		{Label: "quiet", Bars: []chart.Bar{{Class: "a", Value: 2}, {Class: "b", Value: 1}, {Class: "c", Value: 0, Text: "none"}}},
	}}.SVG())
	d := read(t, template.HTML(svg))
	for _, want := range []string{`width="440"`, `width="220"`, `width="1"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no bar has %s", want)
		}
	}
	if want := []string{"0", "0.5", "1", "1.5", "2", "dollars", "quiet", "2", "1", "none"}; !slices.Equal(d.texts, want) {
		t.Errorf("%q, want %q", d.texts, want)
	}
}

// Columns stand on a scale with round ticks; a value that is not 0 is seen.
func TestColumns(t *testing.T) {
	t.Parallel()
	of := []chart.Column{{Label: "first", High: 1000, Hot: 500}, {Label: "second", Mark: "2 s", High: 1}, {}}
	svg := string(chart.Columns("Waits", "", of))
	for _, want := range []string{
		`<rect class="all" x="62.00" y="8.00" width="169.20" height="120.00"/>`, `<rect class="hot" x="62.00" y="68.00" width="169.20" height="60.00"/>`,
		`<rect class="all" x="250.00" y="127.00" width="169.20" height="1.00"/>`, `<text class="middle" x="344" y="143">2 s</text>`,
		`<text class="end" x="56" y="11">1,000</text>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
	if d := read(t, template.HTML(svg)); d.rects != 3 || !slices.Equal(d.titles, []string{"Waits", "first", "second"}) {
		t.Errorf("%+v", d)
	}
	read(t, chart.Columns("none", "", nil))
	for _, n := range []int{1, 8, 120} { // the first and the last mark stand at the edges
		of := make([]chart.Column, n)
		for i := range of {
			of[i] = chart.Column{Mark: "30 Nov 2026 09:15:27", High: 1e15}
		}
		read(t, chart.Columns("marks", "", of))
	}
}

// Columns in a line of text use all of its height, and have no scale.
func TestSpark(t *testing.T) {
	t.Parallel()
	svg := string(chart.Spark("Refused", []chart.Column{{Label: "first", Mark: "1 s", High: 10}, {High: 5}}))
	for _, want := range []string{`<rect class="all" x="0.00" y="0.00" width="324.00" height="100.00"/>`, `<rect class="all" x="360.00" y="50.00" width="324.00" height="50.00"/>`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
	if d := read(t, template.HTML(svg)); len(d.texts) > 0 {
		t.Errorf("%+v", d)
	}
	read(t, chart.Spark("none", nil))
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.1234: "0.123", 12.345: "12.3", 999.6: "1,000", 1234.5: "1,235", 123456: "123,456", 1234567: "1.23 M", 5e9: "5 G", 12e9: "12 G",
		-2.5: "-2.5", 1e-9: "1e-09", 1e20: "1e+20", math.Inf(1): "–",
	} {
		if got := chart.Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := chart.Number(math.NaN()); got != "–" {
		t.Errorf("NaN is %q", got)
	}
}

// Every class that the charts use has a style, in the light and in the dark scheme.
func TestStyle(t *testing.T) {
	t.Parallel()
	light, dark, ok := strings.Cut(string(chart.Style), "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	for _, class := range []string{"a", "b", "c", "d", "e", "f", "ok", "refused", "throttled", "unavailable", "failed"} {
		if !strings.Contains(light, "--"+class+":") || !strings.Contains(dark, "--"+class+":") || !strings.Contains(dark, ".area."+class+" ") {
			t.Errorf("class %s has no style", class)
		}
	}
}
