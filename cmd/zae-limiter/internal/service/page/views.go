package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// wait is a wait for people, exact to the millisecond.
func wait(d time.Duration) string {
	switch {
	case d == limiter.Never:
		return "never"
	case d <= 0:
		return "now"
	}
	return d.Truncate(time.Millisecond).String()
}

// percentOf is a used share in whole percent, which says 100 only if nothing is left.
func percentOf(used float64) int64 {
	const whole = 100
	p := int64(math.Round(whole * min(used, math.MaxInt32)))
	if p == whole && used < 1 {
		return whole - 1
	}
	return p
}

// grouped is a whole number of any type with its digits in groups.
func grouped(n any) string { return limitarg.GroupedDecimal(fmt.Sprint(n)) }

// instant is a time for people and for machines, in UTC.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clip shortens what a visitor or a peer has made up.
func clip(text string) string {
	const most = 300
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// A side is the balance of a limit in one bucket.
type side struct {
	Available, Capacity int64
	Used                float64
	Wait, Full          time.Duration
	Pending             bool
}

// A row is a limit of an entity with that of its parent beside it.
type row struct {
	Limit, Rate, Mode string
	Own, Parent       *side // nil if it has no such limit
	Resets            time.Time
	Binds             string
	Shadowed          int64
}

// rowsOf are the limits of a standing, and of its parent, by name.
func rowsOf(s *limiter.Standing) (rows []row) {
	parents := map[string]*limiter.Balance{}
	if s.Parent != nil {
		for i := range s.Parent.Limits {
			parents[s.Parent.Limits[i].Limit.Name] = &s.Parent.Limits[i]
		}
	}
	for i := range s.Limits {
		b := &s.Limits[i]
		rows = append(rows, rowOf(b, parents[b.Limit.Name]))
		delete(parents, b.Limit.Name)
	}
	for _, b := range parents {
		rows = append(rows, rowOf(nil, b))
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.Limit, b.Limit) })
	return rows
}

func rowOf(own, parent *limiter.Balance) row {
	r := row{Own: sideOf(own), Parent: sideOf(parent), Binds: binds(own, parent)}
	is := own
	if own == nil {
		is = parent
	}
	r.Limit, r.Rate, r.Mode, r.Resets, r.Shadowed = is.Limit.Name, limitarg.Rate(is.Limit), is.Limit.ModeText(), is.ResetsAt, is.Shadowed
	if is.Limit.Soft {
		r.Mode = "soft"
	}
	return r
}

func sideOf(b *limiter.Balance) *side {
	if b == nil {
		return nil
	}
	return &side{b.Available, b.Limit.Capacity, b.Used, b.RetryAfter, b.FullAfter, b.Pending}
}

// binds says which of two limits decides about a request: the one with the longer wait for a token, and if
// both have some, the one with fewer. A limit that refuses nobody never does.
func binds(own, parent *limiter.Balance) string {
	refuses := func(b *limiter.Balance) bool { return b != nil && b.Limit.Refuses() && !b.Bypassed }
	switch o, p := refuses(own), refuses(parent); {
	case !o && !p:
		return "none"
	case !p:
		return "own"
	case !o:
		return "parent"
	}
	switch c := cmp.Or(cmp.Compare(own.RetryAfter, parent.RetryAfter), cmp.Compare(parent.Available, own.Available)); {
	case c > 0:
		return "own"
	case c < 0:
		return "parent"
	}
	return "both"
}

// A near is a limit that is near its end.
type near struct {
	Entity, Resource, Limit, Rate string
	side
}

// nearOf are balances as rows.
func nearOf(balances []limiter.Balance) []near {
	rows := make([]near, len(balances))
	for i := range balances {
		b := &balances[i]
		rows[i] = near{b.Entity, b.Resource, b.Limit.Name, limitarg.Rate(b.Limit), *sideOf(b)}
	}
	return rows
}

// A level is one level of configuration.
type level struct {
	Name   string
	Limits []string
	// Holds says that the limits in force are those of the level.
	Holds bool
}

// A change is a standing change: one that holds until somebody or its end undoes it.
type change struct {
	What, Level, Reason, By string
	Since, Ends             *time.Time
}

