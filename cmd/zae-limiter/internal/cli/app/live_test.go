package app_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// Lines fit the terminal in columns, not in bytes or runes, and a character is whole.
func TestALineIsCutAtColumns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line    string
		columns int
		want    string
	}{
		{"rpm", 3, "rpm"},
		{"rpm 60", 5, "rpm…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"👩‍👩‍👧 family", 3, "👩‍👩‍👧…"},
		{"rpm", 1, "…"},
	} {
		if got := app.Cut(tt.line, tt.columns); got != tt.want {
			t.Errorf("%q in %d columns is %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}

// A drawing replaces the one before, also on a terminal that became narrower and wrapped it;
// it never has more lines than the terminal has rows, and no text steers the terminal.
func TestALiveBlockStaysInItsPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	columns, rows := 10, 4
	live := app.LiveOn(&out, func() (int, int) { return columns, rows })
	draw := func(lines []string, want string) {
		t.Helper()
		out.Reset()
		if err := live.Draw(lines); err != nil || out.String() != want {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
	draw([]string{"1234567890", "b"}, "\r\x1b[J1234567890\nb\n")
	draw([]string{"a", "b", "c"}, "\x1b[2A\r\x1b[Ja\nb\nc\n")
	draw([]string{"a", "b", "c", "d"}, "\x1b[3A\r\x1b[Ja\nb\n… and 2 l…\n")
	draw([]string{"1234567890", ""}, "\x1b[3A\r\x1b[J1234567890\n\n")
	columns = 4 // the first line takes three rows now
	draw([]string{"\x1b[2J"}, "\x1b[4A\r\x1b[J\\u0…\n")
	draw(nil, "\x1b[1A\r\x1b[J")
	if app.LiveOn(&out, nil).Redraws() {
		t.Error("what is no terminal is redrawn")
	}
}

// A gauge has its length whatever the part is.
func TestGauge(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{-1: "....", 0: "....", 0.49: "#...", 0.5: "##..", 1: "####", 7: "####"} {
		if got := app.Gauge(part, len(want)); got != want || strings.Trim(got, "#.") != "" {
			t.Errorf("%v is %q, want %q", part, got, want)
		}
	}
}
