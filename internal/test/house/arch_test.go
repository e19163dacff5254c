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

// mayImport lists the packages of this project and of the SDK that a package may
// import, except in its tests. An entry is a folder and also covers the folders below
// it, except for the root. The longest entry that matches counts; a package without an
// entry fails. An allowed import that ends in /... includes everything below it.
// Dependencies point one way: what runs on a store, the limiter, drivers,
// process, memory and plan, store, bucket. The engine
// stands apart and knows nothing of limits. The program stands on the library.
var mayImport = map[string][]string{
	// Users meet this one; it is thin.
	".": {"internal/acquire", "internal/calls", "internal/outage", "internal/plan", "internal/process", "internal/token", "internal/waiting", "store"},

	// The drivers.
	"internal/acquire": {"internal/calls", "internal/lane", "internal/memory", "internal/outage", "internal/plan", "internal/process", "internal/slots", "internal/token", "internal/upkeep", "internal/bucket", "store"},
	"internal/upkeep":  {"internal/memory", "internal/plan", "internal/process", "store"},

	// The process: its store, configuration, clocks and goroutines.
	"internal/process": {"internal/calls", "internal/config", "internal/memory", "internal/plan", "store"},
	"internal/config":  {"internal/calls", "internal/memory", "internal/plan", "store"},

	// What a process admits while the store is away: no clock, no I/O.
	"internal/outage": {"internal/bucket", "internal/memory", "internal/plan", "store"},

	// Memory does no I/O. The plan has no clock and no lock.
	"internal/memory": {"internal/bucket", "internal/calls", "internal/plan", "store"},
	"internal/plan":   {"internal/bucket", "internal/diary", "store"},
	"internal/lane":   {"internal/calls"},
	"internal/slots":  {"store"},
	"internal/token":  {"store"},
	"internal/calls":  {},
	// The order of callers that wait for tokens has no clock and no I/O.
	"internal/waiting": {},

	// The contract, and the arithmetic.
	"store":             {"internal/calendar"},
	"store/storetest":   {".", "store", "internal/diary"},
	"internal/bucket":   {"internal/calendar"},
	"internal/calendar": {},
	"internal/diary":    {"store"},

	// The store on DynamoDB.
	"dynamo":                     {"store", "dynamo/audit", "dynamo/usage", "dynamo/internal/conn", "dynamo/internal/direct", "dynamo/internal/expression", "dynamo/internal/namespace", "internal/bucket", "internal/calls", "internal/diary", "internal/process", "internal/schema", "internal/upkeep", sdk + "/..."},
	"dynamo/admin":               {"store", "dynamo", "dynamo/audit", "dynamo/stream", "dynamo/usage", "dynamo/internal/conn", "dynamo/internal/namespace", "internal/schema", sdk + "/..."},
	"dynamo/stream":              {"store", "dynamo", "dynamo/audit", "dynamo/internal/conn", "dynamo/internal/plainjson", "internal/schema", sdk + "/..."},
	"dynamo/usage":               {"store", "dynamo/internal/conn", "internal/diary", "internal/schema", sdk + "/..."},
	"dynamo/audit":               {"store", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/fastclient":          {"dynamo/fastclient/internal/...", "dynamo/internal/direct", "dynamo/internal/plainjson", "internal/calls", sdk + "/..."},
	"dynamo/internal/direct":     {sdkDB},
	"dynamo/internal/plainjson":  {},
	"dynamo/internal/conn":       {"dynamo/internal/direct", "internal/awsauth", "internal/calls", "store", "internal/schema", sdk + "/..."},
	"dynamo/internal/expression": {"dynamo/internal/direct", "store", "internal/schema", sdkDB + "/types"},
	"dynamo/internal/namespace":  {"store", "dynamo/audit", "dynamo/internal/conn", "internal/schema", sdk + "/..."},
	"dynamo/internal/fixture":    {"store", "dynamo", "dynamo/audit", "dynamolite", help + "faults", help + "testbed", "internal/schema", sdk + "/..."},
	"internal/schema":            {"internal/calendar", "internal/diary", "store", sdkDB + "/types"},
	// The codes with which AWS refuses credentials.
	"internal/awsauth": {},

	// The engine. Each line may use the lines below it: a facade, what executes requests, the
	// tables and the order of their writes, what is at rest, and what knows of no table.
	"dynamolite":            {engine + "...", sdk + "/..."},
	engine + "sweep":        {engine + "catalog", engine + "request", engine + "history", engine + "table", engine + "storage"},
	engine + "transact":     {engine + "request", engine + "history", engine + "table", engine + "storage", engine + "api", engine + "expr", engine + "value", engine + "wall", sdk + "/..."},
	engine + "request":      {engine + "catalog", engine + "history", engine + "table", engine + "storage", engine + "api", engine + "expr", engine + "value", engine + "wall", engine + "journal", sdk + "/..."},
	engine + "catalog":      {engine + "history", engine + "table", engine + "streams", engine + "storage", engine + "api", engine + "journal", engine + "wall", sdk + "/..."},
	engine + "history":      {engine + "table", engine + "streams", engine + "storage", engine + "api", engine + "journal", sdk + "/..."},
	engine + "table":        {engine + "streams", engine + "storage", engine + "api", engine + "stream", engine + "value", engine + "wall", engine + "journal", sdk + "/..."},
	engine + "streams":      {engine + "storage", engine + "api", engine + "stream", engine + "value", engine + "journal", sdk + "/..."},
	engine + "storage":      {engine + "api", engine + "value", engine + "wall", engine + "journal", sdk + "/..."},
	engine + "api":          {engine + "expr", engine + "value", engine + "journal", sdk + "/..."},
	engine + "server":       {engine + "api", engine + "sigv4", engine + "wire", sdk + "/..."},
	engine + "expr":         {engine + "value", sdk + "/..."},
	engine + "value":        {sdk + "/..."},
	engine + "wire":         {sdk + "/..."},
	engine + "sigv4":        {},
	engine + "journal":      {},
	engine + "stream":       {},
	engine + "wall":         {},
	engine + "differential": {},

	// Packages that run on a store.
	"aggregator":        {"store", "dynamo/audit", "dynamo/stream", "dynamo/usage", "internal/diary", "internal/plan", "internal/process", "internal/upkeep", lru},
	"aggregator/lambda": {"aggregator", "dynamo/stream", sdk + "/service/dynamodbstreams/types"},

	// Servers and clients of every protocol.
	"middleware/httplimit":          {".", "store", "middleware/internal/..."},
	"middleware/grpclimit":          {".", "store", "middleware/httplimit", "middleware/internal/..."}, // a module of its own
	"middleware/internal/admission": {"."},
	"middleware/internal/hold":      {lru},

	"metrics/promlimit":       {".", "store", "metrics/internal/labels"},
	"metrics/otellimit":       {".", "store", "metrics/internal/labels"}, // a module of its own
	"metrics/internal/labels": {".", "store"},

	// Help for tests.
	"limitertest":      {".", "dynamo", "dynamolite", help + "faults", help + "testbed", sdkDB + "/types"},
	help + "sim":       {".", "store", "aggregator", "dynamo", "dynamolite", "internal/bucket", sdk + "/..."},
	help + "peers":     {sdk + "/..."},
	help + "dated":     {"internal/calls", sdk + "/..."},
	help + "faults":    {"internal/calls", "store", "dynamo", "internal/schema", sdk + "/..."},
	help + "testbed":   {".", "internal/calls", "internal/process", "internal/upkeep", "store", "dynamo", "dynamolite", help + "faults"},
	help + "pipes":     {},
	help + "routers":   {}, // tests only; a module of its own, like deploy, which builds the program by its command
	help + "house":     {},
	help + "histories": {"pgregory.net/rapid"},
	"examples":         {".", "dynamo", "dynamolite"},
	"deploy":           {},

	// The program. Files and spellings:
	program + "yamlfile": {"store"},
	program + "limitarg": {"store"},
	program + "chart":    {program + "limitarg"},

	// What it does.
	program + "archive":                 {"store", "internal/awsauth", "dynamo/audit", sdk + "/aws", sdk + "/service/s3/..."},
	program + "redrive":                 {"store", "aggregator", "dynamo/stream", sdk + "/aws", sdk + "/service/sqs/..."},
	program + "replay":                  {"store", program + "limitarg", "internal/bucket"},
	program + "replay/logs":             {program + "replay", "store"},
	program + "estimate":                {".", "store", "aggregator", "dynamo", "dynamo/admin", "dynamo/stream", "dynamolite", "internal/diary", program + "drive/...", program + "virtual", program + "scenario", sdk + "/..."},
	program + "loadtest":                {".", "store", "internal/bucket", "dynamo", "dynamo/admin", "dynamolite", program + "estimate", program + "drive/...", "internal/schema", program + "loadtest/result", program + "scenario", sdk + "/..."},
	program + "loadtest/compare":        {"store", program + "loadtest/result"},
	program + "loadtest/report":         {program + "chart", program + "limitarg", program + "loadtest/result", program + "loadtest/swarm"},
	program + "loadtest/result":         {program + "limitarg"},
	program + "loadtest/fleet":          {"internal/calls", "store", program + "loadtest/swarm"},
	program + "loadtest/swarm":          {"internal/calls", "store"},
	program + "drive":                   {"internal/calls", ".", "store", "dynamo", program + "drive/setup", "internal/schema", program + "scenario", sdk + "/..."},
	program + "drive/setup":             {"internal/calls", "store", "dynamo", program + "scenario"},
	program + "virtual":                 {},
	program + "loadtest/search":         {"store", program + "loadtest/result"},
	program + "scenario":                {"store", program + "limitarg", program + "yamlfile"},
	program + "loadtest/locust":         {"store"},
	program + "loadtest/locust/perform": {".", "store", program + "drive/...", program + "loadtest/locust", program + "scenario"},
	program + "manifest":                {"store", "dynamo/...", program + "limitarg", program + "yamlfile"},
	program + "manifest/customresource": {"internal/calls", program + "manifest", "store", "dynamo/..."},
	program + "deploy":                  {"store", program + "deploy/option"},
	program + "deploy/option":           {"store"},
	program + "deploy/loadstack":        {"store", program + "deploy", program + "deploy/option", program + "loadtest/fleet"},
	program + "deploy/health":           {"internal/awsauth", "store", "dynamo", "dynamo/admin", "aggregator/lambda", program + "deploy/stack", sdk + "/..."},
	program + "deploy/stack":            {"internal/awsauth", "store", "dynamo", "dynamo/admin", program + "deploy/template", sdk + "/..."},
	program + "deploy/template":         {},
	program + "service/decide":          {".", "store", program + "limitarg"},
	program + "service/manage":          {".", "store", "dynamo", "dynamo/audit", "dynamo/usage", "internal/plan", program + "limitarg", program + "manifest", program + "service/decide"},
	program + "service/refusals":        {"."},
	program + "service/httpapi":         {".", "store", "dynamo", "dynamo/audit", "dynamo/usage", "middleware/httplimit", program + "manifest", program + "service/decide", program + "service/manage", program + "service/refusals"},
	program + "service/page":            {".", "store", "dynamo", "dynamo/audit", "dynamo/usage", program + "chart", program + "limitarg", program + "service/access", program + "service/httpapi", program + "service/manage", program + "service/refusals"},
	program + "service/hot":             {},
	program + "service/access":          {"store", program + "service/hot", lru},
	program + "service/mapping":         {".", "store", program + "service/hot", program + "yamlfile"},
	program + "service/envoy":           {".", "middleware/httplimit", program + "service/decide", program + "service/hot", program + "service/httpapi", program + "service/mapping"},
	program + "service/xds":             {program + "service/hot", program + "service/mapping"},
	program + "service/server":          {".", program + "service/access", program + "service/hot", program + "service/httpapi", program + "service/page"},

	// Its surface.
	program + "cli":   {".", "store", "internal/...", "aggregator/...", "dynamo/...", "dynamolite", "metrics/promlimit", program + "...", sdk + "/..."},
	"cmd/zae-limiter": {program + "cli", program + "cli/app"},

	// Its tests. Permissions: what IAM judges about requests, and the tables made of it.
	program + "test/cfntest":             {program + "deploy/template", sdk + "/..."},
	program + "test/cloudtest":           {sdk + "/..."},
	program + "test/s3test":              {help + "peers", sdk + "/..."},
	program + "test/doctest":             {},
	program + "test/documents":           {},
	program + "test/elftest":             {},
	program + "test/optiontest":          {"store", program + "deploy/option"},
	program + "test/resulttest":          {program + "loadtest/result"},
	program + "test/rolecreds":           {},
	program + "test/conformance":         {},
	program + "test/conformance/account": {"store", program + "deploy/stack"},
	program + "test/benchload":           {},
	program + "test/benchservice":        {},
	program + "test/iamtrace":            {"internal/schema", sdk + "/..."},
	program + "test/permissions":         {help + "faults", program + "test/iamtrace", "internal/schema", sdk + "/..."},
}

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
	"internal/calendar", "internal/slots", "internal/outage",
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
