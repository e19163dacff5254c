package app_test

import (
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// Programs branch on the kinds of errors: docs/json.md says what each means.
func TestKindsOfErrorsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| `error` | means |")
	table, _, _ = strings.Cut(table, "\n#")
	for _, kind := range app.Kinds() {
		if !strings.Contains(table, "`"+kind+"`") {
			t.Errorf("docs/json.md does not say what %q means", kind)
		}
	}
}