// changeOf is the switch of a level, with why and by whom from the newest event that tells of it.
func changeOf(l *manage.Level, name string, events []manage.Event) (c change, ok bool) {
	if l.Disabled == nil && !l.Bypassed {
		return c, false
	}
	c = change{What: "enabled", Level: name, Ends: l.SwitchEndsAt}
	switch {
	case l.Bypassed:
		c.What = "bypassed"
	case *l.Disabled:
		c.What = "disabled"
	}
	for i := range events {
		e := &events[i]
		if _, is := e.Details["disabled"]; !is || l.Entity != "" && (e.Resource == nil || *e.Resource != l.Resource) {
			continue
		}
		c.Reason, _ = e.Details["reason"].(string)
		c.Since = e.Time
		if e.Principal != nil {
			c.By = *e.Principal
		}
		break
	}
	return c, true
}

// An event is an audit event as a row.
type event struct {
	Time                              *time.Time
	Action, Principal, Resource, More string
}

func eventsOf(all []manage.Event) []event {
	rows := make([]event, len(all))
	for i := range all {
		e := &all[i]
		rows[i] = event{Time: e.Time, Action: e.Action, More: detailsOf(e.Details)}
		if e.Principal != nil {
			rows[i].Principal = *e.Principal
		}
		if e.Resource != nil && *e.Resource != store.DefaultResource {
			rows[i].Resource = *e.Resource
		}
	}
	return rows
}

// detailsOf are the details of an event, in the order of their names.
func detailsOf(details map[string]any) string {
	parts := make([]string, 0, len(details))
	for name, value := range details {
		text, err := json.Marshal(value)
		if err != nil {
			text = fmt.Append(nil, value)
		}
		parts = append(parts, name+": "+string(text))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// A diagram is a chart of what a limit was used in each window, which a table repeats.
type diagram struct {
	Limit string
	Chart template.HTML
	Rows  []windowRow
}

type windowRow struct {
	Start time.Time
	Used  string
}

// diagramsOf are charts of snapshots, which are the newest first, one for each limit. Windows without a
// snapshot were not used.
func diagramsOf(w usage.Window, first time.Time, windows int, snapshots []usage.Snapshot) (all []diagram) {
	step, form, every := time.Hour, "02 Jan 15:04", 6
	if w == usage.Daily {
		step, form, every = 24*time.Hour, "02 Jan", 5
	}
	used := map[string][]*big.Int{}
	for i := range snapshots {
		at := int(snapshots[i].Start.Sub(first) / step)
		if at < 0 || at >= windows {
			continue
		}
		for _, a := range snapshots[i].Tokens {
			if used[a.Limit] == nil {
				used[a.Limit] = make([]*big.Int, windows)
			}
			used[a.Limit][at] = a.Milli
		}
	}
	for limit, amounts := range used {
		d := diagram{Limit: limit}
		columns := make([]chart.Column, windows)
		sum, most := new(big.Int), int64(0)
		for i, milli := range amounts {
			start := first.Add(time.Duration(i) * step)
			text := "0"
			if milli != nil {
				text = limitarg.GroupedDecimal(manage.Tokens(milli))
				columns[i].High = wholeOf(milli)
				sum.Add(sum, milli)
				d.Rows = append(d.Rows, windowRow{start, text})
			}
			most = max(most, columns[i].High)
			columns[i].Label = start.Format(form) + ": " + text
			if i%every == 0 {
				columns[i].Mark = start.Format(form)
			}
		}
		slices.Reverse(d.Rows)
		d.Chart = chart.Columns("Tokens of "+limit+", "+w.String(),
			fmt.Sprintf("%s tokens in %d windows, at most %s in one; the table below has all", limitarg.GroupedDecimal(manage.Tokens(sum)), windows, grouped(most)), columns)
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b diagram) int { return cmp.Compare(a.Limit, b.Limit) })
	return all
}

// wholeOf are millitokens as tokens, from 0 to the largest number.
func wholeOf(milli *big.Int) int64 {
	const thousand = 1000
	switch n := new(big.Int).Quo(milli, big.NewInt(thousand)); {
	case n.Sign() < 0:
		return 0
	case n.IsInt64():
		return n.Int64()
	}
	return math.MaxInt64
}
