package logs

import (
	"bytes"
	"strconv"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

// A FormatError says that the format of a log could not be detected.
type FormatError struct {
	Name   string // of the file
	Line   string // the beginning of its first line; "" if the file is not text
	Reason string // what is known; may be ""
}

// Error tells what to do.
func (e *FormatError) Error() string {
	if e.Line == "" {
		return e.Name + " is no log: it is not text"
	}
	reason := e.Reason
	if reason == "" {
		reason = "name the format or its columns"
	}
	return "the format of " + e.Name + " could not be detected from its first line " + strconv.Quote(e.Line) + ": " + reason
}

// detect finds the format from the first line, and from those after it if that can be of a
// known format but cannot be read. An empty log can have any.
func (l *Reader) detect(first []byte) (Format, error) {
	switch {
	case len(first) == 0, first[0] == '{':
		return JSON, nil
	case bytes.IndexByte(first, 0) >= 0: // text has no zeros
		return "", &FormatError{Name: l.o.Name}
	}
	unknown := &FormatError{Name: l.o.Name, Line: string(bytes.ToValidUTF8(first[:min(len(first), maxText)], []byte{'?'}))}
	const far = 1 << 16
	text, _ := l.r.Peek(far) // an error comes again
	if first[0] == '#' && bytes.Contains(text, []byte(fieldsOf)) {
		return W3C, nil
	}
	if f := listOf(text); f != "" {
		return f, nil
	}
	for _, list := range lists {
		if r := asList(Format(list.columns + " ...")); r.isReadable(first) {
			unknown.Reason = "it has more columns than the format " + string(list.format) + ": name them behind '" + list.columns + "', or end that with ..."
			return "", unknown
		}
	}
	switch {
	case bytes.HasPrefix(first, []byte("[{")), string(first) == "[":
		unknown.Reason = "if it is an array in JSON, write each of its values on a line"
	case bytes.ContainsAny(first, ",;\t|"):
		return CSV, nil
	}
	return "", unknown
}

// listOf is the list of columns that the first readable line fits, "" if there is none.
func listOf(text []byte) Format {
	readers := make([]*Reader, len(lists))
	for i, list := range lists {
		readers[i] = asList(list.format)
	}
	const most = 20 // lines
	for n := 0; n < most && len(text) > 0; n++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		for _, r := range readers {
			if r.isReadable(withoutEnd(line)) {
				return r.o.Format
			}
		}
	}
	return ""
}

// asList is a reader of single lines in a format that has a list of columns.
func asList(f Format) *Reader {
	r := &Reader{o: Options{Format: f}}
	if err := r.prepare(); err != nil {
		panic(err) // the lists are ours
	}
	return r
}

// isReadable reports whether a line is an event.
func (l *Reader) isReadable(line []byte) bool {
	var e replay.Event
	return l.event(line, &e) == nil
}
