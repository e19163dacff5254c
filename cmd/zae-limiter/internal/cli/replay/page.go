package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

//go:embed page.html
var page string

// view is what the page shows.
type view struct {
	Title     string
	Result    *replay.Result
	Proposals *replay.Proposals // nil if none were asked for
	Notes     []string          // on malformed lines, for instance
}

// layout is the page, once it is needed.
var layout = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"percent": percent, "wait": wait, "limit": limitarg.Format, "proposed": proposed, "instant": instant,
		"style": func() template.CSS { return chart.Style }, "timeline": timeline, "waits": waits, "headroom": headroom,
		"spark": spark, "grouped": limitarg.Grouped[int64], "whole": limitarg.Grouped[int], "left": left,
	}).Parse(page))
})

// html writes the page.
func html(w io.Writer, p view) error {
	if err := layout().Execute(w, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// percent writes a share. Only the whole is 100 %.
func percent(share float64) string {
	const digits, most, whole = 3, 17, 100
	text := strconv.FormatFloat(share*whole, 'g', digits, 64)
	for n := digits + 1; text == "100" && share < 1 && n <= most; n++ {
		text = strconv.FormatFloat(share*whole, 'g', n, 64)
	}
	return text + " %"
}

// wait writes milliseconds as a duration.
func wait(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}

// proposed writes the limit of a choice as the command line does.
func proposed(c replay.Choice) string {
	if !c.Met {
		return "none: some events cost more than the burst, or come at one instant"
	}
	return limitarg.Format(c.Limit)
}

func instant(t time.Time) string { return t.Format(time.RFC3339) }

// left writes the share of a limit that events left; nothing if the limit admitted none.
func left(l replay.LimitResult, share float64) string {
	if l.Events == l.Refused {
		return "–"
	}
	return percent(share)
}

// timeline draws events over time, the refused ones in another color.
func timeline(slots []replay.Slot) template.HTML {
	const marks = 8
	each, columns := (len(slots)+marks-1)/marks, columnsOf(slots)
	for i := range columns {
		if i%each == each/2 && i+each/2 < len(slots) {
			columns[i].Mark = slots[i].Start.Format(clockOf(slots))
		}
	}
	return chart.Columns("events over time, and those refused", "", columns)
}

// clockOf is how the instants of slots are written that follow one another.
func clockOf(slots []replay.Slot) string {
	const day = 24 * time.Hour
	long := slots[len(slots)-1].Start.Sub(slots[0].Start)
	switch {
	case long >= day*time.Duration(len(slots)):
		return "2 Jan 2006"
	case long >= day:
		return "2 Jan 15:04"
	case long >= time.Minute*time.Duration(len(slots)):
		return "15:04"
	}
	return time.TimeOnly
}

// spark draws refusals over time in a line of a table.
func spark(slots []replay.Slot) template.HTML {
	return chart.Spark("refused events over time", columnsOf(slots))
}

func columnsOf(slots []replay.Slot) []chart.Column {
	columns := make([]chart.Column, len(slots))
	for i, s := range slots {
		columns[i] = chart.Column{
			Label: fmt.Sprintf("%s: %s events, %s refused", instant(s.Start), limitarg.Grouped(s.Events), limitarg.Grouped(s.Refused)),
			High:  s.Events, Hot: s.Refused,
		}
	}
	return columns
}

// waits draws how long refused events would have waited.
func waits(w *replay.Waits) template.HTML {
	columns := make([]chart.Column, len(w.Bars))
	for i, b := range w.Bars {
		columns[i] = chart.Column{
			Label: fmt.Sprintf("over %s, up to %s: %s refused", wait(b.OverMS), wait(b.UpToMS), limitarg.Grouped(b.Refused)),
			Mark:  "≤ " + wait(b.UpToMS), High: b.Refused, Hot: b.Refused,
		}
	}
	return chart.Columns("waits of refused events", "", columns)
}

// headroom draws how much of the capacity admitted events left.
func headroom(h replay.Headroom) template.HTML {
	columns := make([]chart.Column, len(h.Tenths))
	for i, n := range h.Tenths {
		const tenth = 10
		columns[i] = chart.Column{
			Label: fmt.Sprintf("%d to %d %% left: %s events", i*tenth, (i+1)*tenth, limitarg.Grouped(n)),
			Mark:  fmt.Sprintf("%d %%", i*tenth), High: n,
		}
	}
	return chart.Columns("what admitted events left of the capacity", "", columns)
}
