// Package release tests that a release of the modules can be installed.
package release_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root    = "../../../../.."
	library = "github.com/zeroae/zae-limiter-go"
	version = "v0.9.9"
)

// A release publishes the library. Then the other modules require it and are published, the program last.
// From a proxy that has them, go install builds the program, and another program finds the
// packages of the library and of its two other modules.
func TestLongAReleaseCanBeInstalled(t *testing.T) {
	t.Parallel()
	tree, proxy := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	clone(t, tree)
	e := newEnvironment(t, proxy)
	e.refuses(t, tree)
	publish(t, proxy, tree, ".")
	for _, folders := range [][]string{{"metrics/otellimit", "middleware/grpclimit"}, {"cmd/zae-limiter"}} {
		e.run(t, tree, filepath.Join(tree, "tools", "release"), version)
		for _, folder := range folders {
			publish(t, proxy, tree, folder)
		}
	}
	e.run(t, tree, "go", "list", "-deps", "./cmd/zae-limiter") // in the workspace, too

	elsewhere := t.TempDir()
	e.run(t, elsewhere, "go", "install", library+"/cmd/zae-limiter@latest")
	if out := e.run(t, elsewhere, filepath.Join(e.bin, "zae-limiter"), "version"); !strings.Contains(out, version) {
		t.Errorf("the installed program is of another version:\n%s", out)
	}

	e.run(t, elsewhere, "go", "mod", "init", "example.com/user")
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	for _, pkg := range []string{"", "/dynamo", "/middleware/httplimit", "/middleware/grpclimit", "/metrics/promlimit", "/metrics/otellimit"} {
		fmt.Fprintf(&program, "\t_ %q\n", library+pkg)
	}
	program.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(elsewhere, "main.go"), []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	e.run(t, elsewhere, "go", "get", library+"@latest", library+"/middleware/grpclimit@latest", library+"/metrics/otellimit@latest")
	e.run(t, elsewhere, "go", "list", "-mod=mod", "-deps", ".")
}

// A wrong version changes nothing.
func TestAReleaseNeedsAVersion(t *testing.T) {
	t.Parallel()
	for _, given := range []string{"", "1.2.3", "v1", "latest"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "release"), given)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "give a version") {
			t.Errorf("release %q: %v\n%s", given, err, out)
		}
	}
}

// An environment is a machine that has nothing of this project, and gets modules from a
// proxy. Other modules come from the module cache of the machine, or from where that has
// them.
type environment struct {
	bin string
	env []string
}

func newEnvironment(t *testing.T, proxy string) *environment {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	e := &environment{bin: t.TempDir()}
	e.env = append(os.Environ(), "GOBIN="+e.bin, "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off", "GOWORK=",
		"GOPROXY="+strings.Join([]string{"file://" + filepath.ToSlash(proxy), "file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")), others}, ","))
	return e
}

// refuses tries to release a version that is not published, which must change nothing.
func (e *environment) refuses(t *testing.T, tree string) {
	t.Helper()
	files := []string{"go.work", "cmd/zae-limiter/go.mod", "cmd/zae-limiter/go.sum"}
	text := func() (all []string) {
		for _, name := range files {
			b, err := os.ReadFile(filepath.Join(tree, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(b))
		}
		return all
	}
	before := text()
	cmd := exec.CommandContext(t.Context(), filepath.Join(tree, "tools", "release"), version)
	cmd.Env = e.env
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "tag it") {
		t.Errorf("an unpublished version: %v\n%s", err, out)
	}
	if !slices.Equal(text(), before) {
		t.Error("an unpublished version changes modules")
	}
}

func (e *environment) run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, e.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// clone copies the repository, without what git ignores.
func clone(t *testing.T, tree string) {
	t.Helper()
	for _, file := range filesOf(t, root, func(string) bool { return true }) {
		in, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		info, err := file.Lstat()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(tree, filepath.FromSlash(file.Path()))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

// publish puts the module in a folder into a proxy, in a file system.
func publish(t *testing.T, proxy, tree, folder string) {
	t.Helper()
	dir := filepath.Join(tree, folder)
	m := module.Version{Path: library, Version: version}
	if folder != "." {
		m.Path += "/" + folder
	}
	at := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(mod), version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	inside := func(path string) bool { // other modules are not part of this one
		_, err := os.Stat(filepath.Join(dir, path, "go.mod"))
		return err != nil
	}
	if err := zip.Create(archive, m, filesOf(t, dir, inside)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// filesOf lists the files below a folder, in the folders that belong to them: not in hidden
// ones, and not in those that git ignores.
func filesOf(t *testing.T, dir string, belongs func(path string) bool) (files []zip.File) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") || name == "bin" || !belongs(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() {
			files = append(files, file{path, filepath.ToSlash(name)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// file is a [zip.File] on disk.
type file struct{ disk, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.disk) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.disk) }
