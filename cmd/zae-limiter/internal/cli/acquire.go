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
	return a.Prints(cmd, decision{})
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
		return o.print(decision{Admitted: true, Degraded: degraded.Error(), RetryAfter: millis(0)}, nil, "admitted without metering: "+degraded.Error())
	}
	err = o.acquire(ctx, l)
	return errors.Join(err, l.Close())
}

// A decision is the result of acquire and of available in JSON.
type decision struct {
	// Admitted says that the request was admitted, or would be.
	Admitted   bool         `json:"admitted"`
	RetryAfter *int64       `json:"retry_after_ms"`
	Statuses   []statusView `json:"limits"`
	// CheckedAt is the instant of all balances and waits, of available only.
	CheckedAt time.Time `json:"checked_at,omitzero"`
	// Degraded says why nothing was metered.
	Degraded string `json:"degraded,omitempty"`
}

func (o *acquireOptions) acquire(ctx context.Context, l *limiter.Limiter) error {
	lease, err := o.ask(ctx, l)
	if refusal := (*limiter.ExceededError)(nil); errors.As(err, &refusal) {
		headline, d := refusedBy(refusal)
		if err := o.print(d, refusal.Statuses, headline); err != nil {
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
	if lease.Degraded() {
		const why = "DynamoDB cannot be reached"
		return o.print(decision{Admitted: true, Degraded: why, RetryAfter: millis(0)}, nil, "admitted without metering: "+why)
	}
	return o.print(decision{Admitted: true, RetryAfter: millis(0)}, lease.Statuses(), "admitted")
}

// refusedBy is a refusal in words, and in JSON.
func refusedBy(e *limiter.ExceededError) (headline string, d decision) {
	after := e.RetryAfter()
	d = decision{RetryAfter: millis(after), Statuses: statusViews(e.Statuses)}
	if after == limiter.Never {
		return "refused: it asks for more than a limit's capacity, which no wait helps", d
	}
	return fmt.Sprintf("refused: retry after %v", after), d
}

func (o *acquireOptions) print(d decision, statuses []limiter.Status, headline string) error {
	d.Statuses = statusViews(statuses)
	return o.app.Print(d, func(w *strings.Builder) {
		w.WriteString(headline + "\n")
		if len(statuses) > 0 {
			printStatuses(w, statuses)
		}
	})
}
