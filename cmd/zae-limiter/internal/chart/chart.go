// Package chart draws charts as inline SVG for pages that need no script and no other file.
// A chart has axes with round ticks, a legend, and a text alternative. Its colours are
// classes of [Style], which differ in lightness too and follow the reader's light or dark
// scheme.
package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Style is the CSS of the charts: the classes a to f for series, and ok, refused, throttled,
// unavailable and failed for outcomes.
//
//go:embed style.css
var Style template.CSS

// Size of a chart, in units of its view box.
const (
	width  = 640
	height = 250
	left   = 62 // where the plot begins; the labels of the vertical axis stand before it
	right  = 626
	bottom = 206

	legendTop  = 12
	legendLine = 16
	fontWidth  = 6.2 // of a character, about
)

// A Series is one line or area of a chart.
type Series struct {
	Name  string
	Class string // of [Style]
	// Y has one value for each value of the horizontal axis. NaN is a gap.
	Y []float64
}

// A Mark is a vertical line with a name, where a phase begins, for instance.
type Mark struct {
	At   float64
	Name string
}

// svg is a chart being drawn.
type svg struct{ strings.Builder }

// add writes a part of the chart.
func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.Builder, format, args...) }

// open begins a chart with its text alternative.
func (s *svg) open(w, h int, title, text string) {
	s.add(`<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s"><title>%s</title>`,
		w, h, escape(strings.TrimSuffix(title+". "+text, ". ")), escape(title))
	if text != "" {
		s.add(`<desc>%s</desc>`, escape(text))
	}
}

func (s *svg) close() template.HTML {
	s.WriteString(`</svg>`)
	return template.HTML(s.String()) //nolint:gosec // every text in it is escaped
}

// label writes a text. The class places it relative to its point. A text that an edge of the
// chart would cut off moves inwards.
func (s *svg) label(class string, x, y float64, text string) {
	wide := fontWidth * float64(len([]rune(text)))
	before := 0.0 // the part of the text before the point
	switch anchor, _, _ := strings.Cut(class, " "); anchor {
	case "middle":
		before = wide / 2
	case "end":
		before = wide
	}
	x = max(before, min(x, width-wide+before))
	s.add(`<text class="%s" x="%s" y="%s">%s</text>`, class, at(x), at(y), escape(text))
}

// legend writes the names of series in lines from the top, and returns where the plot may
// begin.
func (s *svg) legend(keys []Series, line bool) float64 {
	x, y := float64(left), float64(legendTop)
	for _, k := range keys {
		const swatch, space = 20, 16
		wide := swatch + fontWidth*float64(len([]rune(k.Name))) + space
		if x > left && x+wide > right {
			x, y = left, y+legendLine
		}
		const middle, half, thick = 4, 4, 10
		if line {
			s.add(`<path class="line %s" d="M%s %sh16"/>`, k.Class, at(x), at(y-middle))
		} else {
			s.add(`<rect class="area %s" x="%s" y="%s" width="%d" height="%d"/>`, k.Class, at(x+half), at(y-2*half-1), thick, thick)
		}
		s.label("start", x+swatch, y, k.Name)
		x += wide
	}
	const below = 12
	return y + below
}

// at writes a coordinate.
func at(v float64) string {
	const tenth = 10
	return fmt.Sprint(math.Round(v*tenth) / tenth)
}

func escape(text string) string { return template.HTMLEscapeString(text) }

// clip shortens a text that would be too wide.
func clip(text string, wide float64) string {
	most := int(wide / fontWidth)
	if r := []rune(text); len(r) > most {
		return string(r[:max(0, most-1)]) + "…"
	}
	return text
}
