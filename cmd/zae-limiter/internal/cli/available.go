package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/store"
)

type availableOptions struct {
	app      *app.App
	request  limiter.Request
	consume  limitarg.Amounts
	also     limitarg.Also
	fallback app.LimitsFlag
}

func newAvailable(a *app.App) *cobra.Command {
	o := &availableOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "available ENTITY RESOURCE",
		Short: "Show balances, and how long a request would have to wait",
		Long: "Show how many tokens of a resource an entity may take now, and its parent if it cascades.\n" +
			"With --consume, show only the limits it names, and how long that request would have to\n" +
			"wait. With --also, the request is for several resources. The command takes nothing, and\n" +
			"its exit code is 0 whatever the balances.\n" +
			"zae-limiter standing also shows where the limits come from, and when they are full.",
		Example: "  zae-limiter available key-1 gpt-4\n" +
			"  zae-limiter available key-1 gpt-4 --consume rpm=1,tpm=500 --output json\n" +
			"  zae-limiter available key-1 gpt-4 --consume rpm=1,tpm=500 --also embeddings:tpm=200",
	}, &o.request.Entity, &o.request.Resource)
	cmd.Flags().VarP(&o.consume, "consume", "c", "tokens to ask for, separated by commas (default 0 of\nevery limit)")
	bindAlso(cmd, &o.also)
	o.fallback.BindFallback(cmd)
	return a.Prints(cmd, decide.Decision{})
}

// Validate checks the request.
func (o *availableOptions) Validate() error {
	o.request.Consume, o.request.Fallback = o.consume, o.fallback.Limits
	o.request.Also = partsOf(o.also, o.fallback.Limits)
	if len(o.request.Consume) > 0 {
		return o.request.Validate()
	}
	if len(o.also) > 0 {
		return app.Usagef("--also %s needs --consume: give what to ask of %s, too", o.also.String(), o.request.Resource)
	}
	if err := store.CheckEntity(o.request.Entity); err != nil {
		return err
	}
	if err := store.CheckResource(o.request.Resource); err != nil {
		return err
	}
	return store.ValidateLimits(o.request.Fallback)
}

// Run shows the balances.
func (o *availableOptions) Run(ctx context.Context) error {
	l, err := o.app.OpenLimiter(ctx)
	if err != nil {
		return err
	}
	statuses, err := o.statuses(ctx, l)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	d := decide.Foreseen(statuses)
	return o.app.Print(d, func(w *strings.Builder) { printStatuses(w, statuses) })
}

// statuses asks for the request, or else for 0 of each limit.
func (o *availableOptions) statuses(ctx context.Context, l *limiter.Limiter) ([]limiter.Status, error) {
	if len(o.request.Consume) == 0 {
		var err error
		if o.request.Consume, err = decide.EveryLimit(ctx, l, &o.request); err != nil {
			return nil, err
		}
	}
	return l.Available(ctx, o.request)
}
