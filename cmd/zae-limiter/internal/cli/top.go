package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/store"
)

// defaultTop is the default number of limits that the command top shows.
const defaultTop = 10

type topOptions struct {
	app      *app.App
	resource string
	most     int
}

func newTop(a *app.App) *cobra.Command {
	o := &topOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "top RESOURCE",
		Short: "Show the entities that are nearest to their limits",
		Long: "Show the entities that are nearest to their limits of a resource, the most used limit\n" +
			"first. Each limit counts on its own, over all shards.\n\n" +
			"The command reads every bucket of the resource: half a read unit for each, and about half\n" +
			"for every 20 of the index.",
		Example: "  zae-limiter top gpt-4\n" +
			"  zae-limiter top gpt-4 --max 50 --output json",
	}, &o.resource)
	cmd.Flags().IntVar(&o.most, "max", defaultTop, fmt.Sprintf("`number` of limits to show, up to %d", limiter.MaxTop))
	return a.Prints(cmd, topView{})
}

// Validate checks the resource and the number.
func (o *topOptions) Validate() error {
	if o.most < 1 || o.most > limiter.MaxTop {
		return fmt.Errorf("invalid --max %d: give 1 to %d", o.most, limiter.MaxTop)
	}
	return store.CheckResource(o.resource)
}

// topView is the result in JSON.
type topView struct {
	Resource string        `json:"resource"`
	Limits   []balanceView `json:"limits"`         // the limits, the most used first
	Note     string        `json:"note,omitempty"` // why there are none
}

// Run shows the most used limits.
func (o *topOptions) Run(ctx context.Context) error {
	l, err := o.app.OpenLimiter(ctx)
	if err != nil {
		return err
	}
	top, err := l.Top(ctx, o.resource, o.most)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	rows := make([][]string, len(top))
	for i := range top {
		rows[i] = balanceRow(&top[i])
	}
	note := o.app.Explain(len(top) == 0, "no entity of namespace %s has a bucket of resource %s: it is spelled otherwise (see zae-limiter resource list), or nobody has acquired it lately", o.app.Flags.Namespace, o.resource)
	return o.app.Print(topView{o.resource, balanceViews(top), note}, func(w *strings.Builder) {
		app.Table(w, balanceHeader(), rows)
	})
}
