package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
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
	s, err := deploy.New(deploy.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(s.Source(), "DashboardBody: !Sub\n        - |\n")
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
				fields = append(fields, strings.ReplaceAll(field, "${N}", "limits"))
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

// A box is a chart of a dashboard in a picture: its width in columns of 24, its title and the
// names of its lines.
type box struct {
	width int
	title string
	lines []string
}

// layout draws boxes in rows of 24 columns, each as many characters wide.
func layout(all []box, characters int) string {
	const columns = 24
	var text strings.Builder
	for len(all) > 0 {
		n, width := 0, 0
		for n < len(all) && width+all[n].width <= columns {
			width += all[n].width
			n++
		}
		text.WriteString(sideBySide(all[:n], characters))
		all = all[n:]
	}
	return text.String()
}

// sideBySide draws boxes in a row.
func sideBySide(row []box, characters int) string {
	var text strings.Builder
	height := 0
	for _, b := range row {
		height = max(height, len(b.lines))
	}
	fill := func(s, with string, width int) string {
		return s + strings.Repeat(with, max(0, width-utf8.RuneCountInString(s)))
	}
	for y := -1; y <= height; y++ {
		for _, b := range row {
			inner := b.width*characters - 2
			switch {
			case y < 0:
				text.WriteString("┌" + fill("─ "+b.title+" ", "─", inner) + "┐")
			case y == height:
				text.WriteString("└" + fill("", "─", inner) + "┘")
			case y < len(b.lines):
				text.WriteString("│" + fill("  ─ "+b.lines[y], " ", inner) + "│")
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
	shown := &transcript{}
	fmt.Fprint(shown, "The layout of the dashboard, from the template. This is no screenshot.\n\n")
	var all []box
	for _, w := range dashboard(t) {
		all = append(all, box{w.Width, w.Properties.Title, w.lines()})
	}
	fmt.Fprint(shown, layout(all, 5))
	if err := shown.check("dashboard"); err != nil {
		t.Error(err)
	}
}

// So is the picture of the board for Grafana, which the tests do not run.
func TestThePictureOfTheGrafanaBoard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../metrics/promlimit/grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			GridPos struct{ W int }
			Targets []struct{ LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	shown := &transcript{}
	fmt.Fprint(shown, "The layout of the board, from its JSON. This is no screenshot.\n\n")
	labels := strings.NewReplacer("{{", "", "}}", "") // a line for each value of these labels
	var all []box
	for _, p := range board.Panels {
		b := box{width: p.GridPos.W, title: p.Title}
		for _, target := range p.Targets {
			b.lines = append(b.lines, labels.Replace(target.LegendFormat))
		}
		all = append(all, b)
	}
	fmt.Fprint(shown, layout(all, 6))
	if err := shown.check("grafana"); err != nil {
		t.Error(err)
	}
}
