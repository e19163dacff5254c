package app

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// Print writes a result in the form that the output flag names: v as JSON, or text for
// people.
func (a *App) Print(v any, text func(*strings.Builder)) error {
	var b strings.Builder
	if a.Flags.JSON() {
		if err := manage.Encode(&b, v); err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		b.WriteByte('\n')
	} else {
		text(&b)
	}
	if _, err := io.WriteString(a.Stdout, Shown(b.String())); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// Shown is a result as it is written: each character that a terminal would obey instead of
// showing becomes an escape sequence of JSON, which is plain text in a table. Newlines stay.
// Text comes from tables that other programs write, too.
func Shown(s string) string { return escaped(s, '\n') }

// escaped writes each rune that does not print as \uXXXX, in UTF-16 as JSON does. The runes
// to keep are left alone.
func escaped(s string, keep ...rune) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	obeyed := func(r rune) bool { return !unicode.IsPrint(r) && !slices.Contains(keep, r) }
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !obeyed(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// PrintNames writes a result whose text is names, one a line, which may have any bytes. v is
// the result as JSON. A pipe or a file gets each name as it is, for other programs. A terminal
// would obey some characters, and a line feed would look like the next name: there, such a
// name is quoted as Go does.
func (a *App) PrintNames(v any, names []string) error {
	if a.Flags.JSON() {
		return a.Print(v, nil)
	}
	var b strings.Builder
	for _, name := range names {
		if a.onTerminal() {
			name = printable(name)
		}
		b.WriteString(name + "\n")
	}
	if _, err := io.WriteString(a.Stdout, b.String()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// onTerminal reports whether results go to a terminal.
func (a *App) onTerminal() bool {
	f, ok := a.Stdout.(*os.File)
	return ok && IsTerminal(f)
}

// printable is a name that a terminal shows in one line: quoted if it has other characters, or
// looks quoted.
func printable(name string) string {
	obeyed := func(r rune) bool { return !unicode.IsPrint(r) }
	if strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, obeyed) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

// Notef writes a line about what the command does to standard error. With JSON output it
// writes nothing: there, only errors are on standard error, each as an object.
func (a *App) Notef(format string, args ...any) {
	if !a.Flags.JSON() {
		_, _ = fmt.Fprintf(a.Stderr, format+"\n", args...) // a lost line ends nothing
	}
}

// Remark tells a person the note of a result, unless it is "".
func (a *App) Remark(note string) {
	if note != "" {
		a.Notef("%s", note)
	}
}

// Table writes rows in columns under a header. An empty cell becomes "-".
func Table(w *strings.Builder, header []string, rows [][]string) {
	columns(w, append([][]string{header}, rows...))
}

// Fields writes names and values, one pair a line. An empty value becomes "-".
func Fields(w *strings.Builder, pairs ...string) {
	rows := make([][]string, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		rows = append(rows, []string{pair[0] + ":", pair[1]})
	}
	columns(w, rows)
}

// columns writes rows of cells in columns, each as wide on a terminal as its widest cell. A
// character may take two columns of a terminal, or none.
func columns(w *strings.Builder, rows [][]string) {
	const gap = 2
	var widths []int
	cells := make([][]string, len(rows))
	for i, row := range rows {
		cells[i] = make([]string, len(row))
		for j, cell := range row {
			cells[i][j] = escaped(cmp.Or(cell, "-"))
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], uniseg.StringWidth(cells[i][j]))
		}
	}
	for _, row := range cells {
		for j, cell := range row {
			w.WriteString(cell)
			if j < len(row)-1 {
				w.WriteString(strings.Repeat(" ", widths[j]-uniseg.StringWidth(cell)+gap))
			}
		}
		w.WriteByte('\n')
	}
}
