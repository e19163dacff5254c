package documents_test

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

// packages are the packages that fragments use without an import, by name.
var packages = map[string]string{
	"aws": "github.com/aws/aws-sdk-go-v2/aws", "credentials": "github.com/aws/aws-sdk-go-v2/credentials", "config": "github.com/aws/aws-sdk-go-v2/config",
	"dynamodb": "github.com/aws/aws-sdk-go-v2/service/dynamodb",
	"limiter":  module, "dynamo": module + "/dynamo", "fastclient": module + "/dynamo/fastclient",
	"dynamolite": module + "/dynamolite", "grpclimit": module + "/middleware/grpclimit", "httplimit": module + "/middleware/httplimit",
	"limitertest": module + "/limitertest", "otellimit": module + "/metrics/otellimit", "promlimit": module + "/metrics/promlimit",
	"grpc": "google.golang.org/grpc", "prometheus": "github.com/prometheus/client_golang/prometheus",
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "httptest": "net/http/httptest",
	"log": "log", "netip": "net/netip", "os": "os", "signal": "os/signal", "slog": "log/slog", "strconv": "strconv",
	"strings": "strings", "sync": "sync", "synctest": "testing/synctest", "testing": "testing", "time": "time",
}

const module = "github.com/zeroae/zae-limiter-go"

// common declares the names that fragments use as a matter of course. A fragment that uses others
// has a mark: <!-- given: used int64, key string -->.
const common = `package fragments

import (
	"context"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

var (
	ctx      context.Context
	cfg      aws.Config
	client   *dynamodb.Client
	store    *dynamo.Store
	limits   *limiter.Limiter
	request  limiter.Request
	lease    *limiter.Lease
	err      error
	mux      *http.ServeMux
	handler  http.Handler
	r        *http.Request
	w        http.ResponseWriter
	t        *testing.T
	askModel func(context.Context) (tokens int64, err error)
)
`

// extractFragments writes a file for each fragment: a block of Go that is no program. Statements
// become functions of one package; declarations a package each.
func extractFragments(t *testing.T, dir string, blocks []doctest.Block) {
	t.Helper()
	write(t, filepath.Join(dir, "common.go"), common)
	fragments := 0
	for _, b := range blocks {
		if b.Check != doctest.Fragment {
			continue
		}
		fragments++
		if formatted, err := format.Source([]byte(b.Text)); err != nil {
			t.Errorf("%s:%d: %v", b.Document, b.Line, err)
			continue
		} else if string(formatted) != b.Text {
			t.Errorf("%s:%d: the block is not as gofmt writes it; that is\n%s", b.Document, b.Line, formatted)
		}
		name := fmt.Sprintf("block%d", fragments)
		if source, ok := declarations(b); ok {
			write(t, filepath.Join(dir, name, name+".go"), source)
		} else {
			write(t, filepath.Join(dir, name+".go"), statements(t, b))
		}
	}
}

// place makes the compiler report errors where the document has the block.
func place(b doctest.Block) string {
	return fmt.Sprintf("//line %s:%d\n", filepath.Base(b.Document), b.Line)
}

// declarations is the file of a block of declarations.
func declarations(b doctest.Block) (source string, ok bool) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package block\n"+b.Text, 0)
	if err != nil {
		return "", false
	}
	if len(file.Imports) == 0 {
		return "package block\n" + imports(file) + place(b) + b.Text, true
	}
	if len(file.Decls) > 1 {
		return "package block\n" + place(b) + b.Text, true
	}
	var s strings.Builder // imports alone: whether they exist
	s.WriteString("package block\n")
	for _, i := range file.Imports {
		s.WriteString("import _ " + i.Path.Value + "\n")
	}
	return s.String(), true
}

// statements is the file of a block of statements: the body of a function, in which no variable
// counts as unused.
func statements(t *testing.T, b doctest.Block) string {
	t.Helper()
	given := ""
	if b.Mark == "given" {
		given = b.Argument
	}
	function := "func _(" + given + ") error {\n{\n" + place(b) + b.Text
	file, err := parser.ParseFile(token.NewFileSet(), "", "package fragments\n"+function+"}\nreturn nil\n}\n", 0)
	if err != nil {
		t.Errorf("%s:%d: %v", b.Document, b.Line, err)
		return "package fragments\n"
	}
	var uses strings.Builder
	for _, name := range variables(file) {
		uses.WriteString("_ = " + name + "\n")
	}
	return "package fragments\n" + imports(file) + function + uses.String() + "}\nreturn nil\n}\n"
}

// variables are the names that the outermost statements of the block in a file declare.
func variables(file *ast.File) (names []string) {
	function, _ := file.Decls[0].(*ast.FuncDecl)
	block, _ := function.Body.List[0].(*ast.BlockStmt)
	for _, statement := range block.List {
		var declared []ast.Expr
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				declared = s.Lhs
			}
		case *ast.DeclStmt:
			ast.Inspect(s, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						declared = append(declared, name)
					}
				}
				return true
			})
		}
		for _, d := range declared {
			if name, ok := d.(*ast.Ident); ok && name.Name != "_" && !slices.Contains(names, name.Name) {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// imports declares the packages whose names a file uses without declaring them.
func imports(file *ast.File) string {
	var s strings.Builder
	seen := map[string]bool{}
	for _, name := range file.Unresolved {
		if path, ok := packages[name.Name]; ok && !seen[name.Name] {
			seen[name.Name] = true
			s.WriteString("import " + name.Name + " " + strconv.Quote(path) + "\n")
		}
	}
	return s.String()
}
