package cli_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/deploy"
)

// A widget is what the dashboard of the template says of one of its charts.
type widget struct {
	Width      int
	Properties struct {
		Title   string
		Stat    string
		Metrics [][]any
	}
}

// dashboard is the dashboard of the template, for a stack called limits.
func dashboard(t *testing.T) (widgets []widget) {
	t.Helper()
	s, err := deploy.New(deploy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(s.Source(), "DashboardBody: !Sub |\n")
	var of struct{ Widgets *[]widget }
	of.Widgets = &widgets
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&of); err != nil || !found || len(widgets) == 0 {
		t.Fatalf("read the dashboard: %v", err)
	}
	return widgets
}

// lines are the names of the lines that the chart draws. CloudFormation's "." repeats the
// field of the metric before, and a hidden metric is no line.
func (w *widget) lines() (names []string) {
	var before []string
	for _, m := range w.Properties.Metrics {
		var fields []string
		options := map[string]any{}
		for _, field := range m {
			switch field := field.(type) {
			case string:
				if field == "." {
					field = before[len(fields)]
				}
				fields = append(fields, strings.ReplaceAll(field, "${AWS::StackName}", "limits"))
			case map[string]any:
				options = field
			}
		}
		before = fields
		label, named := options["label"].(string)
		switch {
		case options["visible"] == false:
			continue
		case !named:
			label = fields[1] // of namespace, name, and the dimensions with their values
			if last := fields[len(fields)-1]; len(fields) > 4 {
				label = last
			}
			if slices.Contains(names, label) { // CloudWatch shows what tells two lines apart
				label += " " + fields[1]
			}
		}
		names = append(names, label)
	}
	return names
}

// boxes draws charts side by side, each as a box with its title and the names of its lines.
func boxes(row []widget) string {
	var text strings.Builder
	const columns = 5 // characters for each column of the dashboard
	height := 0
	for _, w := range row {
		height = max(height, len(w.lines()))
	}
	fill := func(s, with string, width int) string {
		return s + strings.Repeat(with, max(0, width-utf8.RuneCountInString(s)))
	}
	for y := -1; y <= height; y++ {
		for _, w := range row {
			inner := w.Width*columns - 2
			lines := w.lines()
			switch {
			case y < 0:
				text.WriteString("┌" + fill("─ "+w.Properties.Title+" ", "─", inner) + "┐")
			case y == height:
				text.WriteString("└" + fill("", "─", inner) + "┘")
			case y < len(lines):
				text.WriteString("│" + fill("  ─ "+lines[y], " ", inner) + "│")
			default:
				text.WriteString("│" + fill("", " ", inner) + "│")
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// The picture of the dashboard is drawn from its definition. Only AWS draws the dashboard
// itself.
func TestThePictureOfTheDashboard(t *testing.T) {
	t.Parallel()
	const columns = 24 // of a dashboard
	shown := &transcript{}
	fmt.Fprint(shown, "The layout of the dashboard, from the template. This is no screenshot.\n\n")
	var row []widget
	width := 0
	for _, w := range dashboard(t) {
		if width+w.Width > columns {
			fmt.Fprint(shown, boxes(row))
			row, width = nil, 0
		}
		row, width = append(row, w), width+w.Width
	}
	fmt.Fprint(shown, boxes(row))
	if err := shown.check("dashboard"); err != nil {
		t.Error(err)
	}
}
