package app

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// The usual size of a terminal.
const (
	usualColumns = 80
	usualRows    = 24
)

// A Live is a block of lines on a terminal. Each drawing replaces the one before, in place.
// It uses no colors. It belongs to one goroutine.
type Live struct {
	w    io.Writer
	size func() (columns, rows int) // of the terminal; nil if w is none

	drawn []int // columns of the lines on the terminal
}

// Live returns a block on w. It can be drawn only if w is a terminal that moves its cursor.
func (a *App) Live(w io.Writer) *Live {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) || a.Getenv("TERM") == "dumb" {
		return &Live{w: w}
	}
	return LiveOn(w, func() (columns, rows int) { return sizeOf(f) })
}

// sizeOf is the size of a terminal, or the usual one if it does not tell.
func sizeOf(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd())) //nolint:gosec // a terminal's number is small
	if err != nil || columns < 1 || rows < 1 {
		return usualColumns, usualRows
	}
	return columns, rows
}

// Columns is the width of the terminal that results go to, or 80 if it is none.
func (a *App) Columns() int {
	file, ok := a.Stdout.(*os.File)
	if !ok || !a.onTerminal() {
		return usualColumns
	}
	columns, _ := sizeOf(file)
	return columns
}

// LiveOn is a block on a terminal of a size, which may change.
func LiveOn(w io.Writer, size func() (columns, rows int)) *Live { return &Live{w: w, size: size} }

// Redraws reports whether the block can be drawn. If not, the caller writes plain lines.
func (l *Live) Redraws() bool { return l.size != nil }

// Columns is the width of the terminal in columns.
func (l *Live) Columns() int {
	columns, _ := l.size()
	return columns
}

// Draw replaces the block by lines; none remove it. It cuts lines at the terminal's width
// and leaves out those that it has no row for: the cursor cannot return to a line that has
// left the terminal. Each character that a terminal would obey is escaped as in [Shown].
func (l *Live) Draw(lines []string) error {
	columns, rows := l.size()
	var b strings.Builder
	up := 0
	for _, width := range l.drawn { // a terminal that became narrower has wrapped them
		up += max(1, (width+columns-1)/columns)
	}
	if up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r\x1b[J")
	if most := max(1, rows-1); len(lines) > most { // the cursor stands below the last line
		left := len(lines) - most + 1
		lines = append(lines[:most-1:most-1], fmt.Sprintf("… and %d lines more", left))
	}
	l.drawn = l.drawn[:0]
	for _, line := range lines {
		line = Cut(escaped(line), columns)
		l.drawn = append(l.drawn, uniseg.StringWidth(line))
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(l.w, b.String())
	return err
}

// Cut cuts a line that is wider than some columns of a terminal, and ends it with an
// ellipsis then.
func Cut(line string, columns int) string {
	if uniseg.StringWidth(line) <= columns {
		return line
	}
	const ellipsis = "…"
	width, end := 0, 0
	for rest, state := line, -1; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if width += w; width > columns-1 {
			break
		}
		end += len(cluster)
	}
	return strings.TrimRight(line[:end], " ") + ellipsis
}
