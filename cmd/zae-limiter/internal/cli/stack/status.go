package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/internal/calls"
)

type statusOptions struct {
	app         *app.App
	watch, wait bool
	interval    time.Duration
	outputs     bool
}

// The least and the usual time between two looks of --watch. AWS bills each metric that is
// asked for, and some of them change only once a minute.
const (
	leastInterval = time.Second
	usualInterval = 15 * time.Second
)

func newStatus(a *app.App) *cobra.Command {
	o := &statusOptions{app: a}
	cmd := a.Command(o, &cobra.Command{
		Use:   "status",
		Short: "Show whether the stack and the table of a limiter work",
		Long: "Show whether a deployed limiter works: its stack, table, aggregator, dead letters,\n" +
			"archive, alarms, versions and namespaces. The command only reads.\n\n" +
			"A table without a stack, as on --local, is shown alone. If the credentials cannot read\n" +
			"a part, the part says so, and the command still shows the others.\n\n" +
			"Exit codes:\n" +
			"  0  healthy: every part was read, and works\n" +
			"  1  broken or not found: limiters cannot use the table, or the stack needs repair\n" +
			"  2  the command line is wrong; nothing was sent\n" +
			"  3  degraded: limiters work, and something else does not: an alarm, dead letters,\n" +
			"     a late aggregator\n" +
			"  4  changing: an operation runs on the stack, the table or a function\n" +
			"  5  incomplete: nothing wrong was seen, but a part could not be read\n" +
			"  6  unreachable: no server answers for the table\n" +
			"  7  forbidden: there are no credentials, they have expired or are wrong, or they do not\n" +
			"     permit to describe the table\n" +
			"If several hold, the first of 4, 1, 6, 7, 3 and 5 counts. With --watch, the code is that of\n" +
			"the last look.",
		Example: "  zae-limiter status --stack limits\n" +
			"  zae-limiter status --stack limits --watch\n" +
			"  zae-limiter status --table limits --endpoint-url http://localhost:8000",
	})
	cmd.PreRun = func(*cobra.Command, []string) { a.CodeOf = codeOf }
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "look again after each --interval, until interrupted")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "first follow a running operation of the stack to its end")
	cmd.Flags().DurationVar(&o.interval, "interval", usualInterval, "time between two looks of --watch, 1s at least")
	cmd.Flags().BoolVar(&o.outputs, "outputs", false, "also show the outputs of the stack; JSON always has them")
	return a.Prints(cmd, &statusView{})
}

// Validate checks the interval.
func (o *statusOptions) Validate() error {
	if o.interval < leastInterval {
		return fmt.Errorf("invalid --interval %v: give 1s at least", o.interval)
	}
	return nil
}

// codes are the exit codes of the verdicts.
var codes = map[health.Verdict]app.CodeError{
	health.Healthy: app.ExitOK, health.Broken: app.ExitError, health.Degraded: app.ExitDegraded,
	health.Changing: app.ExitChanging, health.Incomplete: app.ExitIncomplete,
	health.Unreachable: app.ExitUnreachable, health.Forbidden: app.ExitForbidden,
}

// codeOf is the exit code of an error before there is a verdict, 0 for the usual one.
func codeOf(err error) int {
	switch {
	case app.IsForbidden(err):
		return app.ExitForbidden
	case app.IsUnreached(err), app.IsUnanswered(err), errors.Is(err, limiter.ErrUnavailable):
		return app.ExitUnreachable
	}
	return 0
}

// exit is the error that ends the program with a verdict's code.
func exit(v health.Verdict) error {
	if code := codes[v]; code != app.ExitOK {
		return code
	}
	return nil
}

// Run shows the status once, or until the context ends.
func (o *statusOptions) Run(ctx context.Context) error {
	s, err := newStatusSource(ctx, o.app)
	if err != nil {
		return err
	}
	if o.wait {
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	var last health.Verdict
	for {
		r, err := s.look(ctx)
		switch {
		case err != nil && last != "" && ctx.Err() != nil:
			return exit(last) // the interrupted look says nothing
		case err != nil:
			return err
		}
		if err := o.show(r, last != ""); err != nil {
			return err
		}
		last = r.Verdict
		if !o.watch || calls.Sleep(ctx, nil, o.interval) != nil {
			return exit(last)
		}
	}
}

// show prints a report. With --watch, the text of each look begins with its time.
func (o *statusOptions) show(r *health.Report, again bool) error {
	v := statusViewOf(o.app.Flags.Table, r)
	v.outputs = o.outputs
	return o.app.Print(v, func(w *strings.Builder) {
		if again {
			w.WriteByte('\n')
		}
		if o.watch {
			w.WriteString(instant(r.At) + " ")
		}
		v.text(w)
	})
}
