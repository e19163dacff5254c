package chart

import (
	"fmt"
	"html/template"
	"strings"
)

// A Column is a height, of which a part has another colour.
type Column struct {
	Label     string // shown when the pointer rests on the column
	Mark      string // shown below the column
	High, Hot int64
}

// Columns draws columns from left to right over a scale. Its classes are all and hot. text says in words what
// the chart shows; "" is no more than the title.
func Columns(title, text string, columns []Column) template.HTML {
	const high, top, base, gap, below, ticks = 150, 8, 128, 6, 15, 4
	s := &svg{}
	s.open(width, high, title, text)
	y := Axis{}.over([]float64{float64(highest(columns))}, base, top, ticks)
	var grid strings.Builder
	for _, t := range y.ticks {
		fmt.Fprintf(&grid, "M%d %sH%d", left, at(y.place(t)), right)
		s.label("end", left-gap, y.place(t)+gap/2, y.format(t))
	}
	s.add(`<path class="grid" d="%s"/>`, grid.String())
	step := s.columns(columns, left, right, base, func(n int64) float64 { return base - y.place(float64(n)) })
	s.add(`<path class="axis" d="M%d %dH%d"/>`, left, base, right)
	for i, c := range columns {
		if c.Mark != "" {
			s.label("middle", left+(float64(i)+0.5)*step, base+below, c.Mark)
		}
	}
	return s.close()
}

// Spark draws columns without a scale and without marks, to stand in a line of text. The highest
// is as high as the chart.
func Spark(title string, columns []Column) template.HTML {
	const wide, high = 720, 100
	most := float64(max(1, highest(columns)))
	s := &svg{}
	s.open(wide, high, title, "")
	s.columns(columns, 0, wide, high, func(n int64) float64 { return float64(n) / most * high })
	return s.close()
}

func highest(columns []Column) (most int64) {
	for _, c := range columns {
		most = max(most, c.High)
	}
	return most
}

// columns draws columns on a base, and returns the distance between them.
func (s *svg) columns(columns []Column, from, to, base float64, tall func(int64) float64) (step float64) {
	step = (to - from) / float64(max(1, len(columns)))
	part := func(class string, x float64, n int64) {
		if n == 0 {
			return
		}
		const fill = 0.9     // the rest is the gap
		h := max(1, tall(n)) // a part that is not 0 is seen
		s.add(`<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, class, x, base-h, step*fill, h)
	}
	for i, c := range columns {
		x := from + float64(i)*step
		s.add(`<g><title>%s</title>`, escape(c.Label))
		part("all", x, c.High)
		part("hot", x, c.Hot)
		s.WriteString(`</g>`)
	}
	return step
}
