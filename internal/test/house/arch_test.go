package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/zeroae/zae-limiter-go"
	sdk    = "github.com/aws/aws-sdk-go-v2"
	sdkDB  = sdk + "/service/dynamodb"
	// lru bounds what aggregators and middleware remember. A maintained library tracks
	// which entry was used last; this one imports only the standard library. A limiter
	// remembers so much that it has an own one, of half the size.
	lru = "github.com/hashicorp/golang-lru/v2/simplelru"
)

// Some folders have long names. The tables begin the names of packages below them with these.
const (
	program = "cmd/zae-limiter/internal/"
	help    = "internal/test/"
	engine  = "dynamolite/internal/"
)

// testsOnly lists the folders whose packages only tests and each other import.
var testsOnly = []string{"limitertest", "internal/test", "dynamo/internal/fixture", "store/storetest", program + "test"}

// isForTests reports whether a package is for tests only.
func isForTests(folder string) bool {
	return slices.ContainsFunc(testsOnly, func(f string) bool { return covers(f+"/...", folder) })
}

// standardOnly lists the packages that import only the packages above and the standard
// library.
var standardOnly = []string{
	".", "store", "internal/acquire", "internal/upkeep", "internal/process", "internal/config",
	"internal/memory", "internal/plan", "internal/lane", "internal/calls", "internal/bucket",
	"internal/calendar", "internal/slots", "internal/outage", "internal/ledger",
}

// mayKnowTheTime lists the folders whose code may mention time.Now, Since and Until.
// Elsewhere these are defaults, marked as such for the linter.
var mayKnowTheTime = []string{"cmd/zae-limiter", "examples", "internal/test/benchmarks"}

// maxLines is the maximum length of a file that is not a test.
const maxLines = 600

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	m.Run()
}

// source is one Go file.
type source struct {
	path   string // relative to the root of the repository
	folder string
	file   *ast.File
	lines  int
	set    *token.FileSet
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// at returns the position of a node, for messages.
func (s *source) at(n ast.Node) string { return s.set.Position(n.Pos()).String() }

func (s *source) imports() []string {
	var all []string
	for _, spec := range s.file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		all = append(all, name)
	}
	return all
}

// sources returns every Go file of the repository, including its nested modules. The
// tests share the result and do not modify it.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d files; the test must run in the root of the repository", len(all))
	}
	return all
}

// parsed parses the repository once, for the first caller.
var parsed = sync.OnceValues(parse)

func parse() (all []*source, err error) {
	err = filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, &source{
			path: filepath.ToSlash(file), folder: filepath.ToSlash(filepath.Dir(file)),
			file: tree, lines: set.File(tree.Pos()).LineCount(), set: set,
		})
		return nil
	})
	return all, err
}

// covers reports whether an entry of the tables covers a package.
func covers(entry, name string) bool {
	below, all := strings.CutSuffix(entry, "/...")
	return name == below || all && strings.HasPrefix(name, below+"/")
}

// ruleFor returns the entry of mayImport for a folder.
func ruleFor(folder string) (allowed []string, ok bool) {
	for at := folder; ; at = path.Dir(at) {
		if allowed, ok = mayImport[at]; ok {
			return allowed, at != "." || folder == "."
		}
	}
}

func TestDependenciesPointOneWay(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || s.folder == "internal/test/benchmarks" { // which compares with other libraries
			continue
		}
		allowed, ok := ruleFor(s.folder)
		if !ok {
			t.Errorf("%s: no rule says what %s may import; add one to mayImport", s.path, s.folder)
			continue
		}
		for _, imported := range s.imports() {
			name, governed := governs(imported)
			if !governed && !slices.Contains(standardOnly, s.folder) {
				continue
			}
			isStandard := !strings.Contains(imported, ".")
			if !isStandard && !slices.ContainsFunc(allowed, func(entry string) bool { return covers(entry, name) }) {
				t.Errorf("%s imports %s, which %s may not", s.path, imported, s.folder)
			}
			if isForTests(name) && !isForTests(s.folder) {
				t.Errorf("%s imports %s, which is for tests only", s.path, imported)
			}
		}
	}
}

// governs reports whether mayImport covers an import, and under which name.
func governs(imported string) (name string, governed bool) {
	if imported == module {
		return ".", true
	}
	if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
		return inside, true
	}
	return imported, strings.HasPrefix(imported, sdk)
}

// A test that embeds the API repeats the methods that it is about, and forgets others. A
// hook of internal/test/faults sees every operation.
func TestNoTestEmbedsTheAPI(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			of, ok := n.(*ast.StructType)
			if !ok || !s.isTest() && !isForTests(s.folder) {
				return true
			}
			for _, field := range of.Fields.List {
				if len(field.Names) == 0 && (isName(field.Type, "dynamo", "API") || isName(field.Type, "conn", "API")) {
					t.Errorf("%s embeds the API; use a hook of internal/test/faults", s.at(field))
				}
			}
			return true
		})
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.isTest() && s.lines > maxLines {
			t.Errorf("%s has %d lines, %d are the most", s.path, s.lines, maxLines)
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if !s.isTest() {
			documented[s.folder] = documented[s.folder] || s.file.Doc != nil
		}
	}
	for folder, ok := range documented {
		if !ok {
			t.Errorf("no file in %s has a package comment", folder)
		}
	}
}

