package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/internal/cli/app"
	stackcli "github.com/zeroae/zae-limiter-go/internal/cli/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

// forwarder is the command ui.
type forwarder struct {
	app  *app.App
	port int
	open bool
}

const aboutUI = `Find the Locust master of a stack for load tests, and print the command that forwards its
web page to this machine. With --open, run that command until it is interrupted: it needs
the AWS command line and the plugin of Session Manager on this machine. Nothing else
reaches the page: no rule of the network admits a connection to it.`

// NewUI is the command loadtest ui.
func NewUI(a *app.App) *cobra.Command {
	o := &forwarder{app: a}
	cmd := &cobra.Command{
		Use:     "ui",
		Short:   "Forward the web page of the Locust master to this machine",
		Long:    aboutUI,
		Example: "  zae-limiter loadtest ui --name limits --open",
		Args:    app.Args(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.Run(cmd.Context(), o) },
	}
	cmd.Flags().IntVar(&o.port, "port", loadstack.WebPort, "`port` on this machine")
	cmd.Flags().BoolVar(&o.open, "open", false, "run the command instead of printing it")
	return cmd
}

// Validate checks the port.
func (o *forwarder) Validate() error {
	const most = 65535
	if o.port < 1 || o.port > most {
		return fmt.Errorf("invalid --port %d: give 1 to %d", o.port, most)
	}
	return nil
}

// Run prints the command, or runs it.
func (o *forwarder) Run(ctx context.Context) error {
	if o.open { // before requests, which may take long
		if err := tools(); err != nil {
			return err
		}
	}
	task, err := o.master(ctx)
	if err != nil {
		return err
	}
	args, err := o.session(task)
	if err != nil {
		return err
	}
	page := "http://localhost:" + strconv.Itoa(o.port)
	if !o.open {
		return o.app.Print(struct {
			Target  string   `json:"target"`
			Command []string `json:"command"`
			URL     string   `json:"url"`
		}{task.Target(), args, page}, func(w *strings.Builder) {
			fmt.Fprintln(w, app.CommandLine(args))
		})
	}
	stackcli.Notef(o.app, "The web page of Locust is on %s until this command is interrupted.\n", page)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.app.Stdin, o.app.Stdout, o.app.Stderr
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("forward the web page: %w: may the credentials start a session (ssm:StartSession) on %s?", err, task.Target())
	}
	return nil
}

// tools fails if a program is missing that a session needs.
func tools() error {
	for _, p := range []struct{ program, is string }{
		{"aws", "the AWS command line"}, {"session-manager-plugin", "the Session Manager plugin of the AWS command line"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			return fmt.Errorf("forward the web page: %s is missing on this machine: install %s, or leave out --open and run the command where it is", p.program, p.is)
		}
	}
	return nil
}

// master finds the task of the master.
func (o *forwarder) master(ctx context.Context) (stack.Task, error) {
	m, _, err := o.app.StacksOf(ctx, stack.TypeLoadTest)
	if err != nil {
		return stack.Task{}, err
	}
	limiter := o.app.Flags.Table
	s, err := m.Find(ctx, loadstack.NameOf(limiter))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return stack.Task{}, fmt.Errorf("find the Locust master: %w", &store.NotFoundError{Kind: "stack", Name: loadstack.NameOf(limiter), Hint: "deploy it with zae-limiter loadtest deploy -n " + limiter})
	case err != nil:
		return stack.Task{}, err
	}
	cluster, service := s.Outputs[loadstack.OutputCluster], s.Outputs[loadstack.OutputService]
	if cluster == "" || service == "" {
		return stack.Task{}, fmt.Errorf("find the Locust master: stack %s is %s and names no master: deploy it with zae-limiter loadtest deploy -n %s", s.Name, s.Status, limiter)
	}
	task, err := m.Task(ctx, cluster, service, loadstack.Container)
	if errors.Is(err, store.ErrNotFound) && s.Parameters["MasterCount"] == "0" {
		return task, fmt.Errorf("find the Locust master: the stack is switched off: switch it on with zae-limiter loadtest deploy -n %s --off=false", limiter)
	}
	return task, err
}

// session is the command that forwards the port.
func (o *forwarder) session(task stack.Task) ([]string, error) {
	parameters, err := json.Marshal(map[string][]string{"portNumber": {strconv.Itoa(loadstack.WebPort)}, "localPortNumber": {strconv.Itoa(o.port)}})
	if err != nil {
		return nil, fmt.Errorf("make the command of a session: %w", err)
	}
	args := []string{"aws", "ssm", "start-session"}
	if o.app.Flags.Region != "" {
		args = append(args, "--region", o.app.Flags.Region)
	}
	return append(args, "--target", task.Target(), "--document-name", "AWS-StartPortForwardingSession", "--parameters", string(parameters)), nil
}
