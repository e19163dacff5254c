package cli_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/compare"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest/customresource"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
)

const (
	// repository is the root of the repository, from this folder.
	repository = "../../../.."
	// namesFile has the rules of JSON, and a table of names that several outputs share.
	namesFile  = repository + "/docs/json.md"
	schemas    = repository + "/docs/schemas"
	modulePath = "github.com/zeroae/zae-limiter-go"
	draft      = "https://json-schema.org/draft/2020-12/schema"
)

// withoutResult lists the commands that print no result: functions of AWS Lambda.
var withoutResult = []string{"loadtest orchestrate", "loadtest serve-worker", "provision"}

// A logLine is a line of the log, which is on standard error.
type logLine struct {
	Time  time.Time `json:"time"`  // when the event happened, in the local zone
	Level string    `json:"level"` // DEBUG, INFO, WARN or ERROR
	Msg   string    `json:"msg"`   // the event, in the same words every time; further fields have its details
}

// A schemaMaker makes schemas from Go types. The names, whether a field may be missing, and
// whether it may be null come from the type; descriptions come from comments.
type schemaMaker struct {
	defs   map[string]any
	names  map[string]sharedName
	errors []string        // kinds of errors
	used   map[string]bool // entries of wordsOf
	bad    []string        // what is wrong
	files  map[string]*folderDocs
}

func newSchemaMaker() (*schemaMaker, error) {
	names, err := sharedNames()
	if err != nil {
		return nil, err
	}
	kinds, err := errorKinds()
	return &schemaMaker{defs: map[string]any{}, names: names, errors: kinds, used: map[string]bool{}, files: map[string]*folderDocs{}}, err
}

// A sharedName is a row of the table of names in docs/json.md.
type sharedName struct{ kind, text string }

var tableRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (\\w+) \\| (.+) \\|$")

// sharedNames reads the table of names.
var sharedNames = sync.OnceValues(func() (map[string]sharedName, error) {
	text, err := os.ReadFile(namesFile)
	if err != nil {
		return nil, err
	}
	names := map[string]sharedName{}
	for _, row := range tableRow.FindAllStringSubmatch(string(text), -1) {
		names[row[1]] = sharedName{row[2], row[3]}
	}
	return names, nil
})

// documentOf is the schema of values of the types.
func documentOf(title string, types ...reflect.Type) (schema map[string]any, problems []string, err error) {
	m, err := newSchemaMaker()
	if err != nil {
		return nil, nil, err
	}
	schema = map[string]any{"$schema": draft, "title": title}
	var all []any
	for _, t := range types {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		all = append(all, m.of(t))
	}
	if len(all) == 1 {
		maps.Copy(schema, all[0].(map[string]any))
	} else {
		schema["anyOf"] = all
	}
	if len(m.defs) > 0 {
		schema["$defs"] = m.defs
	}
	return schema, m.bad, nil
}

// special has the schemas of types that write themselves.
func (m *schemaMaker) special(t reflect.Type) (schema map[string]any, ok bool) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}, true
	case reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}, true
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[jsontext.Value]():
		return map[string]any{"type": "object"}, true
	case reflect.TypeFor[compare.Number]():
		return map[string]any{"type": []any{"number", "null"}}, true
	case reflect.TypeFor[manifest.Manifest]():
		return map[string]any{"$ref": "../manifest.schema.json"}, true
	}
	if t.PkgPath() == reflect.TypeFor[health.Report]().PkgPath() && strings.HasPrefix(t.Name(), "Part[") {
		value := t.Field(0).Type.Elem()
		problem := m.object([]property{{name: "problem", schema: m.of(reflect.TypeFor[health.Problem]()), needed: true, text: "why the part could not be read"}})
		return map[string]any{"anyOf": []any{m.of(value), problem, map[string]any{"type": "null"}}}, true
	}
	if t == reflect.TypeFor[limiter.Level]() {
		return map[string]any{"type": "string", "enum": levels()}, true
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return map[string]any{"type": "string"}, true
	}
	return nil, false
}

