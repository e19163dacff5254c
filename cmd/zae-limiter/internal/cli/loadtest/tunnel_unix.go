//go:build unix

package loadtest

import (
	"os/exec"
	"syscall"
)

// apart gives a process a group of its own, which the signals of the terminal do not reach.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// end ends a process and those that it has started. The AWS command line starts the plugin.
func end(cmd *exec.Cmd, atOnce bool) error {
	signal := syscall.SIGTERM
	if atOnce {
		signal = syscall.SIGKILL
	}
	return syscall.Kill(-cmd.Process.Pid, signal)
}
