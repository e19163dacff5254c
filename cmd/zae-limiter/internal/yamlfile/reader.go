package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/store"
)

// MaxFindings is how many findings one report has. Aliases can repeat a mistake far more
// often than the file is long.
const MaxFindings = 100

// A Form says what a kind of file is, for the reader and its messages.
type Form struct {
	// MaxBytes is the size of the largest file.
	MaxBytes int
	// TooLarge, Empty and Second are the reasons for a file that is larger, that has no
	// content, and that has more than one document.
	TooLarge, Empty, Second string
	// Unknown, if not nil, returns a reason against an unknown key that deserves a better
	// one than the list of known keys, or "".
	Unknown func(key string) string
}

// A Reader walks the nodes of a file and collects what is wrong with them.
type Reader struct {
	Findings []Finding
	// Stopped reports that the rest of the file is not worth reading: it can only lead to
	// more findings than a report has, or to more values than the caller keeps.
	Stopped bool
	form    Form
	open    map[*yaml.Node]bool // the values that are being resolved
	merged  int                 // how many keys merge keys brought in
}

// A Place is a node with the path that leads to it.
type Place struct {
	Node *yaml.Node
	Path string
}

// NewReader returns a reader of files of a form.
func NewReader(form Form) *Reader { return &Reader{form: form, open: map[*yaml.Node]bool{}} }

// Root returns the content of the only document of a file; false if there is none.
func (r *Reader) Root(data []byte) (Place, bool) {
	if len(data) > r.form.MaxBytes {
		r.Findings = append(r.Findings, Finding{Reason: r.form.TooLarge})
		return Place{}, false
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.Findings = append(r.Findings, Finding{Line: 1, Column: 1, Reason: r.form.Empty})
		return Place{}, false
	case err != nil:
		r.syntax(data, err)
		return Place{}, false
	}
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.syntax(data, err)
		return Place{}, false
	default:
		r.Find(at(&more, ""), "%s", r.form.Second)
		return Place{}, false
	}
	root := at(doc.Content[0], "")
	r.resolve(root)
	withoutTemplates(root)
	return root, true
}

// syntax adds an error of the YAML library, with its position.
func (r *Reader) syntax(data []byte, err error) {
	f := Finding{Reason: err.Error()}
	if load, ok := errors.AsType[*yaml.LoadError](err); ok {
		f = Finding{Line: load.Mark.Line, Column: load.Mark.Column, Reason: load.Message}
	}
	switch {
	case f.Line == 0:
		f.Line, f.Column = forbidden(data)
	case isTab(data, f.Line, f.Column):
		f.Reason = "YAML allows no tab here: indent with spaces"
	}
	f.Reason = "not valid YAML or JSON: " + f.Reason
	r.Findings = append(r.Findings, f)
}

// isTab reports whether a tab is at a position.
func isTab(data []byte, line, column int) bool {
	for n := 1; n < line; n++ {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return column > 0 && column <= len(data) && data[column-1] == '\t'
}

// forbidden is the position of the first character that no YAML has: one that is not in
// UTF-8, or one that controls a terminal. It is 0 if there is none.
func forbidden(data []byte) (line, column int) {
	line, column = 1, 1
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		switch {
		case c == utf8.RuneError && size == 1, unicode.IsControl(c) && !strings.ContainsRune("\t\n\r\u0085", c):
			return line, column
		case c == '\n':
			line, column = line+1, 0
		}
		data, column = data[size:], column+1
	}
	return 0, 0
}

// Err returns all findings as a [*ParseError], nil if there are none. file is its name in
// the error.
func (r *Reader) Err(file string) error { return ErrorOf(file, r.Findings) }

// Find adds a finding about a place.
func (r *Reader) Find(p Place, format string, args ...any) {
	if r.Stopped {
		return
	}
	if len(r.Findings) == MaxFindings {
		r.Stopped = true
		format, args = "there are more than %d findings: correct these first", []any{MaxFindings}
	}
	r.Findings = append(r.Findings, Finding{p.Node.Line, p.Node.Column, p.Path, fmt.Sprintf(format, args...)})
}

// Invalid adds why a value is invalid, without repeating its name.
func (r *Reader) Invalid(p Place, err error) {
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok {
		r.Find(p, "invalid %s %q: %s", wrong.Field, wrong.Value, wrong.Reason)
	}
}

func at(n *yaml.Node, path string) Place {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return Place{n, path}
}