// of is the schema of a type.
func (m *schemaMaker) of(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		return m.of(t.Elem())
	}
	if schema, ok := m.special(t); ok {
		return schema
	}
	switch t.Kind() {
	case reflect.String:
		schema := map[string]any{"type": "string"}
		if words := m.docs(t).words[t.Name()]; len(words) > 0 && !m.docs(t).open[t.Name()] {
			schema["enum"] = words
		}
		return schema
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": m.of(t.Elem())}
	case reflect.Array:
		return map[string]any{"type": "array", "items": m.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": m.of(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Struct:
		return m.structure(t)
	default:
	}
	m.bad = append(m.bad, t.String()+" has no schema")
	return map[string]any{}
}

// structure is a reference to the definition of a struct.
func (m *schemaMaker) structure(t reflect.Type) map[string]any {
	name := typeName(t)
	ref := map[string]any{"$ref": "#/$defs/" + name}
	if _, ok := m.defs[name]; ok {
		return ref
	}
	m.defs[name] = nil // for types that contain themselves
	schema := m.object(m.properties(t))
	if text := m.docs(t).types[t.Name()]; text != "" {
		schema["description"] = text
	} else {
		m.bad = append(m.bad, t.String()+" has no comment")
	}
	m.defs[name] = schema
	return ref
}

// typeName is the name of a type in its package.
func typeName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// A property is a field of an object.
type property struct {
	name, text string
	schema     map[string]any
	needed     bool
}

