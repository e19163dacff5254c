// Package usage has the commands that show what was consumed, by window of time.
package usage

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/dynamo"
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

// ask opens the store and runs a query on it. If the answer is empty, the note says why.
func ask[T any](ctx context.Context, a *app.App, q usage.Query, answer func(*usage.Snapshots, context.Context, usage.Query) (T, error), isEmpty func(T) bool) (t T, note string, err error) {
	table, err := a.Store(ctx)
	if err != nil {
		return t, "", err
	}
	if t, err = answer(table.Usage(), ctx, q); err != nil || !isEmpty(t) {
		return t, "", err
	}
	why, err := reason(ctx, table, q)
	return t, a.Explain(err == nil, "%s", why), err
}

// reason says why a query finds nothing. It asks for what is like the query.
func reason(ctx context.Context, s *dynamo.Store, q usage.Query) (string, error) {
	if q.Cursor != "" {
		return "there is no more usage after the cursor", nil
	}
	q.Limit = 1
	asked := q
	for _, like := range []struct {
		change func(*usage.Query)
		say    func(*usage.Snapshot) string
	}{
		{func(like *usage.Query) { like.From, like.To = time.Time{}, time.Time{} }, func(u *usage.Snapshot) string {
			return "there is none from --start to --end; the newest window with usage starts at " + u.Start.Format(time.RFC3339)
		}},
		{func(like *usage.Query) { like.Resource = "" }, func(u *usage.Snapshot) string {
			return fmt.Sprintf("entity %s has no usage of resource %s; it has some of %s", asked.Entity, asked.Resource, u.Resource)
		}},
	} {
		q := asked
		like.change(&q)
		if q == asked || q.Entity == "" && q.Resource == "" {
			continue
		}
		page, err := s.Usage().Read(ctx, q)
		if err != nil {
			return "", err
		}
		if len(page.Snapshots) > 0 {
			return "no usage was found: " + like.say(&page.Snapshots[0]), nil
		}
		asked.From, asked.To = time.Time{}, time.Time{} // there is none of any time
	}
	switch acquired, err := hasBucket(ctx, s, asked.Entity, asked.Resource); {
	case err != nil:
		return "", err
	case acquired:
		return "no usage was found, and there is a bucket: only clients of the Python package have used it, or nothing was consumed", nil
	}
	return "no usage was found: nothing was acquired lately, or the names are spelled otherwise", nil
}

// hasBucket reports whether an entity, a resource or the two together have a bucket. The first
// acquire makes it, and the policy of a reader permits to look.
func hasBucket(ctx context.Context, s *dynamo.Store, entity, resource string) (bool, error) {
	if entity == "" {
		for _, err := range s.ResourceBuckets(ctx, resource) {
			return err == nil, err
		}
		return false, nil
	}
	all, err := s.EntityResources(ctx, entity)
	return slices.ContainsFunc(all, func(r dynamo.EntityResource) bool {
		return r.Shards > 0 && (resource == "" || resource == r.Resource)
	}), err
}

// milli is the number of millitokens in a token.
const milli = 1000

// tokens writes millitokens as tokens, exactly.
func tokens(amount *big.Int) string {
	whole, rest := new(big.Int).QuoRem(amount, big.NewInt(milli), new(big.Int))
	if rest.Sign() == 0 {
		return whole.String()
	}
	sign := ""
	if amount.Sign() < 0 {
		sign = "-"
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%03d", sign, whole.Abs(whole), rest.Abs(rest)), "0")
}

// grouped is [tokens] in texts for people.
func grouped(amount *big.Int) string { return limitarg.GroupedDecimal(tokens(amount)) }

// number is [tokens] in JSON.
func number(amount *big.Int) json.Number { return json.Number(tokens(amount)) }

// writeCSV writes rows under a header.
func writeCSV(w *strings.Builder, header []string, rows [][]string) {
	c := csv.NewWriter(w)
	_ = c.Write(header) // w never fails
	_ = c.WriteAll(rows)
}
