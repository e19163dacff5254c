package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Lines is a chart of series over one axis.
type Lines struct {
	Title string
	// Text is a sentence on what the chart shows. The text alternative has it, and the range
	// of each series.
	Text string
	X, Y Axis
	// At has the values of the horizontal axis in order. For steps it has one value more than
	// the series: step i is from At[i] to At[i+1].
	At     []float64
	Series []Series
	// Stacked draws areas on top of one another.
	Stacked bool
	// Steps draws a horizontal line from each value of the horizontal axis to the next.
	Steps bool
	Marks []Mark
}

// SVG draws the chart.
func (l Lines) SVG() template.HTML {
	s := &svg{}
	s.open(width, height, l.Title, l.Text+" "+l.ranges())
	top := s.legend(l.Series, !l.Stacked)
	stacks := l.stacks()
	var all []float64
	for _, y := range stacks {
		all = append(all, y...)
	}
	const ticksX, ticksY = 8, 5
	x := l.X.over(append([]float64(nil), l.At...), left, right, ticksX)
	y := l.Y.over(all, bottom, top, ticksY)
	s.axes(l, x, y, top)
	for i := range l.Series {
		if l.Stacked { // from the highest down, so that a lower area covers it
			i = len(l.Series) - 1 - i
			s.add(`<path class="area %s" d="%s"/>`, l.Series[i].Class, l.area(x, y, stacks[i]))
			continue
		}
		s.add(`<path class="line %s" d="%s"/>`, l.Series[i].Class, l.path(x, y, stacks[i]))
	}
	l.hover(s, x, top)
	return s.close()
}

// ranges are sentences on the range of each series.
func (l Lines) ranges() string {
	var b strings.Builder
	for _, series := range l.Series {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range series.Y {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
		if low <= high {
			fmt.Fprintf(&b, "%s: from %s to %s. ", series.Name, Number(low), Number(high))
		}
	}
	return strings.TrimSpace(b.String())
}

// stacks are the heights to draw: the values, or their sums with the series below.
func (l Lines) stacks() [][]float64 {
	stacks := make([][]float64, len(l.Series))
	for i, series := range l.Series {
		stacks[i] = append([]float64(nil), series.Y...)
		for j := range stacks[i] {
			if l.Stacked && i > 0 {
				stacks[i][j] += stacks[i-1][j]
			}
		}
	}
	return stacks
}

// axes draws the grid, the ticks, the labels and the marks.
func (s *svg) axes(l Lines, x, y *scale, top float64) {
	const gap, below, labelBelow = 6, 15, 34
	var grid strings.Builder
	for _, t := range y.ticks {
		fmt.Fprintf(&grid, "M%d %sH%d", left, at(y.place(t)), right)
		s.label("end", left-gap, y.place(t)+gap/2, y.format(t))
	}
	var down strings.Builder
	for _, t := range x.ticks {
		fmt.Fprintf(&down, "M%s %dv5", at(x.place(t)), bottom)
		s.label("middle", x.place(t), bottom+below, x.format(t))
	}
	s.add(`<path class="grid" d="%s"/><path class="axis" d="M%d %dH%d%s"/>`, grid.String(), left, bottom, right, down.String())
	s.label("middle", (left+right)/2, bottom+labelBelow, l.X.Label)
	const edge = 12
	s.add(`<text class="middle" transform="translate(%d %s) rotate(-90)">%s</text>`, edge, at((top+bottom)/2), escape(l.Y.Label))
	for i, m := range l.Marks {
		from, to := x.place(m.At), float64(right)
		if i+1 < len(l.Marks) {
			to = x.place(l.Marks[i+1].At)
		}
		s.add(`<path class="mark" d="M%s %sV%d"/>`, at(from), at(top), bottom)
		const inset, least = 4, 4
		if name := clip(m.Name, to-from-inset); len([]rune(name)) >= min(least, len([]rune(m.Name))) {
			s.label("start mark", from+inset, top+2*inset, name)
		}
	}
}

// path is the line of a series. A value of NaN breaks it.
func (l Lines) path(x, y *scale, values []float64) string {
	var b strings.Builder
	pen := "M"
	for i, v := range values {
		if math.IsNaN(v) {
			pen = "M"
			continue
		}
		alone := pen == "M" && (i+1 == len(values) || math.IsNaN(values[i+1]))
		fmt.Fprintf(&b, "%s%s %s", pen, at(x.place(l.At[i])), at(y.place(v)))
		switch {
		case l.Steps:
			b.WriteString("H" + at(x.place(l.At[i+1])))
		case alone:
			b.WriteString("h1") // a line of one point would not be seen
		}
		pen = "L"
	}
	return b.String()
}

// area is the area under a series, down to the axis.
func (l Lines) area(x, y *scale, values []float64) string {
	if len(values) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %d", at(x.place(l.At[0])), bottom)
	for i, v := range values {
		fmt.Fprintf(&b, "L%s %s", at(x.place(l.At[i])), at(y.place(v)))
	}
	last := x.place(l.At[len(values)-1])
	if len(values) == 1 {
		last++
		b.WriteString("h1")
	}
	fmt.Fprintf(&b, "L%s %dZ", at(last), bottom)
	return b.String()
}

// hover draws invisible columns that show the values under the pointer. A column of a long
// chart shows those of the point in its middle.
func (l Lines) hover(s *svg, x *scale, top float64) {
	const most = 100
	points := len(l.At)
	if l.Steps {
		points--
	}
	each := max(1, (points+most-1)/most)
	for from := 0; from < points; from += each {
		to := min(from+each, points)
		i := (from + to - 1) / 2
		var b strings.Builder
		b.WriteString(l.where(i))
		for _, series := range l.Series {
			if !math.IsNaN(series.Y[i]) {
				b.WriteString("\n" + series.Name + ": " + Number(series.Y[i]))
			}
		}
		begin, end := x.place(l.At[from]), float64(right)
		if to < len(l.At) {
			end = x.place(l.At[to])
		}
		s.add(`<rect class="hover" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
			at(begin), at(top), at(max(1, end-begin)), at(bottom-top), escape(b.String()))
	}
}

// where names a value of the horizontal axis.
func (l Lines) where(i int) string {
	switch {
	case l.Steps:
		return Number(l.At[i]) + " to " + Number(l.At[i+1]) + " " + l.X.Label
	case l.X.Time:
		return "at " + Number(l.At[i]) + " s"
	}
	return Number(l.At[i]) + " " + l.X.Label
}