func (*schemaMaker) object(all []property) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, p := range all {
		schema := maps.Clone(p.schema)
		schema["description"] = p.text
		properties[p.name] = schema
		if p.needed {
			required = append(required, p.name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// properties are the fields of a struct and of those it embeds, as encoding/json sees them: a
// field hides those of the same name that are embedded more deeply.
func (m *schemaMaker) properties(t reflect.Type) []property {
	var own, embedded []property
	hidden := map[string]bool{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || name == "" && !f.Anonymous && !f.IsExported():
			continue
		case name == "" && (f.Anonymous || options == "embed"):
			of := f.Type
			mayLack := of.Kind() == reflect.Pointer
			if mayLack {
				of = of.Elem()
			}
			for _, p := range m.properties(of) {
				p.needed = p.needed && !mayLack
				embedded = append(embedded, p)
			}
			continue
		case name == "":
			name = f.Name
		}
		p := property{name: name, schema: m.of(f.Type), needed: !strings.Contains(options, "omit")}
		if f.Type.Kind() == reflect.Pointer && p.needed {
			p.schema = map[string]any{"anyOf": []any{p.schema, map[string]any{"type": "null"}}}
		}
		m.withWords(t, &p)
		if p.text = m.docs(t).fields[t.Name()+"."+f.Name]; p.text == "" {
			p.text = m.names[name].text
		}
		if p.text == "" {
			m.bad = append(m.bad, t.String()+"."+f.Name+" ("+name+") has no comment, and "+namesFile+" has no such name")
		}
		m.check(t, &p)
		own, hidden[name] = append(own, p), true
	}
	for _, p := range embedded {
		if !hidden[p.name] {
			own = append(own, p)
		}
	}
	return own
}

// foreign are types whose names are those of others: of CloudFormation, the environment, and problems
// of RFC 9457.
func foreign(t reflect.Type) bool {
	return t == reflect.TypeFor[deploy.Parameter]() || t == reflect.TypeFor[deploy.Tag]() || t == reflect.TypeFor[httpapi.Problem]() ||
		t.PkgPath() == reflect.TypeFor[customresource.Template]().PkgPath() || t.Name() == "environment"
}

var (
	snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// otherNames are names that docs/json.md replaces.
	otherNames = regexp.MustCompile(`^(entity|parent_entity|limiter|id|next|cursor_next|what|do|arn_of|balances?|from|to|at|since|seconds|created|updated|expires|deleted_items)$|_(s|sec|secs|millis|minutes|hours|time)$`)
)

// check holds the rules of docs/json.md.
func (m *schemaMaker) check(t reflect.Type, p *property) {
	if foreign(t) {
		return
	}
	wrong := func(text string) { m.bad = append(m.bad, t.String()+": "+p.name+" "+text) }
	if !snakeCase.MatchString(p.name) || otherNames.MatchString(p.name) {
		wrong("is not a name of " + namesFile)
	}
	kinds := kindsOf(p.schema)
	if isInstant := p.schema["format"] == "date-time" || hasInstant(p.schema); isInstant != (strings.HasSuffix(p.name, "_at") || p.name == "timestamp" || p.name == "time") && p.name != "committed_at" {
		wrong("must end in _at if it is an instant, and only then")
	}
	if shared, ok := m.names[p.name]; ok && !isKind(kinds, shared.kind) {
		wrong("is " + strings.Join(kinds, " or ") + ", but " + namesFile + " says " + shared.kind)
	}
}

func hasInstant(schema map[string]any) bool {
	choices, _ := schema["anyOf"].([]any)
	return slices.ContainsFunc(choices, func(s any) bool { return s.(map[string]any)["format"] == "date-time" })
}

// isKind reports whether a name of a kind may have these types; a number may be an integer.
func isKind(kinds []string, kind string) bool {
	return slices.Contains(kinds, kind) || kind == "number" && slices.Contains(kinds, "integer")
}

// kindsOf are the types that a schema allows, without null.
func kindsOf(schema map[string]any) []string {
	var kinds []string
	switch of := schema["type"].(type) {
	case string:
		kinds = append(kinds, of)
	case []any:
		kinds = append(kinds, of[0].(string))
	}
	if _, ok := schema["$ref"]; ok {
		kinds = append(kinds, "object")
	}
	choices, _ := schema["anyOf"].([]any)
	for _, s := range choices {
		kinds = append(kinds, kindsOf(s.(map[string]any))...)
	}
	return slices.DeleteFunc(kinds, func(k string) bool { return k == "null" })
}

// folderDocs are the comments of a package.
type folderDocs struct {
	types  map[string]string
	fields map[string]string // by Type.Field
	words  map[string][]any  // constants of a type of strings
	open   map[string]bool   // types that have further constants
}

// docs reads the comments of the package of a type; there are none of other modules.
func (m *schemaMaker) docs(t reflect.Type) *folderDocs {
	inside, ok := strings.CutPrefix(t.PkgPath(), modulePath)
	if !ok {
		return &folderDocs{}
	}
	if d, ok := m.files[inside]; ok {
		return d
	}
	d := &folderDocs{map[string]string{}, map[string]string{}, map[string][]any{}, map[string]bool{}}
	m.files[inside] = d
	folder := filepath.Join(repository, inside)
	if inside == "/cmd/zae-limiter/internal/cli_test" {
		folder = "."
	}
	set := token.NewFileSet()
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != folder {
			return filepath.SkipDir
		}
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") != (folder == ".") {
			return nil
		}
		tree, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err == nil {
			d.add(tree)
		}
		return err
	})
	if err != nil {
		m.bad = append(m.bad, err.Error())
	}
	return d
}

func (d *folderDocs) add(tree *ast.File) {
	for _, decl := range tree.Decls {
		of, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range of.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				d.types[s.Name.Name] = commentOf(s.Doc, of.Doc, s.Comment)
				if body, ok := s.Type.(*ast.StructType); ok {
					d.addFields(s.Name.Name, body)
				}
			case *ast.ValueSpec:
				d.addWords(s)
			}
		}
	}
}

func (d *folderDocs) addFields(name string, body *ast.StructType) {
	for _, f := range body.Fields.List {
		for _, id := range f.Names {
			d.fields[name+"."+id.Name] = commentOf(f.Doc, f.Comment)
		}
	}
}

// addWords notes the constants of a type. A constant that is not spelled out leaves the words
// of its type open.
func (d *folderDocs) addWords(s *ast.ValueSpec) {
	of, typed := s.Type.(*ast.Ident)
	for _, v := range s.Values {
		literal, spelled := v.(*ast.BasicLit)
		conversion, _ := v.(*ast.CallExpr)
		switch {
		case typed && spelled && literal.Kind == token.STRING:
			word, _ := strconv.Unquote(literal.Value) // the parser has checked it
			d.words[of.Name] = append(d.words[of.Name], word)
		case typed:
			d.open[of.Name] = true
		case conversion != nil:
			if of, ok := conversion.Fun.(*ast.Ident); ok {
				d.open[of.Name] = true
			}
		}
	}
}

