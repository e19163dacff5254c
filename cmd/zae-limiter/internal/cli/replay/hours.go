package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

// HoursText writes the report of hours for people.
func (o *Report) HoursText(w *strings.Builder) {
	if o.Events > 0 {
		fmt.Fprintf(w, "from %s to %s, %s hours of buckets\n", o.From.Format(time.RFC3339), o.To.Format(time.RFC3339), limitarg.Grouped(o.Events))
	}
	if o.Unlimited > 0 {
		fmt.Fprintf(w, "%s hours have no limits\n", limitarg.Grouped(o.Unlimited))
	}
	w.WriteByte('\n')
	var rows [][]string
	for i := range o.Limits {
		l := &o.Limits[i]
		rows = append(rows, append([]string{
			l.Level, limitarg.Format(l.Limit), limitarg.Grouped(l.Verdicts.Certain), limitarg.Grouped(l.Verdicts.Maybe), limitarg.Grouped(l.Verdicts.Never), limitarg.Grouped(l.Events),
		}, bounded(l.Refused+l.WouldRefuse, l.Asked, l.Bounds)...))
	}
	app.Table(w, append([]string{"LEVEL", "LIMIT", "CERTAIN", "MAYBE", "NEVER", "HOURS"}, boundsHeader...), rows)
	if rows = o.hoursRows(); len(rows) > 0 {
		w.WriteByte('\n')
		app.Table(w, append(append([]string{"MOST REFUSED", "RESOURCE", "LIMIT", "REFUSED"}, boundsHeader...), "FROM", "TO"), rows)
	}
}

var boundsHeader = []string{"CERTAIN HOURS", "MAYBE HOURS", "ASKED", "AT LEAST", "AT MOST"}

// bounded writes how many hours have refusals, and how many tokens were refused.
func bounded(certain, asked int64, b *replay.Bounds) []string {
	return []string{limitarg.Grouped(certain), limitarg.Grouped(b.MaybeHours), limitarg.Grouped(asked), limitarg.Grouped(b.AtLeast), limitarg.Grouped(b.AtMost)}
}

// hoursRows has a row for each limit of a bucket that may have refused something.
func (o *Report) hoursRows() (rows [][]string) {
	for i := range o.Top {
		b := &o.Top[i]
		first, last := "", ""
		if b.First != nil {
			first, last = b.First.Format(time.RFC3339), b.Last.Format(time.RFC3339)
		}
		for _, m := range b.Limits {
			if m.AtMost == 0 {
				continue
			}
			is := "maybe"
			if m.AtLeast > 0 {
				is = "certain"
			}
			if m.IsShadow {
				is += ", in shadow"
			}
			rows = append(rows, append(append([]string{b.Entity, b.Resource, m.Name, is}, bounded(m.Refused+m.WouldRefuse, m.Asked, m.Bounds)...), first, last))
		}
	}
	return rows
}
