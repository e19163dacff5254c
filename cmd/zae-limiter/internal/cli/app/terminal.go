package app

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether a file is a terminal, where somebody can answer.
func IsTerminal(f *os.File) bool {
	const largest = 1<<31 - 1
	fd := f.Fd()
	return fd <= largest && term.IsTerminal(int(fd))
}
