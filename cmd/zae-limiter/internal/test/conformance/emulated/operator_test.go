//go:build conformance

package emulated_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// operator runs the program as a person at a terminal does, on LocalStack.
type operator struct {
	t       *testing.T
	cloud   *peers.LocalStack
	program string
}

func newOperator(t *testing.T, cloud *peers.LocalStack) *operator {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return &operator{t, cloud, path}
}

// run runs a command with JSON output, and returns what it prints and its exit code.
func (o *operator) run(args ...string) (stdout []byte, code int) {
	o.t.Helper()
	// LocalStack loads a service at its first call, which takes long beside other tests.
	args = append(args, "--region", peers.Region, "--endpoint-url", o.cloud.Endpoint, "--timeout", patience.String(), "--output", "json")
	cmd := exec.CommandContext(o.t.Context(), o.program, args...)
	cmd.Env = o.cloud.Environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		o.t.Logf("zae-limiter %v: exit code %d\n%s%s", args, exit.ExitCode(), out, &stderr)
		return out, exit.ExitCode()
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return out, 0
}

// must runs a command that succeeds, and decodes what it prints.
func (o *operator) must(answer any, args ...string) {
	o.t.Helper()
	out, code := o.run(args...)
	if code != 0 {
		o.t.Fatalf("zae-limiter %v: exit code %d", args, code)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		o.t.Fatalf("zae-limiter %v prints %s: %v", args, out, err)
	}
}

// outcome is what deploy and upgrade print.
type outcome struct {
	Status    string
	Changes   []change
	Repaired  []string `json:"repaired_functions"`
	Remaining []string
	Outputs   map[string]string
}

type change struct {
	Action      string
	Resource    string `json:"logical_id"`
	Replacement string
}

// change returns the change of a resource.
func (o *outcome) change(resource string) (c change, ok bool) {
	for _, c = range o.Changes {
		if c.Resource == resource {
			return c, true
		}
	}
	return change{}, false
}
