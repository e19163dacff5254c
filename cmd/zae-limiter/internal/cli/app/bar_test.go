package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

func TestABarGrowsAndGoes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	app.ShowBar(&b, 0, 500, 1000)
	shown := b.String()
	if !strings.Contains(shown, "50%") || strings.Contains(shown, "\n") {
		t.Errorf("shown: %q", shown)
	}
	if last := shown[strings.LastIndex(strings.TrimRight(shown, "\r"), "\r")+1:]; strings.Trim(last, " \r") != "" {
		t.Errorf("at last: %q", last)
	}
}

func TestABarIsForTerminals(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if app.NewBar(file, "") != nil || app.NewBar(&bytes.Buffer{}, "") != nil {
		t.Error("a bar would be written to a file")
	}
}

// The null device is a character device like a terminal, but nobody answers there.
func TestTerminals(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{os.DevNull: false, "bar_test.go": false, "/dev/ptmx": true} {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := app.IsTerminal(f); got != want {
			t.Errorf("%s: got %t, want %t", file, got, want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
