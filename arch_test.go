package limiter_test

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
	// lru bounds what limiters and aggregators remember. A maintained library tracks
	// which entry was used last; this one imports only the standard library.
	lru = "github.com/hashicorp/golang-lru/v2/simplelru"
)

// mayImport lists the packages of this project and of the SDK that a package may
// import, except in its tests. An entry is a folder and also covers the folders below
// it, except for the root. The longest entry that matches counts; a package without an
// entry fails. An allowed import that ends in /... includes everything below it.
// Dependencies point one way: programs, what runs on a store, limiter and tend, drivers,
// process, memory and plan, store, bucket. The engine
// stands apart and knows nothing of limits.
var mayImport = map[string][]string{
	// Users meet these two; they are thin.
	".":    {"internal/acquire", "internal/calls", "internal/plan", "internal/process", "internal/waiting", "store"},
	"tend": {"internal/memory", "internal/process", "internal/upkeep", "store"},

	// The drivers.
	"internal/acquire": {"internal/calls", "internal/lane", "internal/memory", "internal/plan", "internal/process", "internal/upkeep", "internal/bucket", "store"},
	"internal/upkeep":  {"internal/memory", "internal/plan", "internal/process", "store"},

	// The process: its store, configuration, clocks and goroutines.
	"internal/process": {"internal/calls", "internal/config", "internal/memory", "internal/plan", "store"},
	"internal/config":  {"internal/calls", "internal/memory", "internal/plan", "store"},

	// Memory does no I/O. The plan has no clock and no lock.
	"internal/memory": {"internal/bucket", "internal/calls", "internal/plan", "store", lru},
	"internal/plan":   {"internal/bucket", "store"},
	"internal/lane":   {"internal/calls"},
	"internal/calls":  {},
	// The order of callers that wait for tokens has no clock and no I/O.
	"internal/waiting": {},

	// The contract, and the arithmetic.
	"store":           {},
	"internal/bucket": {},

	// The store on DynamoDB.
	"dynamo":                     {"tend", "store", "dynamo/audit", "dynamo/usage", "dynamo/internal/conn", "dynamo/internal/expression", "internal/bucket", "internal/schema", sdk + "/..."},
	"dynamo/admin":               {"store", "dynamo", "dynamo/stream", "dynamo/usage", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/stream":              {"store", "dynamo", "dynamo/audit", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/usage":               {"store", "dynamo/internal/conn", "dynamo/internal/expression", "internal/schema", sdk + "/..."},
	"dynamo/audit":               {"store", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/fastclient":          {sdk + "/..."},
	"dynamo/internal/conn":       {"internal/awsauth", "internal/calls", "store", "internal/schema", sdk + "/..."},
	"dynamo/internal/expression": {"store", "internal/schema", sdkDB + "/types"},
	"internal/schema":            {"store", sdkDB + "/types"},

	// The engine.
	"dynamolite":          {"dynamolite/internal/...", sdk + "/..."},
	"dynamolite/internal": {"dynamolite/internal/...", sdk + "/..."},

	// Packages that run on a store.
	"aggregator":                   {"store", "dynamo/audit", "dynamo/stream", "dynamo/usage", "tend", lru},
	"aggregator/lambda":            {"aggregator", "dynamo/stream", sdk + "/service/dynamodbstreams/types"},
	"aggregator/redrive":           {"store", "aggregator", "dynamo/stream", "dynamo/usage", sdk + "/aws", sdk + "/service/sqs/..."},
	"archive":                      {"store", "internal/awsauth", "dynamo/audit", sdk + "/aws", sdk + "/service/s3/..."},
	"replay":                       {"store", "internal/bucket"},
	"replay/logs":                  {"replay", "store"},
	"estimate":                     {".", "store", "tend", "aggregator", "dynamo", "dynamo/stream", "dynamo/usage", "dynamolite", "internal/drive/...", "internal/virtual", "loadtest/scenario", sdk + "/..."},
	"loadtest":                     {".", "store", "dynamo", "dynamolite", "estimate", "internal/drive/...", "internal/schema", "loadtest/result", "loadtest/scenario", sdk + "/..."},
	"loadtest/compare":             {"store", "loadtest/internal/confidence", "loadtest/result"},
	"loadtest/report":              {"internal/chart", "internal/limitarg", "loadtest/result", "loadtest/swarm"},
	"loadtest/result":              {"internal/limitarg"},
	"loadtest/fleet":               {"store", "loadtest/swarm"},
	"loadtest/swarm":               {"store"},
	"loadtest/internal/confidence": {},
	"internal/drive":               {".", "store", "dynamo", "internal/drive/setup", "internal/schema", "loadtest/scenario", sdk + "/..."},
	"internal/virtual":             {},
	"internal/drive/setup":         {"store", "dynamo", "loadtest/scenario"},
	"loadtest/search":              {"store", "loadtest/internal/confidence", "loadtest/result"},
	"loadtest/scenario":            {"store", "internal/limitarg", "internal/yamlfile"},
	"loadtest/locust":              {"store"},
	"loadtest/locust/perform":      {".", "store", "dynamo", "internal/drive/setup", "loadtest/locust", "loadtest/scenario"},
	"manifest":                     {"store", "dynamo/...", "internal/limitarg", "internal/yamlfile"},
	"manifest/customresource":      {"manifest", "store", "dynamo/..."},

	// Rooms for what comes next; an entry without a folder holds its place.
	"httplimit":                 {".", "store", "internal/admission", "internal/hold"},
	"grpclimit":                 {".", "store", "httplimit", "internal/admission", "internal/hold"}, // a module of its own
	"routers":                   {},                                                                 // tests only; a module of its own
	"promlimit":                 {".", "store", "internal/labels"},
	"otellimit":                 {".", "store", "internal/labels"},
	"internal/labels":           {".", "store"},
	"service":                   {".", "store", "tend", "dynamo/..."},
	"deploy":                    {"store", "deploy/internal/parameter"},
	"deploy/loadstack":          {"store", "deploy", "deploy/internal/parameter", "loadtest/fleet"},
	"deploy/internal/parameter": {"store"},
	"deploy/health":             {"internal/awsauth", "store", "dynamo", "dynamo/admin", "aggregator/lambda", "deploy/stack", sdk + "/..."},
	"deploy/stack":              {"internal/awsauth", "store", "dynamo", sdk + "/..."},
	"internal/calendar":         {"store", "internal/bucket"},

	// The codes with which AWS refuses credentials.
	"internal/awsauth": {},

	// Servers and clients of every protocol share these.
	"internal/admission": {"."},
	"internal/hold":      {},

	// Files and spellings.
	"internal/yamlfile": {"store"},
	"internal/limitarg": {"store"},

	// Charts in pages.
	"internal/chart": {"internal/limitarg"},

	// Programs.
	"internal/cli": {".", "store", "tend", "aggregator/...", "archive", "deploy/...", "dynamo/...", "dynamolite", "loadtest/...", "manifest/...", "replay/...", "estimate", "internal/...", sdk + "/..."},
	"cmd":          {"internal/cli", "internal/cli/app"},
	"examples":     {".", "dynamo", "dynamolite"},

	// Help for tests.
	"storetest":           {".", "store"},
	"limitertest":         {".", "dynamo", "dynamolite", "internal/faults", "internal/limitertest", sdkDB + "/types"},
	"internal/sim":        {".", "store", "tend", "aggregator", "dynamo", "dynamolite", "internal/bucket", sdk + "/..."},
	"internal/peers":      {sdk + "/..."},
	"internal/s3test":     {sdk + "/..."},
	"internal/cfntest":    {sdk + "/..."},
	"internal/cloudtest":  {sdk + "/..."},
	"internal/dated":      {"internal/calls", sdk + "/..."},
	"internal/doctest":    {},
	"internal/elftest":    {},
	"internal/faults":     {"internal/calls", "store", "dynamo", "internal/schema", sdk + "/..."},
	"internal/resulttest": {"loadtest/result"},
	"conformance/account": {"store", "deploy/stack"},

	// Permissions: what IAM judges about requests, and the tables made of it.
	"internal/iamtrace":    {"internal/schema", sdk + "/..."},
	"internal/permissions": {"internal/faults", "internal/iamtrace", "internal/schema", sdk + "/..."},

	"internal/limitertest":    {".", "tend", "store", "dynamo", "dynamolite", "internal/faults"},
	"dynamo/internal/fixture": {"store", "dynamo", "dynamo/audit", "dynamolite", "internal/faults", "internal/limitertest", "internal/schema", sdk + "/..."},
}

// testsOnly lists the packages that only tests and each other import.
var testsOnly = []string{
	"limitertest", "internal/faults", "internal/limitertest", "dynamo/internal/fixture", "internal/cfntest", "internal/cloudtest", "internal/s3test", "internal/dated", "internal/doctest", "internal/elftest", "internal/peers", "internal/permissions", "internal/resulttest", "storetest",
}

// standardOnly lists the packages that import only the packages above and the standard
// library.
var standardOnly = []string{
	".", "tend", "store", "internal/acquire", "internal/upkeep", "internal/process", "internal/config",
	"internal/memory", "internal/plan", "internal/lane", "internal/calls", "internal/bucket",
}

// mayKnowTheTime lists the folders whose code may mention time.Now, Since and Until.
// Elsewhere these are defaults, marked as such for the linter.
var mayKnowTheTime = []string{"cmd", "internal/cli", "examples", "benchmarks"}

// tagged lists the folders whose tests need the real counterparts. The Makefile runs
// these tests with the tag.
var tagged = []string{"aggregator", "aggregator/redrive", "archive", "conformance", "conformance/emulated", "deploy", "deploy/loadstack", "deploy/health", "deploy/stack", "dynamo", "dynamo/admin", "dynamo/stream", "dynamo/usage", "dynamolite/internal/differential", "internal/peers", "internal/permissions", "loadtest/locust", "promlimit", "otellimit", "benchmarks"}

// maxLines is the maximum length of a file that is not a test.
const maxLines = 600

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
		if s.isTest() || s.folder == "benchmarks" { // benchmarks is a module of its own
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
			if slices.Contains(testsOnly, name) && !slices.Contains(testsOnly, s.folder) {
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
// hook of internal/faults sees every operation.
func TestNoTestEmbedsTheAPI(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			of, ok := n.(*ast.StructType)
			if !ok || !s.isTest() && !slices.Contains(testsOnly, s.folder) {
				return true
			}
			for _, field := range of.Fields.List {
				if len(field.Names) == 0 && (isName(field.Type, "dynamo", "API") || isName(field.Type, "conn", "API")) {
					t.Errorf("%s embeds the API; use a hook of internal/faults", s.at(field))
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

// The Makefile finds the nested modules in the folders of the root. They are built with the
// rest of the repository, and not with a published version.
func TestNestedModulesAreCovered(t *testing.T) {
	t.Parallel()
	found := documents(t, "go.mod")
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(file, "/") > 1 {
			t.Errorf("%s is too deep for the variable modules of the Makefile", file)
		}
		if file != "go.mod" && file != "tools/go.mod" && !strings.Contains(string(text), "\nreplace "+module+" => ../\n") {
			t.Errorf("%s does not replace %s with ../", file, module)
		}
	}
	if len(found) < 4 {
		t.Errorf("found only %q", found)
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

func TestTaggedFilesAreRun(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if strings.Contains(constraint(s.file), "conformance") && !slices.Contains(tagged, s.folder) {
			t.Errorf("%s needs the tag conformance, but make conformance does not test %s", s.path, s.folder)
		}
	}
}

// The Makefile lists the long tests by name. If a listed test is renamed, it runs with
// the other tests again. If another package has a test of the same name, that test is
// never run.
func TestLongTestsAreRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	words := func(variable string) []string {
		_, value, ok := strings.Cut("\n"+strings.ReplaceAll(string(text), "\\\n", " "), "\n"+variable+" = ")
		if !ok {
			t.Fatalf("the Makefile does not set %s", variable)
		}
		value, _, _ = strings.Cut(value, "\n")
		return strings.Fields(value)
	}
	long, packages, found := words("long"), words("long_packages"), map[string]bool{}
	for i, name := range packages {
		packages[i] = path.Clean(name)
	}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !s.isTest() || !slices.Contains(long, f.Name.Name) {
				continue
			}
			found[f.Name.Name] = true
			if !slices.Contains(packages, s.folder) {
				t.Errorf("%s: %s has the name of a long test, but make long does not test %s", s.at(f), f.Name.Name, s.folder)
			}
		}
	}
	for _, name := range long {
		if !found[name] {
			t.Errorf("the Makefile has a long test %s, which does not exist", name)
		}
	}
}

// constraint returns the file's //go:build line.
func constraint(file *ast.File) string {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if comment.Pos() < file.Package && strings.HasPrefix(comment.Text, "//go:build ") {
				return comment.Text
			}
		}
	}
	return ""
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

// One word stands for one thing: the glossary's table of retired synonyms holds.
func TestRetiredWordsStayRetired(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir(), filepath.Ext(name) != ".go" && filepath.Ext(name) != ".md", file == "ARCHITECTURE.md", file == "arch_test.go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if word := retired.FindString(line); word != "" {
				t.Errorf("%s:%d says %q: the glossary in ARCHITECTURE.md has the word to use", file, i+1, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
