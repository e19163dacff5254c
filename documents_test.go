package limiter_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest matches the name of a test or of a script in a document.
var namedTest = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*|[a-z-]+\\.txtar)`")

// A test that is renamed or deleted would leave its defect without one, unseen.
func TestEveryTestOfADefectExists(t *testing.T) {
	t.Parallel()
	const scripts = "internal/cli/testdata/script"
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile("docs/peer-defects.md")
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllStringSubmatch(string(text), -1)
	if len(named) < 60 {
		t.Errorf("found only %d names: does the pattern still fit the document?", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(scripts, m[1])); !there[m[1]] && (err != nil || !strings.HasSuffix(m[1], ".txtar")) {
			t.Errorf("%s is not a test", m[1])
		}
	}
}
