package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Report is the result in JSON, as docs/replay.md documents it.
type Report struct {
	*replay.Result

	Lines     *logs.Malformed   `json:"lines,omitempty"`     // the lines that were read; absent for usage
	Proposals *replay.Proposals `json:"proposals,omitempty"` // limits that meet the target of refusals
}

// notes are sentences about what was not read.
func (o *Report) notes() (notes []string) {
	if o.Lines.Count > 0 {
		notes = append(notes, fmt.Sprintf("%s of %s lines are malformed and left out:", limitarg.Grouped(o.Lines.Count), limitarg.Grouped(o.Lines.Lines)))
	}
	for _, r := range o.Lines.Reasons {
		notes = append(notes, counted(r.Lines)+problem(r.First))
	}
	for _, l := range o.Lines.Lacking {
		notes = append(notes, fmt.Sprintf("%s of %s events lack a cost of %s and count for the other limits:", limitarg.Grouped(l.Events), limitarg.Grouped(o.Events), l.Limit),
			counted(l.Events)+problem(l.First))
	}
	for _, p := range o.Lines.Cut {
		notes = append(notes, problem(p))
	}
	return notes
}

// counted introduces the first of some lines.
func counted(lines int64) string {
	if lines == 1 {
		return ""
	}
	return limitarg.Grouped(lines) + " as "
}

func problem(p logs.Problem) string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason) }

// Text writes the result for people.
func (o *Report) Text(w *strings.Builder) {
	fmt.Fprintf(w, "%s events of %s buckets: %s refused (%s)\n",
		limitarg.Grouped(o.Events), limitarg.Grouped(int64(o.Buckets)), limitarg.Grouped(o.Refused), percent(o.RefusedShare))
	if o.Events > 0 {
		fmt.Fprintf(w, "from %s to %s\n", o.From.Format(time.RFC3339), o.To.Format(time.RFC3339))
	}
	for _, l := range o.Limits {
		if l.WouldRefuse > 0 {
			fmt.Fprintf(w, "%s in shadow, of %s, would have refused %s of %s events\n", l.Name, l.Level, limitarg.Grouped(l.WouldRefuse), limitarg.Grouped(l.Events))
		}
	}
	if o.Late > 0 {
		fmt.Fprintf(w, "%s came too late and were decided at a later instant: see --window\n", limitarg.Grouped(o.Late))
	}
	if o.Unlimited > 0 {
		fmt.Fprintf(w, "%s have no limits\n", limitarg.Grouped(o.Unlimited))
	}
	for _, note := range o.notes() {
		w.WriteString(note + "\n")
	}
	w.WriteByte('\n')
	app.Table(w, []string{"LEVEL", "LIMIT", "BUCKETS", "EVENTS", "REFUSED", "SHARE", "NEVER", "LONGEST WAIT", "WAIT P99", "HEADROOM P1", "P10", "P50"}, o.limitRows())
	if rows := o.topRows(); len(rows) > 0 {
		w.WriteByte('\n')
		app.Table(w, o.topHeader(), rows)
	}
	o.proposalText(w)
}

func (o *Report) limitRows() (rows [][]string) {
	for _, l := range o.Limits {
		longest, p99 := "", ""
		if l.Wait != nil {
			longest, p99 = wait(l.Wait.Longest.WaitMS), wait(l.Wait.P99MS)
		}
		h := l.Headroom
		rows = append(rows, []string{
			l.Level, limitarg.Format(l.Limit), limitarg.Grouped(l.Buckets), limitarg.Grouped(l.Events), limitarg.Grouped(l.Refused), percent(l.RefusedShare),
			limitarg.Grouped(l.Never), longest, p99, left(l, h.P1), left(l, h.P10), left(l, h.P50),
		})
	}
	return rows
}

// isInShadow reports whether any limit is, for some entities at least.
func (o *Report) isInShadow() bool {
	return slices.ContainsFunc(o.Limits, func(l replay.LimitResult) bool { return l.Limit.Mode == store.Shadow })
}

// shadowColumn is where the rows of buckets have what limits in shadow would have refused, if any limit is in shadow.
const shadowColumn = 5

func (o *Report) topHeader() []string {
	header := []string{"MOST REFUSED", "RESOURCE", "EVENTS", "REFUSED", "BY PARENT", "SHARE", "LONGEST WAIT", "FROM", "TO", "WHEN"}
	if o.isInShadow() {
		header = slices.Insert(header, shadowColumn, "IN SHADOW")
	}
	return header
}

func (o *Report) topRows() (rows [][]string) {
	isInShadow := o.isInShadow()
	for _, b := range o.Top {
		first, last := "", ""
		if b.First != nil {
			first, last = b.First.Format(time.RFC3339), b.Last.Format(time.RFC3339)
		}
		row := []string{
			b.Entity, b.Resource, limitarg.Grouped(b.Events), limitarg.Grouped(b.Refused), limitarg.Grouped(b.RefusedByParent), percent(b.RefusedShare),
			wait(b.LongestMS), first, last, sparkline(b.Timeline),
		}
		if isInShadow {
			row = slices.Insert(row, shadowColumn, limitarg.Grouped(b.WouldRefuse))
		}
		rows = append(rows, row)
	}
	return rows
}

// sparkline draws refusals over time in one line.
func sparkline(slots []replay.Slot) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	most := int64(1)
	for _, s := range slots {
		most = max(most, s.Refused)
	}
	line := make([]rune, len(slots))
	for i, s := range slots {
		line[i] = levels[(s.Refused*int64(len(levels)-1)+most-1)/most]
	}
	return strings.TrimRight(string(line), " ")
}

func (o *Report) proposalText(w *strings.Builder) {
	p := o.Proposals
	if p == nil {
		return
	}
	fmt.Fprintf(w, "\nThe smallest limits that refuse at most %s, each searched alone in %d passes over its events:\n", percent(p.RefuseAtMost), p.Passes)
	var rows [][]string
	for _, l := range p.Limits {
		for _, c := range l.Choices {
			refused := ""
			if c.Met {
				refused = limitarg.Grouped(c.Refused)
			}
			rows = append(rows, []string{l.Level, string(c.Change), proposed(c), refused, limitarg.Grouped(l.Allowed)})
		}
	}
	app.Table(w, []string{"LEVEL", "CHANGED", "LIMIT", "REFUSED", "ALLOWED"}, rows)
	fmt.Fprintf(w, "The first choices together refuse %s (%s). One less of the changed value misses the target.\n",
		limitarg.Grouped(p.Refused), percent(p.RefusedShare))
}

// writePage writes the HTML page.
func (o *options) writePage(out *Report) error {
	var page bytes.Buffer
	if err := html(&page, view{"Replay of " + strings.Join(o.Files, ", "), out.Result, out.Proposals, out.notes()}); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return app.WriteFile(o.page, page.Bytes(), true)
}
