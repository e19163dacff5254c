package usage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

type listOptions struct {
	app *app.App
	filter
	plot bool
}

func newList(a *app.App) *cobra.Command {
	o := &listOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "list",
		Short: "List what was consumed in each window, the newest first",
		Example: "  zae-limiter usage list --entity key-1 --resource gpt-4\n" +
			"  zae-limiter usage list --resource gpt-4 --window daily --start 2026-01-01 --end 2026-01-31\n" +
			"  zae-limiter usage list --entity key-1 --plot",
	})
	o.bind(a, cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.query.Limit, "max", usage.DefaultLimit, fmt.Sprintf("maximum `number` of windows, up to %d", usage.MaxLimit))
	flags.StringVar(&o.query.Cursor, "cursor", "", "`place` to continue from, as printed after the previous list")
	flags.BoolVarP(&o.plot, "plot", "p", false, "draw a chart of each limit: bars for each entity of one window, or\nthe sums of several windows")
	return a.Prints(cmd, manage.Usage{})
}

// Validate checks the flags.
func (o *listOptions) Validate() error {
	if err := o.filter.Validate(); err != nil {
		return err
	}
	if o.query.Limit < 1 || o.query.Limit > usage.MaxLimit {
		return fmt.Errorf("invalid --max %d: give 1 to %d", o.query.Limit, usage.MaxLimit)
	}
	if o.plot && o.app.Flags.Output != app.OutputTable {
		return fmt.Errorf("--plot and --output %s contradict each other", o.app.Flags.Output)
	}
	return nil
}

// Run lists the snapshots.
func (o *listOptions) Run(ctx context.Context) error {
	table, err := o.app.Store(ctx)
	if err != nil {
		return err
	}
	v, err := manage.ListUsage(ctx, table, o.query)
	if err != nil {
		return err
	}
	o.app.Remark(v.Note)
	page := v.Page()
	err = o.app.Print(v, func(w *strings.Builder) {
		switch {
		case o.plot:
			plot(w, o.app.Columns(), &o.query, page)
		case o.app.Flags.Output == outputCSV:
			listCSV(w, page.Snapshots)
		default:
			listTable(w, page.Snapshots)
		}
	})
	if err != nil || page.Next == "" {
		return err
	}
	// Standard error, since a program may read the results.
	o.app.Notef("There is more: repeat the command with --cursor %s", page.Next)
	return nil
}

func listTable(w *strings.Builder, snapshots []usage.Snapshot) {
	rows := make([][]string, len(snapshots))
	for i := range snapshots {
		u := &snapshots[i]
		used := make([]string, len(u.Tokens))
		for j, a := range u.Tokens {
			used[j] = a.Limit + "=" + grouped(a.Milli)
		}
		rows[i] = []string{
			u.Start.Format(time.RFC3339), u.Window.String(), u.Entity, u.Resource,
			limitarg.Grouped(u.Events), strings.Join(used, " "),
		}
	}
	app.Table(w, []string{"START", "WINDOW", "ENTITY", "RESOURCE", "EVENTS", "TOKENS"}, rows)
}

// listCSV writes a row for each limit of a snapshot, so that the columns do not depend on
// the limits.
func listCSV(w *strings.Builder, snapshots []usage.Snapshot) {
	var rows [][]string
	for i := range snapshots {
		u := &snapshots[i]
		row := []string{
			u.Start.Format(time.RFC3339), u.End().Format(time.RFC3339), u.Window.String(), u.Entity, u.Resource,
			strconv.FormatInt(u.Events, 10),
		}
		for _, a := range u.Tokens {
			rows = append(rows, append(slices.Clip(row), a.Limit, manage.Tokens(a.Milli)))
		}
		if len(u.Tokens) == 0 {
			rows = append(rows, append(row, "", ""))
		}
	}
	writeCSV(w, []string{"start_at", "end_at", "window", "entity_id", "resource", "events", "limit_name", "tokens"}, rows)
}
