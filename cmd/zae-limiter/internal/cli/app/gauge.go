package app

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Gauge draws the part of a whole, from 0 to 1, as a bar of some columns.
func Gauge(part float64, columns int) string {
	full := int(float64(columns) * min(1, max(0, part)))
	return strings.Repeat("#", full) + strings.Repeat(".", columns-full)
}

// Columns of the bars of a table. A narrower one says little.
const (
	leastBar = 10
	mostBar  = 40
)

// BarTable returns the lines of a table whose bars get the columns that the rest leaves of a
// terminal's, 10 to 40. table makes it with bars of a width; for 0 it has none.
func BarTable(columns int, table func(bar int) (header []string, rows [][]string)) []string {
	const gap = 2
	lines := tableLines(table(0))
	rest := 0
	for _, line := range lines {
		rest = max(rest, uniseg.StringWidth(line))
	}
	if bar := min(mostBar, columns-rest-gap); bar >= leastBar {
		lines = tableLines(table(bar))
	}
	return lines
}

func tableLines(header []string, rows [][]string) []string {
	var w strings.Builder
	Table(&w, header, rows)
	return strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
}
