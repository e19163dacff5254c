package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

// places lists the phases of all sides by name, in the order in which they appear.
func places(r *result.Result) (order []string) {
	for i := range r.Sides {
		for j := range r.Sides[i].Phases {
			if name := r.Sides[i].Phases[j].Name; !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	return order
}

// phase finds a phase of a side, nil if it did not run.
func phase(s *result.Side, name string) *result.Phase {
	for i := range s.Phases {
		if s.Phases[i].Name == name {
			return &s.Phases[i]
		}
	}
	return nil
}

// class finds a class of a phase, nil if it was not active.
func class(p *result.Phase, name string) *result.Class {
	for i := range p.Classes {
		if p.Classes[i].Name == name {
			return &p.Classes[i]
		}
	}
	return nil
}

// A measured is one class in one phase on one side.
type measured struct {
	side         string
	phase, class string
	first        bool // the first side that has it
	*result.Class
	base *result.Class // that of the first side
}

// classes lists what was measured: by phase, then by class, then by side.
func classes(r *result.Result) (all []measured) {
	for _, name := range places(r) {
		var phases []*result.Phase // by side
		for i := range r.Sides {
			phases = append(phases, phase(&r.Sides[i], name))
		}
		for _, of := range active(phases) {
			var base *result.Class
			for i, p := range phases {
				if p == nil || class(p, of) == nil {
					continue
				}
				c := class(p, of)
				first := base == nil
				if first {
					base = c
				}
				all = append(all, measured{r.Sides[i].Name, name, of, first, c, base})
			}
		}
	}
	return all
}

// active lists the classes of a phase on any side.
func active(phases []*result.Phase) (order []string) {
	for _, p := range phases {
		if p == nil {
			continue
		}
		for i := range p.Classes {
			if !slices.Contains(order, p.Classes[i].Name) {
				order = append(order, p.Classes[i].Name)
			}
		}
	}
	return order
}

// figures is the table of what was measured.
func figures(r *result.Result) table {
	t := table{Names: 3, Header: []string{
		"phase", "class", "side", "seconds", "due", "done", "per second", "p50", "p95", "p99", "p99.9", "max",
		"admitted", "refused", "errors", "lag p99",
	}}
	for _, m := range classes(r) {
		a := &m.Answers
		row := plain(m.phase, m.class, m.side, chart.Number(m.Seconds), limitarg.Grouped(m.Due), limitarg.Grouped(a.Operations))
		row = append(row, cell{chart.Number(m.PerSecond()), ratio(m.PerSecond(), m.base.PerSecond(), m.first)})
		for _, of := range []func(*result.Latency) result.Milliseconds{
			func(l *result.Latency) result.Milliseconds { return l.P50 },
			func(l *result.Latency) result.Milliseconds { return l.P95 },
			func(l *result.Latency) result.Milliseconds { return l.P99 },
			func(l *result.Latency) result.Milliseconds { return l.P999 },
			func(l *result.Latency) result.Milliseconds { return l.Max },
		} {
			c := cell{Text: "–"}
			if a.Operations > 0 {
				c = cell{milliseconds(of(&m.Latency)), ratio(float64(of(&m.Latency)), float64(of(&m.base.Latency)), m.first)}
			}
			row = append(row, c)
		}
		row = append(row,
			cell{limitarg.Grouped(a.Admitted), share(a.Admitted, a.Operations)},
			cell{limitarg.Grouped(a.Refused), share(a.Refused, a.Operations)},
			cell{limitarg.Grouped(a.Errors()), errorKinds(a)},
			cell{Text: milliseconds(m.Lag.P99)})
		t.add(row)
	}
	return t
}

// errorKinds names the errors that there were.
func errorKinds(a *result.Answers) string {
	var kinds []string
	for _, k := range []struct {
		n    int64
		name string
	}{{a.Throttled, "throttled"}, {a.Unavailable, "unavailable"}, {a.Failed, "other"}} {
		if k.n > 0 {
			kinds = append(kinds, limitarg.Grouped(k.n)+" "+k.name)
		}
	}
	return strings.Join(kinds, ", ")
}

// costs is the table of the cost of each phase.
func costs(r *result.Result) table {
	t := table{Names: 2, Header: []string{"phase", "side", "operations", "requests/operation", "WCU/operation", "RCU/operation", "dollars/million operations", "dollars in all"}}
	for _, name := range places(r) {
		var base *result.Cost
		for i := range r.Sides {
			p := phase(&r.Sides[i], name)
			if p == nil {
				continue
			}
			n := p.Answers().Operations
			per := p.Cost.Per(n)
			first := base == nil
			if first {
				base = &per
			}
			t.add([]cell{
				{Text: name},
				{Text: r.Sides[i].Name},
				{Text: limitarg.Grouped(n)},
				{chart.Number(per.Requests), ratio(per.Requests, base.Requests, first)},
				{chart.Number(per.WCU), ratio(per.WCU, base.WCU, first)},
				{chart.Number(per.RCU), ratio(per.RCU, base.RCU, first)},
				{dollars(per.Dollars * million), ratio(per.Dollars, base.Dollars, first)},
				{Text: dollars(p.Cost.Dollars)},
			})
		}
	}
	return t
}

const throttledColumn = 4 // of the table of items

// items is the table of the items of each population.
func items(r *result.Result) table {
	t := table{Names: 3, Header: []string{"phase", "population", "side", "writes", "throttled", "of the first 2 s", "of the later", "shards of the busiest bucket", "WCU", "RCU"}}
	for i := range r.Sides {
		for _, p := range r.Sides[i].Phases {
			for j := range p.Populations {
				of := &p.Populations[j]
				w := &of.Writes
				var reasons []string
				for _, name := range slices.Sorted(maps.Keys(w.Reasons)) {
					reasons = append(reasons, limitarg.Grouped(w.Reasons[name])+" "+name)
				}
				shards := "–"
				if of.Shards > 0 {
					shards = strconv.Itoa(of.Shards)
				}
				row := plain(p.Name, of.Name, r.Sides[i].Name, limitarg.Grouped(w.Sent), limitarg.Grouped(w.Throttled),
					share(w.EarlyThrottled, w.EarlySent), share(w.Throttled-w.EarlyThrottled, w.Sent-w.EarlySent), shards, chart.Number(of.Cost.WCU), chart.Number(of.Cost.RCU))
				row[throttledColumn].Below = strings.Join(reasons, ", ")
				t.add(row)
			}
		}
	}
	return t
}

// limits is the table of the demand on each limit.
func limits(r *result.Result) table {
	t := table{Names: 4, Header: []string{"population", "resource", "limit", "side", "tokens demanded", "entitled", "admitted", "admitted of entitled"}}
	for i := range r.Sides {
		for j := range r.Sides[i].Limits {
			u := &r.Sides[i].Limits[j]
			t.add(plain(u.Population, u.Resource, u.Limit, r.Sides[i].Name, limitarg.Grouped(u.Demanded),
				limitarg.Grouped(u.Entitled), limitarg.Grouped(u.Admitted), chart.Number(u.Percent())+" %"))
		}
	}
	return t
}

// demandedLimit is a limit with the name of its side.
type demandedLimit struct {
	side string
	*result.LimitUse
}

// leastAdmitted are the limits in demand, those with the least admitted of the entitlement
// first.
func leastAdmitted(r *result.Result) (all []demandedLimit) {
	for i := range r.Sides {
		for j := range r.Sides[i].Limits {
			if u := &r.Sides[i].Limits[j]; u.Demanded > 0 || u.Admitted > 0 {
				all = append(all, demandedLimit{r.Sides[i].Name, u})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b demandedLimit) int { return cmp.Compare(a.Percent(), b.Percent()) })
	return all[:min(len(all), maxLimits)]
}

// reasons sums the throttled writes of a side by reason.
func reasons(s *result.Side) map[string]int64 {
	sum := map[string]int64{}
	for i := range s.Phases {
		for j := range s.Phases[i].Populations {
			for name, n := range s.Phases[i].Populations[j].Writes.Reasons {
				sum[name] += n
			}
		}
	}
	return sum
}

// percents writes a part for a bar.
func percents(u *result.LimitUse) string {
	return fmt.Sprintf("%s (%s %%)", chart.Number(float64(u.Admitted)), chart.Number(u.Percent()))
}
