package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// patience is how long a command may take to end that has lost its slots. It is less than the time
// after which others may have them.
const patience = 5 * time.Second

type holdOptions struct {
	asking
	command      []string
	slots        limitarg.Amounts
	slotFallback limitarg.Slots
}

const aboutHold = `Run a command that holds slots of an entity for a resource, and of its parent if it cascades,
until it ends: so many of them run at a time, on all machines together. With --consume, it
also takes tokens, or does not run.

A command that loses its slots, because this machine could not reach DynamoDB for 10 seconds,
gets SIGTERM, and is killed after 5 more.

The exit code is that of COMMAND, 3 if it was refused and did not run, or 1 if it lost its
slots or cannot run.`

func newHold(a *app.App) *cobra.Command {
	o := &holdOptions{asking: asking{app: a}}
	cmd := a.Command(o, &cobra.Command{
		Use:   "hold ENTITY RESOURCE COMMAND...",
		Short: "Run a command that holds slots while it runs",
		Long:  aboutHold,
		Example: "  zae-limiter hold acme gpt-4 --slots inflight=1 -- date\n" +
			"  zae-limiter hold acme gpt-4 --slots inflight=1 --consume rpm=1 --wait 10m -- date\n" +
			"  zae-limiter hold nightly job --slots one=1 --slot-fallback one:1 -- date",
	}, &o.request.Entity, &o.request.Resource, &o.command)
	cmd.Flags().Var(&o.slots, "slots", "slots to hold of each limit, separated by commas: `name=slots`")
	o.bind(cmd)
	cmd.Flags().Var(&o.slotFallback, "slot-fallback", "a limit of slots to use if no level has any for the entity and\nthe resource; may be repeated")
	return a.Prints(cmd, refusedHold{})
}

// Validate checks the request and the command.
func (o *holdOptions) Validate() error {
	if len(o.slots) == 0 {
		return app.Required("slots", "inflight=1")
	}
	o.request.Slots, o.request.SlotFallback = o.slots, o.slotFallback
	if o.command[0] == "" {
		return app.Usagef("invalid argument COMMAND %q: it is empty: give a program", "")
	}
	return o.validate()
}

// refusedHold is the result in JSON of a command that did not run. The output of one that ran is its own.
type refusedHold struct {
	decide.Decision
	// Slots are what refused, if it was slots: nobody knows then how long to wait.
	Slots *slotsRefused `json:"slots,omitempty"`
}

// slotsRefused is a [limiter.SlotsError] in JSON.
type slotsRefused struct {
	Entity    string `json:"entity_id"`
	Resource  string `json:"resource"`
	Limit     string `json:"limit_name"`
	Slots     int64  `json:"slots"`     // how many there are
	Requested int64  `json:"requested"` // how many the command is to hold
}

// Run runs the command, once it is admitted.
func (o *holdOptions) Run(ctx context.Context) error {
	l, degraded, err := o.open(ctx)
	switch {
	case err != nil:
		return err
	case degraded != nil:
		o.app.Notef("runs without slots: %v", degraded)
		return o.execute(ctx)
	}
	lease, err := o.ask(ctx, l)
	if err == nil {
		err = o.under(ctx, lease)
	} else {
		err = o.refused(err)
	}
	return errors.Join(err, l.Close())
}

// under runs the command under a lease.
func (o *holdOptions) under(ctx context.Context, lease *limiter.Lease) error {
	work, cancel := lease.Context(ctx)
	defer cancel()
	if lease.Degraded() {
		o.app.Notef("runs without slots: DynamoDB cannot be reached")
	}
	err := o.execute(work)
	if errors.Is(context.Cause(work), limiter.ErrSlotsLost) {
		err = fmt.Errorf("run %s: %w: others may hold them now, so it was ended: run it again", o.command[0], limiter.ErrSlotsLost)
	}
	settle := lease.Commit
	if errors.Is(err, errNotRun) {
		settle = lease.Rollback
	}
	return errors.Join(err, settle(context.WithoutCancel(ctx)))
}

// errNotRun says that a command did not begin.
var errNotRun = errors.New("it cannot run")

// execute runs the command until it ends by itself, or a while after ctx ends.
func (o *holdOptions) execute(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, o.command[0], o.command[1:]...) //nolint:gosec // the user's own
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.app.Stdin, o.app.Stdout, o.app.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w: %w", o.command[0], errNotRun, err)
	}
	err := cmd.Wait()
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return app.CodeError(exit.ExitCode())
	case err != nil:
		return fmt.Errorf("run %s: %w", o.command[0], err)
	}
	return nil
}

// refused shows why the command does not run, if a limit refused it.
func (o *holdOptions) refused(err error) error {
	refusal, full := (*limiter.ExceededError)(nil), (*limiter.SlotsError)(nil)
	switch {
	case errors.As(err, &full):
		v := refusedHold{decide.Decision{Statuses: []decide.Status{}}, &slotsRefused{full.Entity, full.Resource, full.Limit, full.Of, full.Slots}}
		headline := "refused: all slots are held; nobody knows until when: give --wait to wait for some"
		if full.Slots > full.Of {
			headline = "refused: it asks for more slots than there are, which no wait helps"
		}
		err = o.app.Print(v, func(w *strings.Builder) {
			w.WriteString(headline + "\n")
			app.Table(w, []string{"ENTITY", "RESOURCE", "LIMIT", "SLOTS", "REQUESTED"}, [][]string{{
				full.Entity, full.Resource, full.Limit, limitarg.Grouped(full.Of), limitarg.Grouped(full.Slots),
			}})
		})
	case errors.As(err, &refusal):
		err = o.app.Print(refusedHold{Decision: decide.Refused(refusal)}, func(w *strings.Builder) {
			w.WriteString(refusedIn(refusal) + "\n")
			printStatuses(w, refusal.Statuses)
		})
	default:
		return err
	}
	if err != nil {
		return err
	}
	return app.ErrRefused
}
