package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

type acquireOptions struct{ asking }

func newAcquire(a *app.App) *cobra.Command {
	o := &acquireOptions{asking{app: a}}
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
	o.bind(cmd)
	return a.Prints(cmd, decide.Decision{})
}

// Validate checks the request.
func (o *acquireOptions) Validate() error {
	if len(o.consume) == 0 {
		return app.Required("consume", "rpm=1,tpm=500")
	}
	return o.validate()
}

// Run acquires.
func (o *acquireOptions) Run(ctx context.Context) error {
	l, degraded, err := o.open(ctx)
	switch {
	case err != nil:
		return err
	case degraded != nil:
		return o.print(decide.Unmetered(degraded.Error()), nil, "admitted without metering: "+degraded.Error())
	}
	err = o.acquire(ctx, l)
	return errors.Join(err, l.Close())
}

func (o *acquireOptions) acquire(ctx context.Context, l *limiter.Limiter) error {
	lease, err := o.ask(ctx, l)
	if refusal := (*limiter.ExceededError)(nil); errors.As(err, &refusal) {
		if err := o.print(decide.Refused(refusal), refusal.Statuses, refusedIn(refusal)); err != nil {
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
		headline = "admitted without metering: " + decide.WhyDegraded(lease)
	}
	return o.print(decide.Admitted(lease), lease.Statuses(), headline)
}

// refusedIn is a refusal in words.
func refusedIn(e *limiter.ExceededError) string {
	after := e.RetryAfter()
	if after == limiter.Never {
		return "refused: it asks for more than a limit's capacity, which no wait helps"
	}
	return fmt.Sprintf("refused: retry after %v", after)
}

func (o *acquireOptions) print(d decide.Decision, statuses []limiter.Status, headline string) error {
	return o.app.Print(d, func(w *strings.Builder) {
		w.WriteString(headline + "\n")
		if len(statuses) > 0 {
			printStatuses(w, statuses)
		}
	})
}
