package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAFileIsReplacedOnlyWithForce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, step := range []struct {
		text  string
		force bool
		want  string // of the error
		left  string
	}{
		{"one", false, "", "one"},
		{"two", false, "write " + path + ": the file exists already: give --force to replace it", "one"},
		{"three", true, "", "three"},
	} {
		err := app.WriteFile(path, []byte(step.text), step.force)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != step.want || content(t, path) != step.left {
			t.Errorf("%s: %q, and the file has %q", step.text, got, content(t, path))
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Who may read a file stays as it is, and a link to the file stays a link.
func TestAReplacedFileKeepsItsPermissionsAndLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := app.WriteFile(link, []byte("new"), true); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err = os.Stat(file); err != nil || info.Mode() != 0o600 || content(t, file) != "new" {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

// A program of the superuser would otherwise put a file where the system has a device.
func TestADeviceIsWrittenToAndNotReplaced(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "device") // what is replaced by mistake is this
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if err := app.WriteFile(link, []byte("text"), true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(link); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("the device became %v, %v", info, err)
	}
}

func TestADirectoryIsNoFile(t *testing.T) {
	t.Parallel()
	err := app.WriteFile(t.TempDir(), nil, true)
	if err == nil || !strings.HasSuffix(err.Error(), ": it is a directory: name a file") {
		t.Errorf("got error %v", err)
	}
}
