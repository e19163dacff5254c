package permissions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// exempt lists packages whose calls are not recorded, and why.
var exempt = map[string]string{
	"dynamo/admin":         "is what the commands check, table and backup do, whose requests are recorded",
	"dynamo/fastclient":    "passes on the requests of others",
	"dynamolite":           "is the engine, which answers requests",
	"middleware/grpclimit": "makes requests with a limiter",
	"middleware/httplimit": "makes requests with a limiter",
	"limitertest":          "is for tests",
	"metrics/otellimit":    "is told what a limiter does, and asks the table for nothing",
	"metrics/promlimit":    "is told what a limiter does, and asks the table for nothing",
	"store":                "declares what stores do",
}

// exportedCalls returns the exported functions and methods of the module that take a
// context: only these wait, so only these send requests. A call is named as its users
// write it, such as "Limiter.Acquire" or "dynamo.Open".
func exportedCalls(t *testing.T) (calls []string) {
	t.Helper()
	for _, folder := range publicFolders(t) {
		for _, file := range parsed(t, folder) {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && waits(f) {
					calls = append(calls, nameOf(file.Name.Name, f))
				}
			}
		}
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

// parsed returns the files of a folder, without its tests.
func parsed(t *testing.T, folder string) (all []*ast.File) {
	t.Helper()
	names, err := fs.Glob(files, path.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file)
	}
	return all
}

// publicFolders returns the folders of packages that users may import.
func publicFolders(t *testing.T) (folders []string) {
	t.Helper()
	hidden := []string{"internal", "cmd", "examples", "testdata", "tools", "docs", "bin"}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		base := path.Base(name)
		if name != "." && (strings.HasPrefix(base, ".") || slices.Contains(hidden, base)) {
			return fs.SkipDir
		}
		if exempt[name] == "" {
			folders = append(folders, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// waits reports whether an exported function, or method of an exported type, takes a context.
func waits(f *ast.FuncDecl) bool {
	if !f.Name.IsExported() || f.Recv != nil && !ast.IsExported(receiver(f)) || len(f.Type.Params.List) == 0 {
		return false
	}
	selector, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Context"
}

func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// nameOf names a call with its package, except in the root package.
func nameOf(pkg string, f *ast.FuncDecl) string {
	name := f.Name.Name
	if f.Recv != nil {
		name = receiver(f) + "." + name
	}
	if pkg == "limiter" {
		return name
	}
	return pkg + "." + name
}
