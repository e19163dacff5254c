package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/cli/app"
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
