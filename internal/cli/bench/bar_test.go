package bench_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/bench"
)

func TestABarGrowsAndGoes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	bench.ShowBar(&b, 0, 500*time.Millisecond, time.Second)
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
	if bench.HasBar(file) || bench.HasBar(&bytes.Buffer{}) {
		t.Error("a bar would be written to a file")
	}
}