// The modules that are released together are those of go.work: in the repository they use
// each other as they are here. A replace directive would make go install refuse them. The
// others are never released; they replace the library with the repository.
func TestModulesUseTheRepository(t *testing.T) {
	t.Parallel()
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	found := documents(t, "go.mod")
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		released := strings.Contains(string(work), "\n\t./"+path.Dir(file)+"\n")
		switch replaces := strings.Contains(string(text), "\nreplace "); {
		case file == "go.mod", file == "tools/go.mod":
			if replaces {
				t.Errorf("%s replaces a module", file)
			}
		case released && replaces:
			t.Errorf("%s replaces a module, so that go install refuses it", file)
		case !released && !strings.Contains(string(text), "\nreplace "+module+" => ../"):
			t.Errorf("%s is neither in go.work, nor does it replace %s", file, module)
		}
	}
	if len(found) < 8 {
		t.Errorf("found only %q", found)
	}
}

// room returns the part of the house that a package belongs to: a folder at the root of the
// repository or of the program. All packages for tests are one part. So is the calendar: it knows
// nothing of the rest, and what names limits knows the calendar.
func room(folder string) string {
	if folder == "internal/calendar" {
		return folder
	}
	if rest, ok := strings.CutPrefix(folder, program); ok && !isForTests(folder) {
		first, _, _ := strings.Cut(rest, "/")
		return program + first
	}
	if isForTests(folder) {
		return "internal/test"
	}
	first, _, _ := strings.Cut(folder, "/")
	return first
}

// Packages cannot import each other in a circle; rooms could. A room that needs another, which
// needs the first, cannot be understood without it.
func TestNoKnotOfRooms(t *testing.T) {
	t.Parallel()
	imports := map[string]map[string]string{} // the file, by both rooms
	for _, s := range sources(t) {
		from := room(s.folder)
		for _, imported := range s.imports() {
			name, _ := governs(imported)
			to := room(name)
			if s.isTest() || !strings.HasPrefix(imported, module) || to == from {
				continue
			}
			if imports[from] == nil {
				imports[from] = map[string]string{}
			}
			imports[from][to] = s.path
		}
	}
	var visit func(at string, way []string)
	done := map[string]bool{}
	visit = func(at string, way []string) {
		if slices.Contains(way, at) {
			t.Errorf("rooms import each other in a circle: %s", strings.Join(append(way[slices.Index(way, at):], at), " → "))
			return
		}
		if done[at] {
			return
		}
		for to := range imports[at] {
			visit(to, append(way, at))
		}
		done[at] = true
	}
	for from := range imports {
		visit(from, nil)
	}
	if len(imports) < 12 {
		t.Errorf("found only %d rooms", len(imports))
	}
}

func TestNobodyElseKnowsTheTime(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || slices.ContainsFunc(mayKnowTheTime, func(f string) bool { return covers(f+"/...", s.folder) }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && isCall(call, "time", "Now", "Since", "Until") {
				t.Errorf("%s calls the clock; take the instant, or a now func() time.Time", s.at(call))
			}
			return true
		})
	}
}

func TestNoTestIsSkipped(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Fuzz") {
				return false // this skips an input, not a test
			}
			call, ok := n.(*ast.CallExpr)
			for _, receiver := range []string{"t", "tb", "b"} {
				if ok && isCall(call, receiver, "Skip", "Skipf", "SkipNow") {
					t.Errorf("%s skips a test, which then reads like a passed one", s.at(call))
				}
			}
			return true
		})
	}
}

// isCall reports whether call is receiver.name for one of the names.
func isCall(call *ast.CallExpr, receiver string, names ...string) bool {
	return isName(call.Fun, receiver, names...)
}

// isName reports whether an expression is receiver.name for one of the names.
func isName(expr ast.Expr, receiver string, names ...string) bool {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == receiver && slices.Contains(names, selector.Sel.Name)
}

// retired are synonyms that the glossary replaces. Its table has them, and nothing else does.
var retired = regexp.MustCompile(`(?i)\b(contended|contested|fought|haste|modest\w*|spoiled|in vain|hopeless)\b`)

// glossary has the coined words, and the table of those that they replace.
const glossary = "docs/design/glossary.md"

// One word stands for one thing: the glossary's table of retired synonyms holds.
func TestRetiredWordsStayRetired(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir(), filepath.Ext(name) != ".go" && filepath.Ext(name) != ".md", file == glossary, file == "internal/test/house/arch_test.go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if word := retired.FindString(line); word != "" {
				t.Errorf("%s:%d says %q: %s has the word to use", file, i+1, word, glossary)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The first screen of the repository: what the library is, and nothing else.
func TestTheRootIsSmall(t *testing.T) {
	t.Parallel()
	const most = 16
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files, folders := 0, 0
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."):
		case e.IsDir():
			folders++
		case strings.HasSuffix(name, "_test.go"):
			if !strings.HasPrefix(name, "example_") && name != "errors_test.go" {
				t.Errorf("%s: a test of how the limiter behaves belongs into internal/acquire", name)
			}
		case strings.HasSuffix(name, ".go"):
			files++
		}
	}
	if files > most || folders > most {
		t.Errorf("the root has %d files of Go and %d folders, at most %d of each", files, folders, most)
	}
}
