// Package child starts the binary of a test once more, as a process of its own that the test may kill or
// stop. A variable of its environment tells the binary what it is for.
package child

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

// A Process is the binary of the test, once more.
type Process struct {
	cmd  *exec.Cmd
	in   io.Closer
	read chan struct{} // closed once all its output is read
}

// Start starts a process with a variable and arguments. It is killed with the test, if it lives that long, and
// its errors are written to the test's output. hear gets each line that it writes, one after the other; the last
// one may be cut off.
func Start(tb testing.TB, variable, value string, hear func(line string), args ...string) *Process {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{cmd: exec.CommandContext(context.WithoutCancel(tb.Context()), program, args...), read: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), variable+"="+value), tb.Output()
	in, err := p.cmd.StdinPipe()
	out, errOut := p.cmd.StdoutPipe()
	if err = errors.Join(err, errOut, p.cmd.Start()); err != nil {
		tb.Fatal(err)
	}
	p.in = in
	tb.Cleanup(func() {
		p.Kill()
		p.End()
	})
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			hear(lines.Text())
		}
	}()
	return p
}

// Kill ends the process at once.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() } // it may have ended already

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // likewise

// End closes the input of the process, which may end by that, and waits until it has ended and hear has all that
// it wrote.
func (p *Process) End() {
	_ = p.in.Close()
	<-p.read
	_ = p.cmd.Wait() // it may have been killed
}
