//go:build conformance

package deploy_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

func TestCFNLintFindsAPlantedErrorAlone(t *testing.T) {
	t.Parallel()
	body := string(newSpec(t, deploy.Defaults()).Template())
	deleting := string(newSpec(t, with(func(o *deploy.Options) { o.DeleteData = true })).Template())
	planted := strings.Replace(body, "KeyType: RANGE", "KeyType: SORT", 1)
	for i, found := range peers.CFNLint(t, body, deleting, planted) {
		if (len(found) > 0) != (i == 2) {
			t.Errorf("template %d: %q", i, found)
		}
	}
}

// Checkov judges the template under the values of its parameters. Metadata has the reason of
// each suppression, and only the form for people has Metadata.
func TestCheckovFindsNothing(t *testing.T) {
	t.Parallel()
	found, resources := peers.Checkov(t, withValues(t, newSpec(t, deploy.Defaults())), withValues(t, newSpec(t, widest())))
	if len(found) > 0 || resources < 2*30 {
		t.Errorf("%d resources: %q", resources, found)
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
