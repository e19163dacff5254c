package report

import (
	"cmp"
	"html/template"
	"maps"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

// A drawing describes one kind of chart over time.
type drawing struct {
	title, note, unit string
	stacked           bool
	logarithmic       bool // if the values are far apart
	parts             []part
}

// A part is one series of a drawing.
type part struct {
	name, class string
	of          func(*result.Sample) float64
}

// perSecond is a count of a sample by second.
func perSecond(of func(*result.Sample) float64) func(*result.Sample) float64 {
	return func(s *result.Sample) float64 { return of(s) / s.Seconds }
}

// answered is a latency, or NaN if no operation ended.
func answered(of func(*result.Sample) result.Milliseconds) func(*result.Sample) float64 {
	return func(s *result.Sample) float64 {
		if s.Done == 0 {
			return math.NaN()
		}
		return float64(of(s))
	}
}

const secondsOfHour = 3600

var drawings = []drawing{
	{
		title: "Latency over time", unit: "latency, ms", logarithmic: true,
		note: "From the instant at which an operation was due to its answer.",
		parts: []part{
			{"p50", "a", answered(func(s *result.Sample) result.Milliseconds { return s.P50 })},
			{"p99", "b", answered(func(s *result.Sample) result.Milliseconds { return s.P99 })},
			{"p99.9", "c", answered(func(s *result.Sample) result.Milliseconds { return s.P999 })},
		},
	},
	{
		title: "Outcomes over time", unit: "operations per second", stacked: true,
		note: "What became of the operations that ended.",
		parts: []part{
			{"admitted", "ok", perSecond(func(s *result.Sample) float64 { return float64(s.Admitted) })},
			{"refused", "refused", perSecond(func(s *result.Sample) float64 { return float64(s.Refused) })},
			{"throttled", "throttled", perSecond(func(s *result.Sample) float64 { return float64(s.Throttled) })},
			{"unavailable", "unavailable", perSecond(func(s *result.Sample) float64 { return float64(s.Unavailable) })},
			{"other errors", "failed", perSecond(func(s *result.Sample) float64 { return float64(s.Failed) })},
		},
	},
	{
		title: "Rate asked and done", unit: "operations per second",
		note: "Operations due and operations ended. For users, operations are due when they are sent.",
		parts: []part{
			{"asked", "f", perSecond(func(s *result.Sample) float64 { return float64(s.Due) })},
			{"done", "b", perSecond(func(s *result.Sample) float64 { return float64(s.Done) })},
		},
	},
	{
		title: "Capacity over time", unit: "capacity units per second",
		note: "Write and read capacity units that the requests consumed.",
		parts: []part{
			{"write units", "a", perSecond(func(s *result.Sample) float64 { return s.Cost.WCU })},
			{"read units", "b", perSecond(func(s *result.Sample) float64 { return s.Cost.RCU })},
		},
	},
	{
		title: "Price over time", unit: "dollars an hour",
		note:  "The consumed units at the price on demand, as if the second lasted an hour.",
		parts: []part{{"dollars an hour", "a", perSecond(func(s *result.Sample) float64 { return s.Cost.Dollars * secondsOfHour })}},
	},
	{
		title: "Writes throttled over time", unit: "item writes per second",
		note: "Item writes that DynamoDB received and that it throttled. The limiter repeats a throttled write.",
		parts: []part{
			{"writes", "f", perSecond(func(s *result.Sample) float64 { return float64(s.Writes) })},
			{"throttled", "b", perSecond(func(s *result.Sample) float64 { return float64(s.WritesThrottled) })},
		},
	},
	{
		title: "Users over time", unit: "users",
		note:  "Users of closed classes at the end of each interval.",
		parts: []part{{"users", "a", func(s *result.Sample) float64 { return float64(s.Users) }}},
	},
	{
		title: "Shards over time", unit: "items of the busiest bucket",
		note:  "The number of items of the busiest bucket.",
		parts: []part{{"shards", "a", known(func(s *result.Sample) int { return s.Shards })}},
	},
	{
		title: "Lag of the generator over time", unit: "lag p99, ms", logarithmic: true,
		note:  "How much later than due the generator itself sent operations. It is part of their latency.",
		parts: []part{{"lag p99", "a", answered(func(s *result.Sample) result.Milliseconds { return s.Lag })}},
	},
}

// known is NaN for a number of 0, which means that it is not known.
func known(of func(*result.Sample) int) func(*result.Sample) float64 {
	return func(s *result.Sample) float64 {
		if n := of(s); n > 0 {
			return float64(n)
		}
		return math.NaN()
	}
}

// overTime draws every kind of chart that has values. The charts of one kind have the same
// axes.
func overTime(sides []side) (all []kind) {
	for _, d := range drawings {
		if d.stacked {
			d.parts = d.present(sides)
		}
		var charts []chart.Lines
		var names []string
		for i := range sides {
			if s := &sides[i]; len(s.points) > 0 {
				names = append(names, s.name)
				charts = append(charts, d.of(s))
			}
		}
		low, high, end := d.bounds(charts)
		if !(high > 0) || math.IsInf(high, 0) {
			continue // nothing of this kind happened
		}
		const farApart = 20
		isLog := d.logarithmic && high/low > farApart
		k := kind{Title: d.title, Note: d.note}
		for i := range charts {
			c := &charts[i]
			c.X.Max = end
			c.Y = chart.Axis{Label: d.unit, Log: isLog, Max: high}
			if isLog {
				c.Y.Label += " (logarithmic)"
				c.Y.Min = low
			}
			caption := ""
			if len(charts) > 1 {
				caption = names[i]
			}
			k.Figures = append(k.Figures, figure{caption, c.SVG()})
		}
		all = append(all, k)
	}
	return all
}

// present are the parts that have a value on any side.
func (d *drawing) present(sides []side) (parts []part) {
	for _, p := range d.parts {
		if slices.ContainsFunc(sides, func(s side) bool {
			return slices.ContainsFunc(s.points, func(sample result.Sample) bool { return p.of(&sample) > 0 })
		}) {
			parts = append(parts, p)
		}
	}
	return parts
}

// of is the chart of one side.
func (d *drawing) of(s *side) chart.Lines {
	l := chart.Lines{
		Title: d.title + ", side " + s.name, Text: d.note, X: chart.Axis{Label: "time since the start of the measurement", Time: true},
		At: s.at, Stacked: d.stacked, Marks: s.marks,
	}
	for _, p := range d.parts {
		values := s.values(p.of)
		if d.stacked {
			values = zeroed(values)
		}
		l.Series = append(l.Series, chart.Series{Name: p.name, Class: p.class, Y: values})
	}
	return l
}

// zeroed replaces missing values by 0: an area has no gaps.
func zeroed(values []float64) []float64 {
	for i, v := range values {
		if math.IsNaN(v) {
			values[i] = 0
		}
	}
	return values
}

// bounds are the least value above 0, the greatest height, and the end of the time axis.
func (d *drawing) bounds(charts []chart.Lines) (low, high, end float64) {
	low = math.Inf(1)
	for _, c := range charts {
		end = max(end, c.At[len(c.At)-1])
		for i := range c.At {
			sum := 0.0
			for _, s := range c.Series {
				v := s.Y[i]
				if math.IsNaN(v) {
					continue
				}
				if v > 0 {
					low = min(low, v)
				}
				if d.stacked {
					sum += v
				} else {
					sum = max(sum, v)
				}
			}
			high = max(high, sum)
		}
	}
	return low, high, end
}

// classesOfSeries are the styles of sides.
var classesOfSeries = []string{"a", "b", "c", "d", "e", "f"}

// sideClass is the style of a side, the same in all charts.
func sideClass(r *result.Result, name string) string {
	i := slices.IndexFunc(r.Sides, func(s result.Side) bool { return s.Name == name })
	return classesOfSeries[max(0, i)%len(classesOfSeries)]
}

// distributions draws the latencies of each class in each phase, the sides in one chart. It
// also returns how many are left out.
func distributions(r *result.Result) (all []figure, left int) {
	var order []string
	groups := map[string][]measured{}
	for _, m := range classes(r) {
		if len(m.Latency.Histogram) == 0 {
			continue
		}
		at := m.phase + "\x00" + m.class
		if groups[at] == nil {
			order = append(order, at)
		}
		groups[at] = append(groups[at], m)
	}
	for _, at := range order {
		if len(all) == maxDistributions {
			left++
			continue
		}
		g := groups[at]
		all = append(all, figure{names(phaseName(r, g[0].phase), g[0].class), distribution(r, g)})
	}
	return all, left
}

// phaseName is "" if there is only one phase.
func phaseName(r *result.Result, name string) string {
	if len(places(r)) == 1 {
		return ""
	}
	return "phase " + name
}

// distribution draws the share of the operations in bins of the same logarithmic width.
func distribution(r *result.Result, group []measured) template.HTML {
	low, high := math.Inf(1), 0.0
	for _, m := range group {
		for _, b := range m.Latency.Histogram {
			if b.UpTo > 0 {
				low, high = min(low, float64(b.UpTo)), max(high, float64(b.UpTo))
			}
		}
	}
	const perDecade = 40
	step := math.Log(10) / perDecade
	first := math.Floor(math.Log(low)/step) - 1
	bins := int(math.Ceil(math.Log(high)/step)-first) + 1
	l := chart.Lines{
		Title: "Latencies of " + names(phaseName(r, group[0].phase), group[0].class), Steps: true,
		Text: "The share of the operations in bins that are each a fortieth of a decade wide.",
		X:    chart.Axis{Label: "ms (logarithmic)", Log: true}, Y: chart.Axis{Label: "% of the operations"},
	}
	for i := range bins + 1 {
		l.At = append(l.At, math.Exp((first+float64(i))*step))
	}
	for _, m := range group {
		y := make([]float64, bins)
		var sum int64
		for _, b := range m.Latency.Histogram {
			sum += b.Count
		}
		for _, b := range m.Latency.Histogram {
			const percent = 100
			spread(y, math.Log(max(low, float64(b.UpTo)))/step-first, step, percent*result.Share(b.Count, sum))
		}
		l.Series = append(l.Series, chart.Series{Name: m.side, Class: sideClass(r, m.side), Y: y})
	}
	return l.SVG()
}

// spread adds a share to the bins that its own bin overlaps. Its own bin ends at a position
// in bins and is 2 % wide; step is the logarithm of the width of the others.
func spread(y []float64, end, step, share float64) {
	wide := math.Log(1.02) / step
	i := min(len(y)-1, int(end))
	inside := min(1, (end-float64(i))/wide) // the part in bin i; the rest is in the one before
	y[i] += share * inside
	y[max(0, i-1)] += share * (1 - inside)
}

// limitBars draws what was admitted of what limits entitled to.
func limitBars(r *result.Result) template.HTML {
	c := chart.Bars{
		Title: "Admitted against entitled, by limit", Unit: "% of the entitlement",
		Text: "The part of the tokens that the buckets could admit and that was admitted. More than 100 % is wrong.",
	}
	for _, u := range leastAdmitted(r) {
		label := names(u.Population, u.Resource, u.Limit)
		if len(r.Sides) > 1 {
			label += ", side " + u.side
		}
		const percent, digits = 100, 100
		class := sideClass(r, u.side)
		if u.Admitted > u.Entitled {
			class = "throttled"
		}
		value := math.Round(u.Percent()*digits) / digits
		if u.Entitled == 0 && u.Admitted > 0 {
			value = 2 * percent // anything is beyond nothing
		}
		c.Groups = append(c.Groups, chart.Group{Label: label, Bars: []chart.Bar{
			{Class: class, Value: value, Text: percents(u.LimitUse) + " of " + chart.Number(float64(u.Entitled))},
		}})
	}
	if c.Groups == nil {
		return ""
	}
	return c.SVG()
}

// costBars draws the price of a million operations of each side, by phase.
func costBars(r *result.Result) template.HTML {
	c := chart.Bars{Title: "Dollars for a million operations, by side", Unit: "dollars", Text: "At the price on demand, without storage."}
	for _, name := range places(r) {
		g := chart.Group{Label: cmp.Or(phaseName(r, name), "all phases")}
		for i := range r.Sides {
			s := &r.Sides[i]
			p := phase(s, name)
			if p == nil || p.Answers().Operations == 0 {
				continue
			}
			price := p.Cost.Per(p.Answers().Operations).Dollars * million
			g.Bars = append(g.Bars, chart.Bar{Class: sideClass(r, s.Name), Value: price, Text: dollars(price) + " " + s.Name})
		}
		if g.Bars != nil && len(c.Groups) < maxDistributions {
			c.Groups = append(c.Groups, g)
		}
	}
	if c.Groups == nil {
		return ""
	}
	return c.SVG()
}

// reasonBars draws how many writes DynamoDB throttled for which reason.
func reasonBars(r *result.Result) template.HTML {
	c := chart.Bars{Title: "Throttled writes by reason", Unit: "writes", Text: "The reasons are those that DynamoDB gives."}
	for i := range r.Sides {
		sum := reasons(&r.Sides[i])
		for _, name := range slices.Sorted(maps.Keys(sum)) {
			label := name
			if len(r.Sides) > 1 {
				label += ", side " + r.Sides[i].Name
			}
			if len(c.Groups) < maxLimits {
				c.Groups = append(c.Groups, chart.Group{Label: label, Bars: []chart.Bar{{Class: sideClass(r, r.Sides[i].Name), Value: float64(sum[name])}}})
			}
		}
	}
	if c.Groups == nil {
		return ""
	}
	return c.SVG()
}
