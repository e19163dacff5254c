//go:build !unix

package loadtest

import "os/exec"

// apart does nothing here: an interruption may end the process at once.
func apart(*exec.Cmd) {}

// end ends a process.
func end(cmd *exec.Cmd, _ bool) error { return cmd.Process.Kill() }
