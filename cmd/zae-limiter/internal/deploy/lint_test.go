//go:build conformance

package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
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
	for _, deleteData := range []bool{false, true} {
		body := string(newSpec(t, with(func(o *deploy.Options) { o.DeleteData = deleteData })).Template())
		if out, err := exec.CommandContext(t.Context(), peers.CFNLint(t), "--", written(t, body)).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestCFNLintFindsAPlantedError(t *testing.T) {
	t.Parallel()
	body := strings.Replace(string(newSpec(t, deploy.Defaults()).Template()), "KeyType: RANGE", "KeyType: SORT", 1)
	if out, err := exec.CommandContext(t.Context(), peers.CFNLint(t), "--", written(t, body)).CombinedOutput(); err == nil {
		t.Errorf("a planted error was not found: %s", out)
	}
}

// Checkov judges the template under the values of its parameters. Metadata has the reason of
// each suppression, and only the form for people has Metadata.
func TestCheckovFindsNothing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]deploy.Options{"default": deploy.Defaults(), "widest": widest()} {
		spec := newSpec(t, o)
		path := written(t, withValues(t, spec))
		cmd := exec.CommandContext(t.Context(), peers.Checkov(t), "-f", path, "--framework", "cloudformation", "--quiet", "--skip-download", "-o", "json")
		out, err := cmd.Output()
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
		if bad := json.Unmarshal(out, &report); bad != nil || err != nil || report.Summary.Failed+report.Summary.Errors > 0 || report.Summary.Resources == 0 {
			t.Errorf("%s: %v, %v: %+v", name, err, bad, report)
		}
	}
}

// withValues is the template for people, with the values of the parameters as defaults.
func withValues(t *testing.T, spec *deploy.Spec) string {
	t.Helper()
	lines := strings.Split(spec.Source(), "\n")
	for _, p := range spec.Parameters() {
		for i, line := range lines {
			before, after, ok := strings.Cut(line, "  "+p.Key+": {Type: ")
			if !ok || before != "" {
				continue
			}
			kind, rest, _ := strings.Cut(after, ", Default: ")
			end := strings.Index(rest, ", ")
			if strings.HasPrefix(rest, "'") {
				end = strings.Index(rest[1:], "'") + 2
			}
			lines[i] = "  " + p.Key + ": {Type: " + kind + ", Default: '" + p.Value + "'" + rest[end:]
		}
	}
	return strings.Join(lines, "\n")
}
