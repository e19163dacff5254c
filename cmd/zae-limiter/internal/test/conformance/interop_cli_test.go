//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// program builds zae-limiter, once.
var program = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../../../../.cache/zae-limiter")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, exec.Command("go", "build", "-o", path, "../../..").Run()
})

// run runs the program on the namespace, and returns its output, as JSON, and exit code.
func (b *both) run(arguments ...string) (stdout []byte, code int) {
	b.Helper()
	return b.runs(append(arguments, "--output", "json")...)
}

// runs is run with the output for people.
func (b *both) runs(arguments ...string) (stdout []byte, code int) {
	b.Helper()
	path, err := program()
	b.must(err)
	namespace, _ := b.store.Namespace()
	arguments = append(arguments, "--table", b.table, "--namespace", namespace, "--region", peers.Region, "--endpoint-url", b.py.local.Endpoint)
	cmd := exec.CommandContext(b.Context(), path, arguments...)
	cmd.Env = []string{
		"AWS_ACCESS_KEY_ID=" + peers.AccessKey, "AWS_SECRET_ACCESS_KEY=" + peers.SecretKey, "AWS_EC2_METADATA_DISABLED=true",
	}
	stdout, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		b.Logf("zae-limiter %v: %s", arguments, exit.Stderr)
		return stdout, exit.ExitCode()
	}
	b.must(err)
	return stdout, 0
}

var cliCases = []interopCase{
	{"the program acquires where Python configured and consumed", func(b *both) {
		b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(perDay("rpm", 10), perDay("tpm", 1000))}, nil)
		if b.py.take("user", "gpt-4", args{"rpm": 4, "tpm": 100}) {
			b.Fatal("refused to Python")
		}
		var decision struct {
			Admitted bool
			RetryMS  *int64 `json:"retry_after_ms"`
			Limits   []struct{ Available int64 }
		}
		acquire := func(consume string, want int) {
			b.Helper()
			out, code := b.run("acquire", "user", "gpt-4", "--consume", consume)
			if code != want {
				b.Fatalf("acquire %s: exit code %d, want %d", consume, code, want)
			}
			b.must(json.Unmarshal(out, &decision))
		}
		acquire("rpm=5,tpm=500", 0)
		if !decision.Admitted || len(decision.Limits) != 2 || decision.Limits[0].Available != 1 || decision.Limits[1].Available != 400 {
			b.Errorf("admitted with %+v", decision)
		}
		acquire("rpm=2", 3)
		if decision.Admitted || decision.RetryMS == nil || *decision.RetryMS <= 0 {
			b.Errorf("refused with %+v", decision)
		}
		b.balance("user", "gpt-4", "rpm", 1)
		if b.py.take("user", "gpt-4", args{"rpm": 1, "tpm": 400}) {
			b.Error("what the program left was refused to Python")
		}
	}},
}
