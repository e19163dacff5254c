//go:build conformance

package loadstack_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

func TestCFNLintFindsPlantedErrorsAlone(t *testing.T) {
	t.Parallel()
	body := string(newSpec(t, least()).Template())
	templates := []string{body}
	for _, planted := range [][2]string{{"IpProtocol: tcp", "Protocol: tcp"}, {"RequiresCompatibilities: [FARGATE]", "RequiresCompatibilities: FARGATE"}} {
		templates = append(templates, strings.Replace(body, planted[0], planted[1], 1))
	}
	for i, found := range peers.CFNLint(t, templates...) {
		if (len(found) > 0) != (i > 0) {
			t.Errorf("template %d: %q", i, found)
		}
	}
}

// Checkov judges the template under the values of its parameters. Metadata has the reason of
// each suppression.
func TestCheckovFindsNothing(t *testing.T) {
	t.Parallel()
	found, resources := peers.Checkov(t, withValues(t, newSpec(t, least())), withValues(t, newSpec(t, widest())))
	if len(found) > 0 || resources < 2*30 {
		t.Errorf("%d resources: %q", resources, found)
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
