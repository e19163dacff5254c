//go:build conformance

package loadstack_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// written writes a template to a file.
func written(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.yaml")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCFNLintFindsNothing(t *testing.T) {
	t.Parallel()
	body := string(newSpec(t, least()).Template())
	if out, err := exec.CommandContext(t.Context(), peers.CFNLint(t), "--", written(t, body)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, planted := range [][2]string{{"IpProtocol: tcp", "Protocol: tcp"}, {"RequiresCompatibilities: [FARGATE]", "RequiresCompatibilities: FARGATE"}} {
		bad := strings.Replace(body, planted[0], planted[1], 1)
		if out, err := exec.CommandContext(t.Context(), peers.CFNLint(t), "--", written(t, bad)).CombinedOutput(); err == nil {
			t.Errorf("%s was not found: %s", planted[1], out)
		}
	}
}

// Checkov judges the template under the values of its parameters. Metadata has the reason of
// each suppression.
func TestCheckovFindsNothing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]loadstack.Options{"least": least(), "widest": widest()} {
		path := written(t, withValues(t, newSpec(t, o)))
		out, err := exec.CommandContext(t.Context(), peers.Checkov(t), "-f", path, "--framework", "cloudformation", "--quiet", "--skip-download", "-o", "json").Output()
		var report struct {
			Summary struct {
				Passed, Failed int
				Resources      int `json:"resource_count"`
				Errors         int `json:"parsing_errors"`
			}
			Results struct {
				Failed []struct {
					ID       string `json:"check_id"`
					Resource string
				} `json:"failed_checks"`
			}
		}
		if bad := json.Unmarshal(out, &report); bad != nil || err != nil || report.Summary.Failed+report.Summary.Errors > 0 || report.Summary.Resources < 30 {
			t.Errorf("%s: %v, %v: %+v", name, err, bad, report)
		}
	}
}

// withValues is the template with the values of the parameters as defaults.
func withValues(t *testing.T, spec *loadstack.Spec) string {
	t.Helper()
	lines := strings.Split(string(spec.Template()), "\n")
	for _, p := range spec.Parameters() {
		for i, line := range lines {
			if rest, ok := strings.CutPrefix(line, "  "+p.Key+": {"); ok {
				var kept []string
				for part := range strings.SplitSeq(rest, ", ") {
					if !strings.HasPrefix(part, "Default: ") {
						kept = append(kept, part)
					}
				}
				lines[i] = fmt.Sprintf("  %s: {Default: '%s', %s", p.Key, p.Value, strings.Join(kept, ", "))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// The entry point of the master's container writes the locustfile, and becomes Locust with
// the arguments of the container.
func TestTheEntryPointWritesTheLocustfile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy(least())
		c := w.property("MasterTask", "ContainerDefinitions").([]any)[0].(map[string]any)
		program := c["EntryPoint"].([]any)[2].(string)
		packed := c["Environment"].([]any)[0].(map[string]any)["Value"].(string)
		folder := w.TempDir()
		program = strings.ReplaceAll(program, "/tmp/", folder+"/")
		locust := "#!/bin/sh\necho \"$@\"\n"
		if err := os.WriteFile(filepath.Join(folder, "locust"), []byte(locust), 0o700); err != nil { //nolint:gosec // a program
			w.Fatal(err)
		}
		cmd := exec.Command(peers.Python(w.T), "-c", program, "--master") //nolint:noctx // a bubble has no processes to wait for
		cmd.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "LOCUSTFILE=" + packed}
		out, err := cmd.CombinedOutput()
		if want := "-f " + folder + "/locustfile.py --master\n"; err != nil || string(out) != want {
			w.Errorf("%v: %q, want %q", err, out, want)
		}
		got, err := os.ReadFile(filepath.Join(folder, "locustfile.py"))
		if want := loadstack.Locustfile(least().Classes); err != nil || string(got) != string(want) {
			w.Errorf("%v: the locustfile is\n%s", err, got)
		}
	})
}
