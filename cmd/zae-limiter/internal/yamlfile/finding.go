package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Finding is one reason why a file is not valid.
type Finding struct {
	// Line and Column count from 1; 0 is unknown.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path leads to the value: "resources.gpt-4.limits.rpm.capacity"; "" is the file.
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// A ParseError has all findings about a file, by their position. It is
// [store.ErrInvalid].
type ParseError struct {
	File     string
	Findings []Finding
}

// Error has a line for each finding: the file, the line, the column, the path and the
// reason.
func (e *ParseError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = e.File
		if f.Line > 0 {
			lines[i] += fmt.Sprintf(":%d:%d", f.Line, f.Column)
		}
		if f.Path != "" {
			lines[i] += ": " + printable(f.Path)
		}
		lines[i] += ": " + f.Reason
	}
	return strings.Join(lines, "\n")
}

// printable quotes a path with control characters, which could write to the terminal or
// look like another finding.
func printable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}

// Is reports whether target is [store.ErrInvalid].
func (e *ParseError) Is(target error) bool { return target == store.ErrInvalid }

// ErrorOf returns findings about a file as a [*ParseError], nil if there are none. It sorts them.
func ErrorOf(file string, findings []Finding) error {
	if len(findings) == 0 {
		return nil
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &ParseError{File: file, Findings: findings}
}
