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

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
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
	cmd := a.Command(o, &cobra.Command{
		Use:     "ui",
		Short:   "Forward the web page of the Locust master to this machine",
		Long:    aboutUI,
		Example: "  zae-limiter loadtest ui --name limits --open",
	})
	cmd.Flags().IntVar(&o.port, "port", loadstack.WebPort, "`port` on this machine")
	cmd.Flags().BoolVar(&o.open, "open", false, "run the command instead of printing it")
	return a.Prints(cmd, session{})
}

// Validate checks the port.
func (o *forwarder) Validate() error {
	const most = 65535
	if o.port < 1 || o.port > most {
		return fmt.Errorf("invalid --port %d: give 1 to %d", o.port, most)
	}
	return nil
}

// session is the way to the web page in JSON.
type session struct {
	Target  string   `json:"target"`  // task of the master, as Session Manager names it
	Command []string `json:"command"` // the command line that forwards the page
	URL     string   `json:"url"`     // the page, once forwarded
}

// Run prints the command, or runs it.
func (o *forwarder) Run(ctx context.Context) error {
	if o.open { // before requests, which may take long
		if err := tools(); err != nil {
			return err
		}
	}
	_, task, err := masterOf(ctx, o.app)
	if err != nil {
		return err
	}
	args, err := sessionOf(o.app, task, o.port)
	if err != nil {
		return err
	}
	page := localPage(o.port)
	if !o.open {
		return o.app.Print(session{task.Target(), args, page}, func(w *strings.Builder) {
			fmt.Fprintln(w, app.CommandLine(args))
		})
	}
	o.app.Notef("The web page of Locust is on %s until this command is interrupted.", page)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.app.Stdin, o.app.Stdout, o.app.Stderr
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("forward the web page: %w: may the credentials start a session (ssm:StartSession) on %s?", err, task.Target())
	}
	return nil
}

// localPage is the URL of a page that is forwarded to a port of this machine.
func localPage(port int) string { return "http://localhost:" + strconv.Itoa(port) }

// tools fails if a program is missing that a session needs.
func tools() error {
	for _, p := range []struct{ program, is string }{
		{"aws", "the AWS command line"}, {"session-manager-plugin", "the Session Manager plugin of the AWS command line"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			return fmt.Errorf("forward the web page: %s is missing on this machine: install %s, or run the command that loadtest ui prints where it is", p.program, p.is)
		}
	}
	return nil
}

// masterOf finds the stack for load tests of a limiter, and the task of its master.
func masterOf(ctx context.Context, a *app.App) (*stack.Stack, stack.Task, error) {
	m, _, err := a.StacksOf(ctx, stack.TypeLoadTest)
	if err != nil {
		return nil, stack.Task{}, err
	}
	limiter := a.Flags.Table
	s, err := m.Find(ctx, loadstack.NameOf(limiter))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, stack.Task{}, fmt.Errorf("find the Locust master: %w", &store.NotFoundError{Kind: "stack", Name: loadstack.NameOf(limiter), Hint: "deploy it with zae-limiter loadtest deploy -n " + limiter})
	case err != nil:
		return nil, stack.Task{}, err
	}
	cluster, service := s.Outputs[loadstack.OutputCluster], s.Outputs[loadstack.OutputService]
	if cluster == "" || service == "" {
		return nil, stack.Task{}, fmt.Errorf("find the Locust master: stack %s is %s and names no master: deploy it with zae-limiter loadtest deploy -n %s", s.Name, s.Status, limiter)
	}
	task, err := m.Task(ctx, cluster, service, loadstack.Container)
	if errors.Is(err, store.ErrNotFound) && s.Parameters["MasterCount"] == "0" {
		return nil, task, fmt.Errorf("find the Locust master: the stack is switched off: switch it on with zae-limiter loadtest deploy -n %s --off=false", limiter)
	}
	return s, task, err
}

// sessionOf is the command that forwards the web page of a master to a port of this machine.
func sessionOf(a *app.App, task stack.Task, port int) ([]string, error) {
	parameters, err := json.Marshal(map[string][]string{"portNumber": {strconv.Itoa(loadstack.WebPort)}, "localPortNumber": {strconv.Itoa(port)}})
	if err != nil {
		return nil, fmt.Errorf("make the command of a session: %w", err)
	}
	args := []string{"aws", "ssm", "start-session"}
	if a.Flags.Region != "" {
		args = append(args, "--region", a.Flags.Region)
	}
	return append(args, "--target", task.Target(), "--document-name", "AWS-StartPortForwardingSession", "--parameters", string(parameters)), nil
}
