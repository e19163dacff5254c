package chart

import "html/template"

// A Bar is one horizontal bar.
type Bar struct {
	Class string // of [Style]
	Value float64
	Text  string // stands behind the bar; "" is the number
}

// A Group is bars under one label.
type Group struct {
	Label string
	Bars  []Bar
}

// Bars is a chart of horizontal bars from 0.
type Bars struct {
	Title string
	Text  string
	// Unit names the axis.
	Unit string
	// Key names the classes of the bars; nil shows no legend.
	Key    []Series
	Groups []Group
}

// SVG draws the chart.
func (c Bars) SVG() template.HTML {
	const line, thick, label, gap, foot = 15, 12, 15, 8, 36
	lines := 0
	var all []float64
	for _, g := range c.Groups {
		lines += len(g.Bars)
		for _, b := range g.Bars {
			all = append(all, b.Value)
		}
	}
	body := &svg{}
	top := body.legend(c.Key, false)
	if c.Key == nil {
		top = gap
	}
	end := top + float64(lines*line+len(c.Groups)*(label+gap))
	const ticks, texts = 5, 200 // room for the texts behind the bars
	x := Axis{}.over(all, 0, width-texts, ticks)
	for _, t := range x.ticks {
		body.add(`<path class="grid" d="M%s %sV%s"/>`, at(x.place(t)+1), at(top), at(end))
		class := "middle"
		if t == 0 {
			class = "start"
		}
		body.label(class, x.place(t), end+label, x.format(t))
	}
	body.label("end", width, end+label, c.Unit)
	y := top
	for _, g := range c.Groups {
		y += label
		body.label("start strong", 0, y-gap/2, clip(g.Label, width))
		for _, b := range g.Bars {
			text := b.Text
			if text == "" {
				text = Number(b.Value)
			}
			body.add(`<g><title>%s</title><rect class="area %s" x="1" y="%s" width="%s" height="%d"/>`,
				escape(g.Label+": "+text), b.Class, at(y), at(max(1, x.place(b.Value))), thick)
			body.label("start", x.place(b.Value)+gap, y+thick-2, text)
			body.WriteString(`</g>`)
			y += line
		}
		y += gap
	}
	s := &svg{}
	s.open(width, int(end)+foot-label, c.Title, c.Text)
	s.WriteString(body.String())
	return s.close()
}
