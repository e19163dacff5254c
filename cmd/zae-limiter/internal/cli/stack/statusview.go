package stack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// A statusView is a report in JSON, and as text.
type statusView struct {
	Name string `json:"table_name"`
	*health.Report
	Table health.Part[manage.TableView] `json:"table"`

	outputs bool // the text has the outputs
}

func statusViewOf(name string, r *health.Report) *statusView {
	v := &statusView{Name: name, Report: r, Table: health.Part[manage.TableView]{Problem: r.Table.Problem}}
	if r.Table.Value != nil {
		v.Table.Value = manage.TableViewOf(r.Table.Value)
	}
	return v
}

// sentences say what a verdict means.
var sentences = map[health.Verdict]string{
	health.Healthy:     "is healthy",
	health.Changing:    "is changing",
	health.Broken:      "is broken",
	health.Degraded:    "is degraded",
	health.Unreachable: "cannot be reached",
	health.Forbidden:   "cannot be read with these credentials",
	health.Incomplete:  "shows nothing wrong, but not everything could be read",
}

// text writes the view for people: the verdict, the findings, and a section for each part.
func (v *statusView) text(w *strings.Builder) {
	fmt.Fprintf(w, "%s %s\n", v.Name, sentences[v.Verdict])
	seen := map[string]bool{}
	for _, f := range v.Findings {
		if seen[f.What] {
			continue // several parts need the same permission
		}
		seen[f.What] = true
		mark := "!"
		if f.Verdict == health.Healthy {
			mark = "-"
		}
		fmt.Fprintf(w, "  %s %s\n", mark, f.What)
		if f.Do != "" {
			fmt.Fprintf(w, "    %s\n", f.Do)
		}
	}
	w.WriteByte('\n')
	app.Fields(w, slices.Concat(v.stack(), v.table(), v.versions(), v.namespaces(), function("Aggregator", v.Aggregator), function("Provisioner", v.Provisioner),
		v.deadLetters(), v.archive(), v.alarms())...)
	v.events(w)
	if v.outputs {
		v.listOutputs(w)
	}
}

// fields are a value's fields, a line with the problem, or nothing for an absent part.
func fields[T any](name string, p health.Part[T], of func(*T) []string) []string {
	switch {
	case p.Problem != nil:
		return []string{name, "unknown: " + p.Problem.String()}
	case p.Value == nil:
		return nil
	}
	return of(p.Value)
}

func (v *statusView) stack() []string {
	if v.Stack.Absent() {
		return []string{"Stack", "none"}
	}
	return fields("Stack", v.Stack, func(s *health.Stack) []string {
		words := []string{s.Status, "changed " + instant(latest(s.Created, s.Updated))}
		if s.Version != "" {
			words = append(words, "by version "+s.Version)
		}
		if s.Protected {
			words = append(words, "termination protection on")
		}
		return slices.Concat([]string{"Stack", strings.Join(words, ", ")},
			fields("  Resources", s.Resources, func(all *[]health.Resource) []string {
				return []string{"  Resources", strconv.Itoa(len(*all))}
			}))
	})
}

func (v *statusView) table() []string {
	return fields("Table", v.Report.Table, func(d *admin.Description) []string {
		t := v.Table.Value
		return []string{
			"Table", fmt.Sprintf("%s, %s, %s items, %s (AWS counts about every six hours)", t.Status, strings.ToLower(t.Billing), limitarg.Grouped(t.Items), sizeOf(t.Bytes)),
			"  Indexes", indexes(t.Indexes),
			"  Expiry", strings.TrimSpace(t.TTL + " " + t.TTLBy),
			"  Stream", cmp.Or(t.Stream, "none"),
			"  Recovery", recovery(d),
			"  Deletion protection", map[bool]string{true: "on", false: "off"}[t.Protect],
		}
	})
}

