package dynamolite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A directory has a database once one was opened in it, and looking leaves nothing behind.
func TestExistsTellsDatabasesFromOtherDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := func(path string, want bool) {
		t.Helper()
		if got, err := dynamolite.Exists(path); got != want || err != nil {
			t.Errorf("Exists(%q) = %v, %v, want %v", filepath.Base(path), got, err, want)
		}
	}
	want(filepath.Join(dir, "missing"), false)
	if err := os.WriteFile(filepath.Join(dir, "notes.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(dir, false)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v", files, err)
	}
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want(dir, true) // also while it is open
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want(dir, true)
	if _, err := dynamolite.Exists(filepath.Join(dir, "notes.log")); err == nil {
		t.Error("a file is a directory without a database")
	}
}
