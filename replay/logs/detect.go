package logs

import (
	"bytes"
	"regexp"
	"strconv"
	"sync"
)

// A FormatError says that the format of a log could not be detected.
type FormatError struct {
	Name string // of the file
	Line string // the beginning of its first line; "" if the file is not text
}

// Error tells what to do.
func (e *FormatError) Error() string {
	if e.Line == "" {
		return e.Name + " is no log: it is not text"
	}
	return "the format of " + e.Name + " could not be detected from its first line " + strconv.Quote(e.Line) + ": name the format"
}

// A load balancer's line begins with a type and an instant, an access log's has a time in
// brackets as its fourth word.
var (
	albStart    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(http|https|h2|grpcs|ws|wss) \d{4}-\d\d-\d\dT`) })
	accessStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\S+ \S+ .*?\[\d\d/\w{3}/\d{4}:`) })
)

// detect finds the format from the first line. An empty log can have any.
func detect(name string, first []byte) (Format, error) {
	switch {
	case len(first) == 0, first[0] == '{':
		return JSON, nil
	case bytes.IndexByte(first, 0) >= 0: // text has no zeros
		return "", &FormatError{name, ""}
	case albStart().Match(first):
		return ALB, nil
	case accessStart().Match(first):
		const quotesOfCommon = 2
		if bytes.Count(first, []byte{'"'}) > quotesOfCommon {
			return Combined, nil
		}
		return Common, nil
	case bytes.ContainsAny(first, ",;\t"):
		return CSV, nil
	}
	return "", &FormatError{name, string(bytes.ToValidUTF8(first[:min(len(first), maxText)], []byte{'?'}))}
}
