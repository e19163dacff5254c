package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

type standingOptions struct{ bucketArgs }

func newStanding(a *app.App) *cobra.Command {
	o := &standingOptions{bucketArgs{app: a}}
	return a.Prints(a.Command(o, &cobra.Command{
		Use:   "standing ENTITY RESOURCE",
		Short: "Show every limit of an entity: where it comes from, and what is left",
		Long: "Show every limit of an entity for a resource, and of its parent if it cascades: the level\n" +
			"of configuration that has it, its balance over all shards, how long until there is a token,\n" +
			"and until it is full. Of slots, how many are held. The command takes nothing. To ask for the\n" +
			"chances of one request, use zae-limiter available, and for holders of slots zae-limiter slots.",
		Example: "  zae-limiter standing key-1 gpt-4\n" +
			"  zae-limiter standing key-1 gpt-4 --output json",
	}, &o.entity, &o.resource), &manage.Standing{})
}

// Run shows the standing.
func (o *standingOptions) Run(ctx context.Context) error {
	l, err := o.app.OpenLimiter(ctx)
	if err != nil {
		return err
	}
	v, err := manage.GetStanding(ctx, l, o.entity, o.resource)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	return o.app.Print(v, func(w *strings.Builder) {
		s := v.Is()
		var rows, slots [][]string
		for side := s; side != nil; side = side.Parent {
			slots = append(slots, slotRows(side.Slots)...)
			for i := range side.Limits {
				rows = append(rows, append(balanceRow(&side.Limits[i]), side.Level.String()))
			}
		}
		app.Table(w, append(balanceHeader(), "LEVEL"), rows)
		if len(slots) > 0 {
			w.WriteByte('\n')
			app.Table(w, slotHeader(), slots)
		}
		for _, remark := range remarks(s) {
			w.WriteString("\n" + remark + "\n")
		}
	})
}

// remarks say what the balances of a standing do not.
func remarks(s *limiter.Standing) (lines []string) {
	for side := s; side != nil; side = side.Parent {
		if side.Disabled {
			lines = append(lines, switchRemark(side, "disabled")+": nothing can be acquired")
		}
		if side.Bypassed {
			lines = append(lines, switchRemark(side, "bypassed")+": everything is admitted, and counted")
		}
		if slices.ContainsFunc(side.Limits, func(b limiter.Balance) bool { return b.Pending }) {
			lines = append(lines, fmt.Sprintf("the bucket of %s for %s still has former limits: the next acquire brings it these, and the waits count from then", side.Entity, side.Resource))
		}
		if side.Level == limiter.LevelNone {
			lines = append(lines, fmt.Sprintf("no level configures limits of %s for %s", side.Resource, side.Entity))
		}
	}
	return lines
}

// switchRemark says what a switch has done, by which level, and until when.
func switchRemark(s *limiter.Standing, done string) string {
	text := fmt.Sprintf("%s is %s for %s", s.Resource, done, s.Entity)
	if s.DisabledBy != limiter.LevelNone {
		text += " by the level " + s.DisabledBy.String()
	}
	if !s.DisabledUntil.IsZero() {
		text += " until " + s.DisabledUntil.UTC().Format(time.RFC3339)
	}
	return text
}

// share is a used share in percent.
func share(used float64) string { return strconv.FormatFloat(percent*used, 'f', 0, 64) + "%" }

// balanceHeader has the names of the columns of a [balanceRow].
func balanceHeader() []string {
	return []string{"ENTITY", "RESOURCE", "LIMIT", "RATE", "AVAILABLE", "CAPACITY", "USED", "TOKEN IN", "FULL IN"}
}

func balanceRow(b *limiter.Balance) []string {
	return []string{
		b.Entity, b.Resource, b.Limit.Name, limitarg.Rate(b.Limit), limitarg.Grouped(b.Available), limitarg.Grouped(b.Limit.Capacity),
		share(b.Used), within(b.RetryAfter), within(b.FullAfter),
	}
}
