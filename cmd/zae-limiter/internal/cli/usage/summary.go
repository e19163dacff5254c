package usage

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

type summaryOptions struct {
	app *app.App
	filter
}

func newSummary(a *app.App) *cobra.Command {
	o := &summaryOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "summary",
		Short: "Add up what was consumed, and show the average by window",
		Long: "Add up what was consumed, and show the average by window.\n\n" +
			"An average is for one window: of all entities and resources together. Without --entity, a\n" +
			"request of an entity that cascades counts twice, for the entity and for its parent.",
		Example: "  zae-limiter usage summary --entity key-1 --window daily --start 2026-01-01 --end 2026-01-31",
	})
	o.bind(a, cmd)
	return a.Prints(cmd, summaryView{})
}

// total is the usage of a limit, in JSON.
type total struct {
	Limit   string      `json:"limit_name"`
	Total   json.Number `json:"total"`   // tokens that were consumed
	Average json.Number `json:"average"` // for each window
	Windows int         `json:"windows"`
}

// summaryView is the result in JSON.
type summaryView struct {
	Entity    *string    `json:"entity_id"`
	Resource  *string    `json:"resource"`
	Window    string     `json:"window"`
	Snapshots int        `json:"snapshots"` // number of snapshots
	Windows   int        `json:"windows"`
	Entities  int        `json:"entities"`             // number of entities
	Twice     bool       `json:"cascades_count_twice"` // a cascading acquire counts for the entity and for its parent
	Events    int64      `json:"events"`               // acquires that were counted
	First     *time.Time `json:"first_start_at"`       // beginning of the first window
	Last      *time.Time `json:"last_start_at"`        // beginning of the last window
	Limits    []total    `json:"limits"`
	Note      string     `json:"note,omitempty"` // why there are none
}

// Run adds up.
func (o *summaryOptions) Run(ctx context.Context) error {
	sum, note, err := ask(ctx, o.app, o.query, (*usage.Snapshots).Sum, func(s usage.Summary) bool { return s.Snapshots == 0 })
	if err != nil {
		return err
	}
	v := summaryView{
		Window: o.query.Window.String(), Snapshots: sum.Snapshots, Windows: sum.Windows, Entities: sum.Entities, Twice: o.query.Entity == "", Events: sum.Events, Limits: make([]total, len(sum.Limits)),
		Note: note, Entity: given(o.query.Entity), Resource: given(o.query.Resource), First: given(sum.First), Last: given(sum.Last),
	}
	rows, write := make([][]string, len(sum.Limits)), grouped
	if o.app.Flags.Output == outputCSV {
		write = tokens
	}
	for i, t := range sum.Limits {
		v.Limits[i] = total{t.Limit, number(t.Total), number(t.Average), t.Windows}
		rows[i] = []string{t.Limit, write(t.Total), write(t.Average), strconv.Itoa(t.Windows)}
	}
	return o.app.Print(v, func(w *strings.Builder) {
		if o.app.Flags.Output == outputCSV {
			writeCSV(w, []string{"limit_name", "total", "average", "windows"}, rows)
			return
		}
		o.text(w, &sum)
		w.WriteByte('\n')
		app.Table(w, []string{"LIMIT", "TOTAL", "AVERAGE", "WINDOWS"}, rows)
		if o.query.Entity == "" && sum.Entities > 1 {
			w.WriteString("\nA request of an entity that cascades counts twice here: for the entity and for its parent.\n")
		}
	})
}

// text writes the summary for people.
func (o *summaryOptions) text(w *strings.Builder, sum *usage.Summary) {
	first, last := "", ""
	if sum.Snapshots > 0 {
		first, last = sum.First.Format(time.RFC3339), sum.Last.Format(time.RFC3339)
	}
	app.Fields(w, "Entity", o.query.Entity, "Resource", o.query.Resource, "Window", o.query.Window.String(),
		"Windows", strconv.Itoa(sum.Windows), "Entities", strconv.Itoa(sum.Entities), "Events", limitarg.Grouped(sum.Events), "First", first, "Last", last)
}

// given is nil for a zero value.
func given[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}
