package replay

import (
	"fmt"
	"html/template"
	"strings"
)

// Size of a picture, in units of its view box.
const (
	width  = 720
	height = 120
	base   = 100 // the bottom of the bars; labels stand below
)

// A bar is one column of a picture: a height, of which a part has another color.
type bar struct {
	label     string // shown when the pointer rests on the bar
	mark      string // shown below the bar
	high, hot int64
}

// bars draws columns. The highest is as high as the picture.
func bars(title string, columns []bar) template.HTML {
	highest := int64(1)
	for _, c := range columns {
		highest = max(highest, c.high)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, template.HTMLEscapeString(title))
	step := float64(width) / float64(max(1, len(columns)))
	for i, c := range columns {
		x := float64(i) * step
		fmt.Fprintf(&b, `<g><title>%s</title>`, template.HTMLEscapeString(c.label))
		column(&b, "all", x, step, ratio(c.high, highest))
		column(&b, "hot", x, step, ratio(c.hot, highest))
		b.WriteString(`</g>`)
		if c.mark != "" {
			const below = 14
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`, x+step/2, base+below, template.HTMLEscapeString(c.mark))
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text in it is escaped
}

// column draws a part of a bar. A part that is not 0 is at least a line high.
func column(b *strings.Builder, class string, x, step, part float64) {
	if part == 0 {
		return
	}
	const fill = 0.9 // the rest is the gap
	h := max(1, part*base)
	fmt.Fprintf(b, `<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, class, x, base-h, step*fill, h)
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
