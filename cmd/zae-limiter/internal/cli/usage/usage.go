// Package usage has the commands that show what was consumed, by window of time.
package usage

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// New is the command usage.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("usage", "Show what entities have consumed, by hour, day or month",
		newList(a), newSummary(a))
	cmd.Long = cmd.Short + ".\n\nEach bucket keeps what it consumed in each hour, so the figures reach up to now. An aggregator\n" +
		"saves what buckets leave that expire. Without one, the last hours of such buckets are missing."
	return cmd
}

// outputCSV is a value of the output flag that only these commands have.
const outputCSV = "csv"

// filter holds the flags that select snapshots.
type filter struct {
	query      usage.Query
	start, end string
}

// bind adds the flags to a command.
func (f *filter) bind(a *app.App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.VarP(app.Named(&f.query.Entity), "entity", "e", "`ID` of the entity; without --resource, for all resources")
	flags.VarP(app.Named(&f.query.Resource), "resource", "r", "`name` of the resource; without --entity, of all entities")
	flags.VarP(app.Window(&f.query.Window), "window", "w", "length of the windows, in UTC")
	flags.Var(app.Named(&f.start), "start", "first `time` a window may start, 2006-01-02 or 2006-01-02T15:04:05Z")
	flags.Var(app.Named(&f.end), "end", "last `time` a window may start; of a date, the whole day")
	flags.BoolVar(&f.query.Now, "now", false, "count the last second too: strongly consistent reads, which cost twice\nas much")
	flags.VarP(app.Choice(&a.Flags.Output, app.OutputTable, app.OutputJSON, outputCSV), "output", "o", "form of results: table, json or csv")
}

// Validate reads the flags into the query.
func (f *filter) Validate() (err error) {
	if f.query.Entity == "" && f.query.Resource == "" {
		return errors.New("nothing to look for: give --entity, --resource or both")
	}
	if f.query.Entity != "" {
		if err := store.CheckEntity(f.query.Entity); err != nil {
			return fmt.Errorf("--entity: %w", err)
		}
	}
	if f.query.Resource != "" {
		if err := store.CheckResource(f.query.Resource); err != nil {
			return fmt.Errorf("--resource: %w", err)
		}
	}
	f.query.From, f.query.To, err = app.ParseRange(f.start, f.end)
	return err
}

// grouped is [manage.Tokens] in texts for people.
func grouped(amount *big.Int) string { return limitarg.GroupedDecimal(manage.Tokens(amount)) }

// writeCSV writes rows under a header.
func writeCSV(w *strings.Builder, header []string, rows [][]string) {
	c := csv.NewWriter(w)
	_ = c.Write(header) // w never fails
	_ = c.WriteAll(rows)
}
