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
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

type acquireOptions struct {
	app      *app.App
	request  limiter.Request
	consume  limitarg.Amounts
	also     limitarg.Also
	fallback app.LimitsFlag
	wait     time.Duration
}

func newAcquire(a *app.App) *cobra.Command {
	o := &acquireOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "acquire ENTITY RESOURCE",
		Short: "Take tokens, wait for them, or report the exact wait",
		Long: "Take tokens of a resource for an entity, and for its parent if it cascades. The command\n" +
			"takes all of them or none, and never gives back what it took. Limits come from the\n" +
			"configuration. If no level configures any for the entity and the resource, they come\n" +
			"from --fallback.\n\n" +
			"With --also, a request is for several resources, and takes from all of them or from none.\n\n" +
			"With --wait, the command waits until it is admitted. If the wait would end too late, it\n" +
			"is refused at once.\n\n" +
			"Exit code 0 means admitted, 3 means refused.",
		Example: "  zae-limiter acquire key-1 gpt-4 --consume rpm=1,tpm=500\n" +
			"  zae-limiter acquire key-1 gpt-4 --consume rpm=1 --fallback rpm:100/min:150 --output json\n" +
			"  zae-limiter acquire key-1 gpt-4 --consume rpm=1,tpm=500 --also embeddings:tpm=200",
	}, &o.request.Entity, &o.request.Resource)
	cmd.Flags().VarP(&o.consume, "consume", "c", "tokens to take of each limit, separated by commas")
	bindAlso(cmd, &o.also)
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "how long to wait at most until admitted, 30s for instance; 0\nmeans not at all")
	o.fallback.BindFallback(cmd)
	app.BindOnUnavailable(cmd, &o.request.OnUnavailable, "if DynamoDB cannot be reached, fail (block) or admit\nwithout metering (allow); the system's default if not given")
	return a.Prints(cmd, decide.Decision{})
}

// Validate checks the request.
func (o *acquireOptions) Validate() error {
	if len(o.consume) == 0 {
		return app.Required("consume", "rpm=1,tpm=500")
	}
	if o.wait < 0 {
		return app.Usagef("invalid --wait %v: give a time to wait, or 0", o.wait)
	}
	o.request.Consume, o.request.Fallback = o.consume, o.fallback.Limits
	o.request.Also = partsOf(o.also, o.fallback.Limits)
	return o.request.Validate()
}

// Run acquires.
func (o *acquireOptions) Run(ctx context.Context) error {
	store, err := o.app.Store(ctx)
	if err != nil {
		if o.request.OnUnavailable == limiter.Allow && errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrAccessDenied) {
			return o.print(decide.Unmetered(err.Error()), nil, "admitted without metering: "+err.Error())
		}
		return err
	}
	l, err := o.app.Limiter(store)
	if err != nil {
		return err
	}
	err = o.acquire(ctx, l)
	return errors.Join(err, l.Close())
}

func (o *acquireOptions) acquire(ctx context.Context, l *limiter.Limiter) error {
	lease, err := decide.Acquire(ctx, l, o.request, o.wait)
	if refusal := (*limiter.ExceededError)(nil); errors.As(err, &refusal) {
		after := refusal.RetryAfter()
		headline := fmt.Sprintf("refused: retry after %v", after)
		if after == limiter.Never {
			headline = "refused: it asks for more than a limit's capacity, which no wait helps"
		}
		if err := o.print(decide.Refused(refusal), refusal.Statuses, headline); err != nil {
			return err
		}
		return app.ErrRefused
	}
	if err != nil {
		return err
	}
	if err := lease.Commit(ctx); err != nil {
		return err
	}
	headline := "admitted"
	if lease.Degraded() {
		headline = "admitted without metering: " + decide.WhyDegraded
	}
	return o.print(decide.Admitted(lease), lease.Statuses(), headline)
}

func (o *acquireOptions) print(d decide.Decision, statuses []limiter.Status, headline string) error {
	return o.app.Print(d, func(w *strings.Builder) {
		w.WriteString(headline + "\n")
		if len(statuses) > 0 {
			printStatuses(w, statuses)
		}
	})
}