// commentOf is the first comment that there is, in one line.
func commentOf(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := strings.TrimSpace(g.Text()); text != "" {
			p := comment.Parser{}
			printer := comment.Printer{TextWidth: -1}
			return strings.Join(strings.Fields(string(printer.Text(p.Parse(text)))), " ")
		}
	}
	return ""
}

// schemaFile is the file of a command's schema.
func schemaFile(command string) string {
	return filepath.Join(schemas, strings.ReplaceAll(command, " ", "-")+".json")
}

// schemaTypes are the types of all schemas: of the commands, of errors and of the log.
func schemaTypes() map[string][]reflect.Type {
	types := cli.Results()
	types["error"] = []reflect.Type{reflect.TypeFor[app.ErrorView]()}
	types["log"] = []reflect.Type{reflect.TypeFor[logLine]()}
	return types
}

// Each command that prints a result has a schema in docs/schemas that is made of the types
// which it prints. The names keep the rules of docs/json.md, and each is documented.
func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	stale := map[string]bool{}
	found, err := filepath.Glob(filepath.Join(schemas, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		stale[file] = true
	}
	for command, types := range schemaTypes() {
		if len(types) == 0 {
			if !slices.Contains(withoutResult, command) {
				t.Errorf("%s does not declare what it prints: call App.Prints, or say in withoutResult why not", command)
			}
			continue
		}
		schema, problems, err := documentOf("zae-limiter "+command, types...)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", command, p)
		}
		want, err := encode(schema)
		if err != nil {
			t.Fatal(err)
		}
		file := schemaFile(command)
		delete(stale, file)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil { //nolint:gosec // a document of the repository
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		} else if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s is stale: run go test ./cmd/zae-limiter/internal/cli -run TestSchemas -update\n%s", file, d)
		}
	}
	for file := range stale {
		t.Errorf("%s is the schema of nothing", file)
	}
}

func encode(schema map[string]any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(schema)
	return b.Bytes(), err
}

// docs/json.md lists every schema.
func TestEverySchemaIsListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(namesFile)
	if err != nil {
		t.Fatal(err)
	}
	for command, types := range schemaTypes() {
		if link := "schemas/" + filepath.Base(schemaFile(command)); len(types) > 0 && !strings.Contains(string(text), "("+link+")") {
			t.Errorf("%s has no link to %s", namesFile, link)
		}
	}
}

// A strictSchema validates an output, and refuses fields that the schema does not have. The
// schemas in docs allow more fields, since later versions may add some.
type strictSchema struct {
	once   sync.Once
	schema *jsonschema.Schema
	err    error
}

var strictSchemas sync.Map // by command, of *strictSchema

// validate checks an output of a command, "error" or "log".
func validate(command string, output []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(output))
	if err != nil {
		return err
	}
	v, _ := strictSchemas.LoadOrStore(command, &strictSchema{})
	s := v.(*strictSchema)
	s.once.Do(func() { s.schema, s.err = compile(command) })
	if s.err != nil {
		return s.err
	}
	return s.schema.Validate(value)
}

func compile(command string) (*jsonschema.Schema, error) {
	file, err := filepath.Abs(schemaFile(command))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if command != "log" {
		closeObjects(document)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(file, document); err != nil {
		return nil, err
	}
	return c.Compile(file)
}

// closeObjects forbids further fields in the objects of a schema.
func closeObjects(schema any) {
	switch s := schema.(type) {
	case []any:
		for _, v := range s {
			closeObjects(v)
		}
	case map[string]any:
		if _, ok := s["properties"].(map[string]any); ok && s["type"] == "object" {
			s["additionalProperties"] = false
		}
		for _, v := range s {
			closeObjects(v)
		}
	}
}
