package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

const (
	// tunnelTimeout is how long a session may take to forward the page.
	tunnelTimeout = 30 * time.Second
	// tunnelLook is the time between two looks at a page that is not forwarded yet.
	tunnelLook = 500 * time.Millisecond
	// tunnelEnd is how long a session may take to end.
	tunnelEnd = 5 * time.Second
)

// A tunnel forwards the web page of a master to this machine, with a session of Session
// Manager in a process of its own. It does not end with the context: an interrupted test must
// still reach the page to stop its users. For the same reason, Ctrl-C in the terminal must not
// reach the process.
type tunnel struct {
	page  string
	cmd   *exec.Cmd
	out   strings.Builder // of the process; read it after ended
	ended chan struct{}   // closed when the process has ended
}

// openTunnel starts a session and waits until the page answers.
func openTunnel(ctx context.Context, a *app.App, task stack.Task) (*tunnel, error) {
	const op = "forward the web page of the Locust master"
	port, err := freePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	args, err := sessionOf(a, task, port)
	if err != nil {
		return nil, err
	}
	t := &tunnel{page: localPage(port), ended: make(chan struct{})}
	t.cmd = exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...) //nolint:gosec // the arguments are ours
	t.cmd.Stdout, t.cmd.Stderr = &t.out, &t.out
	apart(t.cmd)
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	go func() {
		_ = t.cmd.Wait() // the page says whether it works
		close(t.ended)
	}()
	if err := t.answers(ctx); err != nil {
		err = errors.Join(err, t.close())
		return nil, fmt.Errorf("%s: %w: may the credentials start a session (ssm:StartSession) on %s? %s", op, err, task.Target(), strings.TrimSpace(t.out.String()))
	}
	return t, nil
}

// answers waits until the page answers.
func (t *tunnel) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tunnelTimeout)
	defer cancel()
	page := &swarm.Page{URL: t.page, Client: &http.Client{Timeout: lookTimeout}}
	for {
		_, err := page.Look(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-t.ended:
			return errors.New("the session ended")
		case <-ctx.Done():
			return err
		case <-time.After(tunnelLook):
		}
	}
}

// close ends the session.
func (t *tunnel) close() error {
	select {
	case <-t.ended:
		return nil
	default:
	}
	err := end(t.cmd, false)
	select {
	case <-t.ended:
		return err
	case <-time.After(tunnelEnd):
	}
	err = errors.Join(err, end(t.cmd, true))
	<-t.ended
	return err
}

// freePort is a port of this machine that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, errors.Join(err, l.Close())
	}
	n, err := strconv.Atoi(port)
	return n, errors.Join(err, l.Close())
}
