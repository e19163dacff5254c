package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/chart"
	"github.com/zeroae/zae-limiter-go/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/replay"
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

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": percent, "wait": wait, "limit": limitarg.Format, "proposed": proposed, "instant": instant,
	"style": func() template.CSS { return chart.Style }, "timeline": timeline, "waits": waits, "headroom": headroom,
}).Parse(page))

// html writes the page.
func html(w io.Writer, p view) error {
	if err := layout.Execute(w, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// percent writes a share.
func percent(share float64) string {
	const digits, whole = 3, 100
	return strconv.FormatFloat(share*whole, 'g', digits, 64) + " %"
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

// timeline draws events over time, the refused ones in another color.
func timeline(slots []replay.Slot) template.HTML {
	columns := make([]chart.Column, len(slots))
	for i, s := range slots {
		columns[i] = chart.Column{
			Label: fmt.Sprintf("%s: %d events, %d refused", s.Start.Format(time.RFC3339), s.Events, s.Refused),
			High:  s.Events, Hot: s.Refused,
		}
	}
	return chart.Columns("events over time, and those refused", columns)
}

// waits draws how long refused events would have waited.
func waits(w *replay.Waits) template.HTML {
	columns := make([]chart.Column, len(w.Bars))
	for i, b := range w.Bars {
		columns[i] = chart.Column{
			Label: fmt.Sprintf("over %s, up to %s: %d refused", wait(b.OverMS), wait(b.UpToMS), b.Refused),
			Mark:  "≤ " + wait(b.UpToMS), High: b.Refused, Hot: b.Refused,
		}
	}
	return chart.Columns("waits of refused events", columns)
}

// headroom draws how much of the capacity admitted events left.
func headroom(h replay.Headroom) template.HTML {
	columns := make([]chart.Column, len(h.Tenths))
	for i, n := range h.Tenths {
		const tenth = 10
		columns[i] = chart.Column{
			Label: fmt.Sprintf("%d to %d %% left: %d events", i*tenth, (i+1)*tenth, n),
			Mark:  fmt.Sprintf("%d %%", i*tenth), High: n,
		}
	}
	return chart.Columns("what admitted events left of the capacity", columns)
}
