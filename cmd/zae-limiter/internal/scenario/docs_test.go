package scenario_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The scenarios in the document are scenarios.
func TestTheDocumentedScenarios(t *testing.T) {
	t.Parallel()
	blocks := strings.Split(document(t), "```yaml\n")
	if len(blocks) < 2 {
		t.Fatal("the document has no scenario")
	}
	for _, block := range blocks[1:] {
		text, _, _ := strings.Cut(block, "```")
		plan(t, parse(t, text))
	}
}

// The document has a row for every key.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	text := document(t)
	_, err := scenario.Parse("f", []byte(`
zz: 1
phases: [{zz: 1}]
entities: {e: {zz: 1}}
load: {c: {zz: 1, from: {zz: 1, spikes: {zz: 1}}, calls: [{zz: 1}], stages: [{zz: 1}]}}
`))
	wrong, ok := errors.AsType[*scenario.ParseError](err)
	if !ok {
		t.Fatal(err)
	}
	mappings := 0
	for _, f := range wrong.Findings {
		keys, unknown := strings.CutPrefix(f.Reason, "unknown key: use ")
		if !unknown {
			continue
		}
		mappings++
		for key := range strings.SplitSeq(keys, ", ") {
			if !strings.Contains(text, "`"+key+"`") {
				t.Errorf("the document does not explain %s, which is at %s", key, f.Path)
			}
		}
	}
	if mappings != 8 {
		t.Errorf("%d mappings have keys: %v", mappings, err)
	}
}
