package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// Columns are those of a terminal: a character may take two of them, or none. Characters that
// a terminal would obey are escaped, and count as they are shown.
func TestTablesAlignOnATerminal(t *testing.T) {
	t.Parallel()
	var w strings.Builder
	app.Table(&w, []string{"NAME", "X"}, [][]string{
		{"abcdefghij", "1"},
		{"東京支社", "2"},            // two columns each
		{"e\u0301te\u0301", "3"}, // combining marks
		{"👍🏽 👩", "4"},            // one emoji of two runes, and another
		{"שלום", "5"},            // a script from right to left
		{"", "6"},
		{"a\tb", ""},
	})
	want := `NAME        X
abcdefghij  1
東京支社    2
été         3
👍🏽 👩       4
שלום        5
-           6
a\u0009b    -
`
	if d := cmp.Diff(strings.ReplaceAll(want, "é", "e\u0301"), w.String()); d != "" {
		t.Errorf("(-want +got): %s", d)
	}
	w.Reset()
	app.Fields(&w, "名前", "v", "Window", "hourly")
	if d := cmp.Diff("名前:    v\nWindow:  hourly\n", w.String()); d != "" {
		t.Errorf("fields (-want +got): %s", d)
	}
	w.Reset()
	app.Table(&w, []string{"LIMIT"}, nil)
	if w.String() != "LIMIT\n" {
		t.Errorf("an empty table: %q", w.String())
	}
}

// The bars of a table get what the widest line leaves, in columns of a terminal.
func TestBarsLeaveRoomForWideCharacters(t *testing.T) {
	t.Parallel()
	lines := app.BarTable(30, func(bar int) ([]string, [][]string) {
		if bar == 0 {
			return []string{"NAME"}, [][]string{{"東京支社東京支社"}}
		}
		return []string{"NAME", "BAR"}, [][]string{{"東京支社東京支社", app.Gauge(1, bar)}}
	})
	want := []string{"NAME              BAR", "東京支社東京支社  ############"}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("(-want +got): %s", d)
	}
}
