package doctest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

const root = "../../../../.."

// untested is the number of blocks that the tests leave alone. Each says why, in its mark.
const untested = 75

// Each block of the documents has a check, and each check has blocks.
func TestEachBlockHasACheck(t *testing.T) {
	t.Parallel()
	count := 0
	for _, b := range doctest.Blocks(t, root) {
		if b.Check == doctest.Untested {
			count++
		}
	}
	if count != untested {
		t.Errorf("%d blocks are marked as untested, and the constant says %d", count, untested)
	}
	doctest.Blocks(t, root, doctest.Checks()...) // fails for a check without blocks
}

// A check that no test carries out would let every block pass.
func TestEachCheckIsCarriedOut(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == "." {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "cmd/zae-limiter/internal/test/doctest") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isSelector(call.Fun, "Blocks") {
				return true
			}
			for _, arg := range call.Args {
				if s, ok := arg.(*ast.SelectorExpr); ok && isSelector(s, s.Sel.Name) {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range doctest.Checks() {
		name := strings.ToUpper(string(check[:1])) + string(check[1:])
		if check != doctest.Untested && !used[name] {
			t.Errorf("no test takes doctest.Blocks(…, doctest.%s): nothing checks these blocks", name)
		}
	}
}

// isSelector reports whether an expression is a name of the package doctest.
func isSelector(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "doctest"
}

func TestParse(t *testing.T) {
	t.Parallel()
	const fence = "```"
	for name, c := range map[string]struct {
		document, text string
		want           []doctest.Block
		problems       []string
	}{
		"a block and its mark": {
			"guides/a.md", "text\n\n<!-- given: n int64 -->\n" + fence + "go\nf(n)\n" + fence + "\n",
			[]doctest.Block{{Line: 5, Language: "go", Mark: "given", Argument: "n int64", Check: doctest.Fragment, Text: "f(n)\n"}},
			nil,
		},
		"a mark without an argument": {
			"guides/a.md", "<!-- drawing -->\n" + fence + "text\n→\n" + fence + "\n",
			[]doctest.Block{{Line: 3, Language: "text", Mark: "drawing", Check: doctest.Drawing, Text: "→\n"}},
			nil,
		},
		"a block in a list": {
			"guides/a.md", "1. first\n\n   " + fence + "sh\n   zae-limiter version\n   " + fence + "\n\n    more of it\n",
			[]doctest.Block{{Line: 4, Language: "sh", Check: doctest.Session, Text: "zae-limiter version\n"}},
			nil,
		},
		"a folder decides": {
			"docs/cli/top.md", fence + "text\nzae-limiter a\n" + fence + "\n",
			[]doctest.Block{{Line: 2, Language: "text", Check: doctest.Reference, Text: "zae-limiter a\n"}},
			nil,
		},
		"a new language": {
			"guides/a.md", "a\n" + fence + "rust\n" + fence + "\n",
			[]doctest.Block{{Line: 3, Language: "rust"}},
			[]string{`guides/a.md:3: no check is known for a block of rust with the mark ""`},
		},
		"an unknown mark": {
			"guides/a.md", "<!-- outptu: start -->\n" + fence + "sh\n" + fence + "\n",
			[]doctest.Block{{Line: 3, Language: "sh", Mark: "outptu", Argument: "start"}},
			[]string{`guides/a.md:3: no check is known for a block of sh with the mark "outptu"`},
		},
		"no language": {"guides/a.md", fence + "\n" + fence + "\n", []doctest.Block{{Line: 2}}, []string{"guides/a.md:2: the block has no language"}},
		"no reason": {
			"guides/a.md", "<!-- untested: -->\n" + fence + "c\n" + fence + "\n",
			[]doctest.Block{{Line: 3, Language: "c", Mark: "untested", Check: doctest.Untested}},
			[]string{"guides/a.md:3: say why the block is untested"},
		},
		"no end":      {"guides/a.md", fence + "sh\n", nil, []string{"guides/a.md:2: the block has no end"}},
		"no fence":    {"guides/a.md", "text:\n\n    zae-limiter version\n", nil, []string{"guides/a.md:3: the block is indented"}},
		"after lists": {"guides/a.md", "- item\n\ntext:\n\n    zae-limiter version\n", nil, []string{"guides/a.md:5: the block is indented"}},
	} {
		got, _, problems := doctest.Parse(c.document, c.text)
		for i := range c.want {
			c.want[i].Document = c.document
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !slices.EqualFunc(c.problems, problems, func(want string, got error) bool { return strings.HasPrefix(got.Error(), want) }) {
			t.Errorf("%s: problems %q, want %q", name, problems, c.problems)
		}
	}
}
