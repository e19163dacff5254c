package house_test

import (
	"go/ast"
	"go/doc"
	"iter"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTest matches the name of a test or of a script in a document, and of a test in a command.
var namedTest = regexp.MustCompile("\\b(Test[A-Z][A-Za-z0-9]*|[a-z-]+\\.txtar)(?:`|\\)?\\$\\$)")

// naming are the documents that name tests: of defects, of rules and of races. So does the Makefile.
func naming(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	return append(pages, "docs/peer-defects.md", "ARCHITECTURE.md", "Makefile")
}

// A test that is renamed or deleted would leave its defect, rule or race without one, unseen.
func TestEveryNamedTestExists(t *testing.T) {
	t.Parallel()
	const scripts = program + "cli/testdata/script"
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
	}
	count := 0
	for _, page := range naming(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			count++
			if _, err := os.Stat(filepath.Join(scripts, m[1])); !there[m[1]] && (err != nil || !strings.HasSuffix(m[1], ".txtar")) {
				t.Errorf("%s: %s is not a test", page, m[1])
			}
		}
	}
	if count < 80 {
		t.Errorf("found only %d names: does the pattern still fit the documents?", count)
	}
}

// mostWords has the length of documents that are read as a whole.
var mostWords = map[string]int{"ARCHITECTURE.md": 2500, "docs/adr/[0-9]*.md": 480}

// A decision or a map that is long is not read as a whole.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	for pattern, most := range mostWords {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: found %d documents, %v", pattern, len(pages), err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(strings.Fields(string(text))); n > most {
				t.Errorf("%s has %d words, %d are the most", page, n, most)
			}
		}
	}
}

// coined matches a word and its meaning in the first table of the glossary.
var coined = regexp.MustCompile(`(?m)^\| ([^|]+?) \| ([^|]+) \|$`)

// mostCoined is the number of coined words that a reader can learn.
const mostCoined = 70

// A glossary that nobody can learn does not help. A word with two meanings helps less.
func TestTheGlossaryIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(glossary)
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "\n## ")
	var words []string
	for _, m := range coined.FindAllStringSubmatch(table, -1) {
		word, _, _ := strings.Cut(m[1], " (")
		words = append(words, word)
		if strings.Contains(m[2], "; also ") {
			t.Errorf("%s has two meanings: %s", word, m[2])
		}
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "word" || word == "---" })
	if n := len(words); n < 40 || n > mostCoined {
		t.Errorf("the glossary has %d words, %d are the most", n, mostCoined)
	}
	for i, word := range words[1:] {
		if word <= words[i] {
			t.Errorf("%q follows %q: each word has one row, in alphabetical order", word, words[i])
		}
	}
}

// errorsOf are the packages whose errors docs/errors.md has. A name of a package with an
// import name here is written with it, because others have the same name.
var errorsOf = map[string]string{
	".": "", "store": "", "middleware/httplimit": "", "middleware/grpclimit": "",
	"dynamo": "dynamo.", "dynamo/admin": "admin.", "dynamo/stream": "stream.", "dynamolite": "dynamolite.",
}

// errorName matches the name of an exported condition or of an exported type of errors.
var errorName = regexp.MustCompile(`^(Err[A-Z]\w*|[A-Z]\w*Error)$`)

// A user who meets an error finds it on the page of errors.
func TestEveryErrorIsOnThePageOfErrors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, s := range sources(t) {
		prefix, ok := errorsOf[s.folder]
		if !ok || s.isTest() {
			continue
		}
		for name := range exported(s.file) {
			if !errorName.MatchString(name) {
				continue
			}
			count++
			if !strings.Contains(string(text), "| `"+prefix+name+"`") && !strings.Contains(string(text), ", `"+prefix+name+"`") {
				t.Errorf("docs/errors.md has no row with %s%s of %s", prefix, name, s.folder)
			}
		}
	}
	if count < 50 {
		t.Errorf("found only %d errors: does the pattern still fit their names?", count)
	}
}

// exported yields the names of a file's variables and types at the top level.
func exported(file *ast.File) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range file.Decls {
			general, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				var names []*ast.Ident
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					names = spec.Names
				case *ast.TypeSpec:
					names = []*ast.Ident{spec.Name}
				}
				for _, name := range names {
					if name.IsExported() && !yield(name.Name) {
						return
					}
				}
			}
		}
	}
}

// shown are the packages that users of the library import.
var shown = []string{".", "dynamo", "dynamolite", "limitertest", "metrics/otellimit", "metrics/promlimit", "middleware/grpclimit", "middleware/httplimit", "store"}

// A package without an example whose output is checked is learned from its source only.
func TestPackagesOfUsersHaveExamples(t *testing.T) {
	t.Parallel()
	checked := map[string]int{}
	for _, s := range sources(t) {
		for _, example := range doc.Examples(s.file) {
			if s.isTest() && (example.Output != "" || example.EmptyOutput) {
				checked[s.folder]++
			}
		}
	}
	for _, folder := range shown {
		if checked[folder] == 0 {
			t.Errorf("%s has no example with an output", folder)
		}
	}
	if checked["."] < 20 {
		t.Errorf("the root package has %d examples, fewer than before", checked["."])
	}
}

// parts are packages with a constructor or method that only package dynamo calls, for its
// stores.
var parts = []string{"dynamo/audit", "dynamo/fastclient", "dynamo/usage"}

// What a package offers can be used without the packages that nobody outside may import: no
// exported function, method, field or variable needs a type of theirs.
func TestNothingPublicNeedsAnInternalPackage(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || strings.Contains(s.folder+"/", "internal/") || strings.HasPrefix(s.folder, "cmd") || s.folder == "limitertest" {
			continue
		}
		hidden := map[string]bool{}
		for _, imported := range s.imports() {
			if strings.Contains(imported, "/internal/") && !slices.Contains(parts, s.folder) {
				hidden[path.Base(imported)] = true
			}
		}
		for what := range typesOffered(s.file) {
			ast.Inspect(what, func(n ast.Node) bool {
				if x, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := x.X.(*ast.Ident); ok && hidden[of.Name] {
						t.Errorf("%s: users need %s.%s, which they cannot import", s.at(x), of.Name, x.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// typesOffered goes through the types that users of a file's declarations meet: of parameters and
// results, and of fields.
func typesOffered(file *ast.File) iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || isExportedReceiver(d.Recv)) && !yield(d.Type) {
					return
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					of, ok := spec.(*ast.TypeSpec)
					if !ok || !of.Name.IsExported() {
						continue
					}
					fields, ok := of.Type.(*ast.StructType)
					if !ok {
						continue
					}
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							if name.IsExported() && !yield(field.Type) {
								return
							}
						}
					}
				}
			}
		}
	}
}

func isExportedReceiver(of *ast.FieldList) bool {
	at := of.List[0].Type
	if star, ok := at.(*ast.StarExpr); ok {
		at = star.X
	}
	name, ok := at.(*ast.Ident)
	return ok && name.IsExported()
}
