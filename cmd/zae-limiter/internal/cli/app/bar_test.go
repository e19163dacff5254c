package app_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// A bar is drawn when it changes, and goes at the end.
func TestABarGrowsAndGoes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	bar := app.BarOn(app.LiveOn(&b, func() (int, int) { return 80, 24 }), "reading")
	for _, done := range []int64{0, 500, 501, 1000} {
		bar.Show(done, 1000)
	}
	half := "\x1b[1A\r\x1b[Jreading  50% [" + strings.Repeat("#", 20) + strings.Repeat(".", 20) + "]\n"
	if shown := b.String(); strings.Count(shown, half) != 1 || strings.Count(shown, "reading") != 3 {
		t.Errorf("shown: %q", shown)
	}
	b.Reset()
	bar.Show(5<<20, -1)
	bar.Clear()
	if last := b.String(); last != "\x1b[1A\r\x1b[Jreading: 5 MB\n\x1b[1A\r\x1b[J" {
		t.Errorf("at last: %q", last)
	}
}

func TestABarIsForTerminals(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	bar := app.BarOn(app.LiveOn(&b, nil), "reading")
	bar.Show(1, 2)
	if bar.Clear(); b.Len() > 0 {
		t.Errorf("shown elsewhere: %q", b.String())
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
