package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// defaultTop is the default number of limits that the command top shows.
const defaultTop = 10

// percent is the whole of a share.
const percent = 100

type topOptions struct {
	app      *app.App
	resource []string // at most one
	all      bool
	most     int
	above    float64
	parents  bool
	slots    bool
	shadow   bool
}

func newTop(a *app.App) *cobra.Command {
	o := &topOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "top [RESOURCE]",
		Args:  cobra.MaximumNArgs(1),
		Short: "Show the entities that are nearest to their limits",
		Long: "Show the entities that are nearest to their limits of a resource, or of all resources of\n" +
			"the namespace, the most used limit first. Each limit counts on its own, over all shards.\n\n" +
			"The command reads every bucket of the resource: half a read unit for each, and about half\n" +
			"for every 20 of the index.\n\n" +
			"With --shadow, show the limits in shadow that would have refused requests: those that would\n" +
			"have refused the most tokens first, and when they did so last.\n\n" +
			"With --slots, show the slots that are nearest to being all held, and by how many processes.\n" +
			"The command then reads the slots that were held within a day instead of buckets.",
		Example: "  zae-limiter top gpt-4\n" +
			"  zae-limiter top gpt-4 --max 50 --output json\n" +
			"  zae-limiter top --all-resources --above 80\n" +
			"  zae-limiter top gpt-4 --without-parent\n" +
			"  zae-limiter top gpt-4 --shadow\n" +
			"  zae-limiter top gpt-4 --slots",
	}, &o.resource)
	cmd.Flags().BoolVar(&o.all, "all-resources", false, "look at every resource of the namespace")
	cmd.Flags().BoolVar(&o.parents, "without-parent", false, "leave out entities that have a parent: show projects, and not\ntheir keys")
	cmd.Flags().BoolVar(&o.slots, "slots", false, "show slots that are held, and not limits")
	cmd.Flags().BoolVar(&o.shadow, "shadow", false, "show limits in shadow that would have refused requests")
	cmd.Flags().Float64Var(&o.above, "above", 0, "show only limits of which at least this `percentage` is used")
	cmd.Flags().IntVar(&o.most, "max", defaultTop, fmt.Sprintf("`number` of limits to show, up to %d", limiter.MaxTop))
	return a.Prints(cmd, manage.Top{})
}

// Validate checks the resource and the numbers.
func (o *topOptions) Validate() error {
	switch {
	case o.most < 1 || o.most > limiter.MaxTop:
		return fmt.Errorf("invalid --max %d: give 1 to %d", o.most, limiter.MaxTop)
	case !(o.above >= 0): // NaN too
		return fmt.Errorf("invalid --above %v: give a percentage, like 80", o.above)
	case o.shadow && o.slots:
		return errors.New("--shadow shows limits, and --slots shows slots: give one of them")
	case o.all && len(o.resource) > 0:
		return fmt.Errorf("--all-resources shows %s too: give one of them", o.resource[0])
	case o.all:
		return nil
	case len(o.resource) == 0:
		return errors.New("missing argument RESOURCE: name one, or give --all-resources")
	}
	return store.CheckResource(o.resource[0])
}

// Run shows the most used limits.
func (o *topOptions) Run(ctx context.Context) error {
	l, err := o.app.OpenLimiter(ctx)
	if err != nil {
		return err
	}
	q := manage.TopQuery{TopQuery: limiter.TopQuery{Most: o.most, WithoutParent: o.parents, Shadow: o.shadow}, Above: o.above, Slots: o.slots}
	if !o.all {
		q.Resource = o.resource[0]
	}
	v, err := manage.GetTop(ctx, l, q, o.app.Flags.Namespace)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	o.app.Remark(v.Note)
	if o.slots {
		return o.app.Print(v, func(w *strings.Builder) { app.Table(w, slotHeader(), slotRows(v.Uses())) })
	}
	return o.app.Print(v, func(w *strings.Builder) { o.text(w, v.Balances()) })
}

// text writes limits for people.
func (o *topOptions) text(w *strings.Builder, top []limiter.Balance) {
	header := balanceHeader()
	if o.shadow {
		header = append(header, "WOULD REFUSE", "LAST")
	}
	rows := make([][]string, len(top))
	for i := range top {
		rows[i] = balanceRow(&top[i])
		if o.shadow {
			rows[i] = append(rows[i], limitarg.Grouped(top[i].Shadowed), top[i].ShadowedAt.Format(time.RFC3339))
		}
	}
	app.Table(w, header, rows)
}
