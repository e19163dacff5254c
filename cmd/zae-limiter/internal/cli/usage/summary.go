package usage

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
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
	return a.Prints(cmd, manage.UsageSum{})
}

// Run adds up.
func (o *summaryOptions) Run(ctx context.Context) error {
	table, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.SumUsage(ctx, table, o.query)
	if err != nil {
		return err
	}
	o.app.Remark(v.Note)
	sum := v.Sum()
	rows, write := make([][]string, len(sum.Limits)), grouped
	if o.app.Flags.Output == outputCSV {
		write = manage.Tokens
	}
	for i, t := range sum.Limits {
		rows[i] = []string{t.Limit, write(t.Total), write(t.Average), strconv.Itoa(t.Windows)}
	}
	return o.app.Print(v, func(w *strings.Builder) {
		if o.app.Flags.Output == outputCSV {
			writeCSV(w, []string{"limit_name", "total", "average", "windows"}, rows)
			return
		}
		o.text(w, sum)
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
