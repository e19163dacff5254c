package chart

import "html/template"

// A Column is a height, of which a part has another colour.
type Column struct {
	Label     string // shown when the pointer rests on the column
	Mark      string // shown below the column
	High, Hot int64
}

// Columns draws columns from left to right. The highest is as high as the chart. Its classes
// are all and hot.
func Columns(title string, columns []Column) template.HTML {
	const wide, high, base, below = 720, 120, 100, 14
	highest := int64(1)
	for _, c := range columns {
		highest = max(highest, c.High)
	}
	s := &svg{}
	s.open(wide, high, title, "")
	step := float64(wide) / float64(max(1, len(columns)))
	part := func(class string, x float64, n int64) {
		if n == 0 {
			return
		}
		const fill = 0.9                                       // the rest is the gap
		h := max(1, float64(n)/float64(highest)*float64(base)) // a part that is not 0 is seen
		s.add(`<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, class, x, base-h, step*fill, h)
	}
	for i, c := range columns {
		x := float64(i) * step
		s.add(`<g><title>%s</title>`, escape(c.Label))
		part("all", x, c.High)
		part("hot", x, c.Hot)
		s.WriteString(`</g>`)
		if c.Mark != "" {
			s.label("middle", x+step/2, base+below, c.Mark)
		}
	}
	return s.close()
}
