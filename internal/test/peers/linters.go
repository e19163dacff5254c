//go:build conformance

package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// lint runs a linter once over all templates, and decodes its report. To start a linter takes
// longer than to judge a template. The linter fails if it finds something, so only a report that
// is none is an error.
func lint(tb testing.TB, linter string, flags []string, before string, templates []string, report any) (paths []string) {
	tb.Helper()
	folder := tb.TempDir()
	for i, body := range templates {
		path := filepath.Join(folder, fmt.Sprintf("template-%d.yaml", i))
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			tb.Fatalf("peers: %v", err)
		}
		paths, flags = append(paths, path), append(flags, before, path)
	}
	cmd := exec.CommandContext(tb.Context(), require(tb, "linters", "bin", linter), flags...) //nolint:gosec // installed by this package
	out, failure := cmd.Output()
	if err := json.Unmarshal(out, report); err != nil {
		tb.Fatalf("peers: %s: %v, %v\n%s", linter, failure, err, out)
	}
	return paths
}

// CFNLint lints CloudFormation templates in one run. It returns what it finds in each.
func CFNLint(tb testing.TB, templates ...string) (found [][]string) {
	tb.Helper()
	var report []struct {
		Filename, Message string
		Location          struct{ Start struct{ LineNumber int } }
	}
	paths := lint(tb, "cfn-lint", []string{"--format", "json"}, "--template", templates, &report)
	found = make([][]string, len(templates))
	for i, path := range paths {
		for _, r := range report {
			if r.Filename == path {
				found[i] = append(found[i], fmt.Sprintf("line %d: %s", r.Location.Start.LineNumber, r.Message))
			}
		}
	}
	return found
}

// Checkov judges the security of CloudFormation templates in one run. It returns what it finds, and
// how many resources it has judged.
func Checkov(tb testing.TB, templates ...string) (found []string, resources int) {
	tb.Helper()
	var report struct {
		Summary struct {
			Resources int `json:"resource_count"`
			Errors    int `json:"parsing_errors"`
		}
		Results struct {
			Failed []struct {
				ID       string `json:"check_id"`
				File     string `json:"file_path"`
				Resource string
			} `json:"failed_checks"`
		}
	}
	lint(tb, "checkov", []string{"--framework", "cloudformation", "--quiet", "--skip-download", "-o", "json"}, "-f", templates, &report)
	for _, f := range report.Results.Failed {
		found = append(found, fmt.Sprintf("%s: %s of %s", f.File, f.ID, f.Resource))
	}
	if n := report.Summary.Errors; n > 0 {
		found = append(found, fmt.Sprintf("%d templates cannot be parsed", n))
	}
	return found, report.Summary.Resources
}
