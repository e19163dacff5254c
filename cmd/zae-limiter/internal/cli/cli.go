// Package cli is the program zae-limiter: acquires from the command line, and
// administration of a table. Each noun has a package, each verb a file.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/aggregate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/audit"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/backup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/connect"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/entity"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/limits"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/local"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/name"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/namespace"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/provision"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/resource"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/serve"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/system"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/table"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/usage"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	stacks "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Options are the program's inputs from its process.
type Options struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that Stdin can ask a person.
	Terminal bool
	// Getenv reads the environment; "" is not set.
	Getenv func(string) string
	// Version is the version of the program.
	Version Version
	// Connect makes the DynamoDB client; nil uses the AWS SDK's.
	Connect func(context.Context, app.Endpoint) (dynamo.API, error)
	// ConnectArchive makes the S3 client; nil uses the AWS SDK's.
	ConnectArchive func(context.Context, app.Endpoint) (archive.API, error)
	// ConnectHealth makes the clients that read the state of a stack's parts; nil uses the
	// AWS SDK's.
	ConnectHealth func(context.Context, app.Endpoint) (health.Clients, error)
	// ConnectStack makes the clients of what a stack needs; nil uses the AWS SDK's.
	ConnectStack func(context.Context, app.Endpoint) (stacks.Clients, error)
	// Executable reads the running program; nil reads the process's.
	Executable func() ([]byte, error)
	// ConnectQueue makes the SQS client; nil uses the AWS SDK's.
	ConnectQueue func(context.Context, app.Endpoint) (redrive.Queue, error)
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
}

// Run runs the program and returns its exit code: 0 done or admitted, 1 error, 130 interrupted,
// 2 wrong arguments, 3 refused. Without arguments on AWS Lambda, the program is what the
// function's setting Handler names, configured by the environment.
func Run(ctx context.Context, o Options) int {
	a := &app.App{
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
		Terminal: o.Terminal, Getenv: o.Getenv, Connect: o.Connect, Now: o.Now,
		ConnectStreams: connect.Streams, Tables: connect.Tables, ConnectArchive: o.ConnectArchive, ConnectQueue: o.ConnectQueue,
		ConnectStack: o.ConnectStack, ConnectHealth: o.ConnectHealth, Executable: o.Executable,
	}
	if a.ConnectHealth == nil {
		a.ConnectHealth = connect.Health
	}
	if a.ConnectQueue == nil {
		a.ConnectQueue = connect.SQS
	}
	if a.ConnectStack == nil {
		a.ConnectStack = connect.Stack
	}
	if a.Executable == nil {
		a.Executable = running
	}
	if a.ConnectArchive == nil {
		a.ConnectArchive = connect.S3
	}
	if a.Connect == nil {
		a.Connect = connect.DynamoDB
	}
	if onLambda(&o) {
		args, err := lambdaArgs(o.Getenv)
		if err != nil {
			return a.Report(&app.UsageError{Err: err}, "zae-limiter")
		}
		o.Args = args
	}
	shown := &written{Writer: o.Stdout}
	root := rootOn(a, o.Version, shown) //nolint:contextcheck // commands get theirs from ExecuteContextC
	if completes(o.Args) {
		bindCompletion(a, root) //nolint:contextcheck // as above
	}
	ownHelp(root)
	// A nil slice would make cobra read the process's own arguments.
	root.SetArgs(append([]string{}, o.Args...))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && shown.err != nil {
		err = fmt.Errorf("write the result: %w", shown.err)
	}
	if err != nil && wantsJSON(o.Args) {
		a.Flags.Output = app.OutputJSON
	}
	return a.Report(err, cmd.CommandPath())
}

// running reads the program of this process.
func running() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the running program: %w", err)
	}
	return os.ReadFile(path)
}

// wantsJSON finds the output flag if parsing stopped before it.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "--output", "-o":
			if i+1 < len(args) && args[i+1] == app.OutputJSON {
				return true
			}
		case "--output=" + app.OutputJSON, "-o=" + app.OutputJSON, "-o" + app.OutputJSON:
			return true
		}
	}
	return false
}

const about = `A distributed rate limiter: token buckets in a DynamoDB table.

Exit codes: 0 done or admitted, 1 error, 2 wrong arguments (nothing was changed),
3 refused, 130 interrupted.`

// A written writer keeps the first error of its writes: cobra does not report those of help and
// of the scripts for completion.
type written struct {
	io.Writer

	err error
}

// Write writes.
func (w *written) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.err = cmp.Or(w.err, err)
	return n, err
}

func newRoot(a *app.App, v Version) *cobra.Command { return rootOn(a, v, a.Stdout) }

// rootOn is the command of the program. It writes help to shown.
func rootOn(a *app.App, v Version, shown io.Writer) *cobra.Command {
	root := app.Group("zae-limiter", "A distributed rate limiter: token buckets in a DynamoDB table",
		newAcquire(a), newAvailable(a), newStanding(a), newWatch(a), newTop(a), newPeriods(a), entity.New(a), resource.New(a), system.New(a), limits.New(a),
		name.New(a), namespace.New(a), table.New(a), backup.New(a), usage.New(a), audit.New(a), serve.New(a), local.New(a), loadtest.New(a), replay.New(a), estimate.New(a),
		aggregate.New(a), aggregate.NewRedrive(a), provision.New(a), newTemplate(a, v), newLambdaExport(a), newCheck(a), newVersion(a, v))
	root.AddCommand(stack.Commands(a, v.module())...)
	root.Long = about
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.Stdin)
	root.SetOut(shown)
	root.SetErr(a.Stderr)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { _, _ = io.WriteString(cmd.OutOrStdout(), helpOf(cmd)) }) // shown keeps the error
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStdout(), usageOf(cmd))
		return err
	})
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	addVersionFlag(root, a, v)
	bindGlobal(a, root)
	return root
}