// indexes groups the indexes by projection, and names what is not active.
func indexes(all []manage.IndexView) string {
	var words []string
	for _, ix := range all {
		word := ix.Name + " " + ix.Projection
		if ix.Status != "" && ix.Status != "ACTIVE" {
			word += " " + ix.Status
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func recovery(d *admin.Description) string {
	if d.Recovery.Days > 0 {
		return fmt.Sprintf("%s, %d days", d.Recovery.Status, d.Recovery.Days)
	}
	return d.Recovery.Status
}

// versions are unknown, as the namespaces are, without a table to read them from.
func (v *statusView) versions() []string {
	if v.Table.Problem != nil {
		return nil
	}
	return fields("Versions", v.Versions, func(of *health.Versions) []string {
		return []string{"Versions", fmt.Sprintf("client %s, schema %s, aggregator %s, oldest client %s",
			of.Client, cmp.Or(of.Schema, "-"), cmp.Or(of.Lambda, "-"), cmp.Or(of.ClientMin, "-"))}
	})
}

func (v *statusView) namespaces() []string {
	if v.Table.Problem != nil {
		return nil
	}
	return fields("Namespaces", v.Namespaces, func(all *[]health.Namespace) []string {
		const most = 8
		var names []string
		for _, n := range (*all)[:min(most, len(*all))] {
			names = append(names, n.Name)
		}
		if len(*all) > most {
			names = append(names, "…")
		}
		return []string{"Namespaces", strings.TrimSuffix(fmt.Sprintf("%d: %s", len(*all), strings.Join(names, ", ")), ": ")}
	})
}

func function(name string, f *health.Function) []string {
	if f == nil {
		return nil
	}
	return slices.Concat(
		fields(name, f.Code, func(c *health.Code) []string {
			return []string{name, fmt.Sprintf("%s, %s %s, %d MB, %d s, code %.12s of %s", strings.ToLower(c.State), c.Runtime, c.Architecture, c.MemoryMB, c.TimeoutS, c.SHA256, instant(c.Modified))}
		}),
		fields("  Mapping", f.Mapping, func(m *health.Mapping) []string {
			return []string{"  Mapping", strings.ToLower(m.State) + ", last result: " + cmp.Or(m.Result, "-")}
		}),
		fields("  Last hour", f.Activity, activity),
		fields("  Last error", f.LastError, func(l *health.LogLine) []string {
			return []string{"  Last error", instant(l.Time) + " " + l.Text}
		}),
	)
}

func activity(a *health.Activity) []string {
	out := []string{"  Last hour", fmt.Sprintf("%.0f calls, %.0f failed, %.0f throttled; %.0f records failed, %.0f unreadable", a.Calls, a.Errors, a.Throttles, a.Failed, a.Poisoned)}
	if a.IteratorAge != nil {
		out = append(out, "  Iterator age", fmt.Sprintf("%.1f s, at most %.1f s in 15 minutes", *a.IteratorAge/1000, *a.IteratorAgeMax/1000))
	}
	return out
}

func (v *statusView) deadLetters() []string {
	q := v.DeadLetters
	if q == nil {
		return nil
	}
	return slices.Concat(
		fields("Dead letters", q.Counts, func(c *health.Counts) []string {
			return []string{"Dead letters", fmt.Sprintf("%d, %d being handled", c.Visible, c.InFlight)}
		}),
		fields("  Oldest", q.Oldest, func(o *health.Oldest) []string {
			return []string{"  Oldest", (time.Duration(o.Seconds) * time.Second).String()}
		}),
	)
}

func (v *statusView) archive() []string {
	if v.Archive == nil {
		return nil
	}
	exists := fields("Archive", v.Archive.Exists, func(*bool) []string { return []string{"Archive", v.Archive.Bucket} })
	return append(exists, fields("  Lifecycle", v.Archive.Lifecycle, func(rules *[]health.Rule) []string {
		var words []string
		for _, r := range *rules {
			words = append(words, rule(r))
		}
		return []string{"  Lifecycle", cmp.Or(strings.Join(words, "; "), "none")}
	})...)
}

func rule(r health.Rule) string {
	s := cmp.Or(r.Prefix, "all objects")
	if r.To != "" {
		s += fmt.Sprintf(" to %s after %d days", r.To, r.Days)
	}
	if r.ExpireDays > 0 {
		s += fmt.Sprintf(" deleted after %d days", r.ExpireDays)
	}
	if !r.Enabled {
		s += " (disabled)"
	}
	return s
}

func (v *statusView) alarms() []string {
	return fields("Alarms", v.Alarms, func(all *[]health.Alarm) []string {
		counts := map[string]int{}
		var active []string
		for _, a := range *all {
			counts[a.State]++
			if a.State == health.AlarmActive {
				active = append(active, "  "+a.Name, "ALARM since "+instant(a.Since))
			}
		}
		var words []string
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			words = append(words, fmt.Sprintf("%d %s", counts[state], state))
		}
		return append([]string{"Alarms", strings.Join(words, ", ")}, active...)
	})
}

// maxEvents is how many events the text has; JSON has all.
const maxEvents = 20

// events writes the last events of an operation that runs or did not succeed.
func (v *statusView) events(w *strings.Builder) {
	if v.Stack.Value == nil || v.Stack.Value.Events.Value == nil {
		return
	}
	all := *v.Stack.Value.Events.Value
	rows := [][]string{}
	for _, e := range all[max(0, len(all)-maxEvents):] {
		rows = append(rows, []string{instant(e.Time), e.LogicalID, e.Status, e.Reason})
	}
	w.WriteByte('\n')
	app.Table(w, []string{"TIME", "RESOURCE", "STATUS", "REASON"}, rows)
}

func (v *statusView) listOutputs(w *strings.Builder) {
	if v.Stack.Value == nil {
		return
	}
	rows := [][]string{}
	for _, name := range slices.Sorted(maps.Keys(v.Stack.Value.Outputs)) {
		rows = append(rows, []string{name, v.Stack.Value.Outputs[name]})
	}
	w.WriteByte('\n')
	app.Table(w, []string{"OUTPUT", "VALUE"}, rows)
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sizeOf writes a size in powers of 1000, as AWS bills.
func sizeOf(n int64) string {
	const k = 1000
	size, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for ; size >= k && len(units) > 1; units = units[1:] {
		size /= k
	}
	if n < k {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
