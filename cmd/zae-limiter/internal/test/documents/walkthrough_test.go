package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A reader who follows the walkthrough finds each file, function and type that it names.
func TestTheWalkthroughNamesWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../../docs/walkthrough.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := declaredNames(t, "../../../../..")
	found := 0
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(string(text), -1) {
		name := strings.Trim(span, "`")
		if _, err := os.Stat(filepath.Join("..", "..", "..", "..", "..", name)); err == nil || strings.HasPrefix(name, "zae-limiter ") {
			continue
		}
		if strings.Contains(name, "/") || strings.HasSuffix(name, ".go") {
			t.Errorf("there is no file or package %s", name)
			continue
		}
		found++
		// Values have the names of variables before the dot, so only the last part is looked up.
		if last := name[strings.LastIndex(name, ".")+1:]; !declared[last] {
			t.Errorf("no function and no type has the name %s", name)
		}
	}
	if found < 50 {
		t.Errorf("found %d names: does the pattern still fit the document?", found)
	}
}

// declaredNames has the names of all functions, methods, types and fields below a directory.
func declaredNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared[n.Name.Name] = true
			case *ast.TypeSpec:
				declared[n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					declared[name.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}
