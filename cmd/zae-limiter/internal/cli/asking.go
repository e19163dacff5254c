package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// An asking is a request of the command line, with the flags of the commands that take something.
type asking struct {
	app      *app.App
	request  limiter.Request
	consume  limitarg.Amounts
	also     limitarg.Also
	fallback app.LimitsFlag
	wait     time.Duration
}

// bind adds the flags.
func (o *asking) bind(cmd *cobra.Command) {
	cmd.Flags().VarP(&o.consume, "consume", "c", "tokens to take of each limit, separated by commas")
	bindAlso(cmd, &o.also)
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "how long to wait at most until admitted, 30s for instance; 0\nmeans not at all")
	o.fallback.BindFallback(cmd)
	app.BindOnUnavailable(cmd, &o.request.OnUnavailable, "if DynamoDB cannot be reached, fail (block, and share:\nthis process has seen no bucket) or admit without metering\n(allow); the system's default if not given")
}

// validate checks the request.
func (o *asking) validate() error {
	if o.wait < 0 {
		return app.Usagef("invalid --wait %v: give a time to wait, or 0", o.wait)
	}
	o.request.Consume, o.request.Fallback = o.consume, o.fallback.Limits
	o.request.Also = partsOf(o.also, o.fallback.Limits)
	return o.request.Validate()
}

// open opens the limiter. If that fails, and the request is to be admitted then, degraded says why.
func (o *asking) open(ctx context.Context) (l *limiter.Limiter, degraded, err error) {
	store, err := o.app.Store(ctx)
	switch {
	case err == nil:
		l, err = o.app.Limiter(store)
		return l, nil, err
	case o.request.OnUnavailable == limiter.Allow && errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrAccessDenied):
		return nil, err, nil
	}
	return nil, nil, err
}

// ask acquires, or waits as long as the flag says.
func (o *asking) ask(ctx context.Context, l *limiter.Limiter) (*limiter.Lease, error) {
	return decide.Acquire(ctx, l, o.request, o.wait)
}
