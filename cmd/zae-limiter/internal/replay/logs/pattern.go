package logs

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/store"
)

// A pattern finds the values of lines that have them between the texts of a list of columns.
// A line fits in one way only, or it is malformed: text that a client chooses must not move
// a value into another column. So a value ends at the first place where it can, and what
// follows must be as in the list up to the end of the line.
type pattern struct {
	names    []string
	start    string // before the first column
	steps    []step
	optional int  // columns that every line has
	open     bool // more columns may follow the last
	last     int  // the last column that must be read: in an open list the last wanted one
}

// A step is a column, and what follows its value.
type step struct {
	to      []destination
	text    string // up to the next column; "" is the end of the line
	closing string // the part of text that belongs to the value, a quote for instance
	stop    byte   // ends the value, unless the value goes on
	quotes  int    // quotes of the list up to the end of closing
	inQuote bool   // the value is alone in quotes
	isLoose bool   // the value may have spaces, and a bracket follows
	isWord  bool   // the value may have no spaces, although another byte ends it
	mayEnd  bool   // the end of the line ends the value

	errAfter, errEnds *lineError
}

// columnName is a column in a list of columns.
var columnName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(?:([A-Za-z0-9_]+)|\{([^}]+)\})`) })

// parsePattern reads a list of columns.
func parsePattern(columns string) (*pattern, error) {
	wrong := func(reason string) (*pattern, error) {
		return nil, &store.ValidationError{Field: "format", Value: columns, Reason: reason}
	}
	text := strings.ReplaceAll(columns, `\t`, "\t")
	places := columnName().FindAllStringSubmatchIndex(text, -1)
	p := &pattern{optional: len(places)}
	hasSpaces := false
	for i, at := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		s := step{text: text[at[1]:end]}
		if before, after, ok := strings.Cut(s.text, "..."); ok {
			p.optional, p.open = min(p.optional, i+1), true
			s.text = before + strings.TrimPrefix(after, " ")
			if i+1 == len(places) {
				s.text = strings.TrimSuffix(before, " ") + after
			}
		}
		if s.text == "" && i+1 < len(places) {
			return wrong("put text between " + text[at[0]:at[1]] + " and the next column")
		}
		if strings.Contains(s.text, "$") {
			return wrong("write a column as $name or ${name}")
		}
		hasSpaces = hasSpaces || strings.Contains(s.text, " ")
		p.names = append(p.names, text[max(at[2], at[4]):max(at[3], at[5])])
		p.steps = append(p.steps, s)
	}
	if len(places) == 0 {
		return wrong("name at least one column")
	}
	if p.start = text[:places[0][0]]; strings.Contains(p.start, "$") {
		return wrong("write a column as $name or ${name}")
	}
	p.settle(hasSpaces)
	return p, nil
}

// settle works out how the values end. hasSpaces says that spaces separate columns.
func (p *pattern) settle(hasSpaces bool) {
	before, quotes := p.start, strings.Count(p.start, `"`)
	for i := range p.steps {
		s := &p.steps[i]
		isLast := i+1 == len(p.steps)
		s.closing = s.text
		if end := strings.IndexAny(s.text, " \t"); end >= 0 && !isLast {
			s.closing = s.text[:end]
		}
		s.quotes = quotes + strings.Count(s.closing, `"`)
		s.inQuote = strings.HasSuffix(before, `"`) && strings.HasPrefix(s.text, `"`)
		s.isLoose = strings.HasPrefix(s.text, " [")
		nextToSpace := strings.HasSuffix(before, " ") || before == "" && hasSpaces || s.text == "" && hasSpaces
		s.isWord = nextToSpace && !s.isLoose && !strings.HasPrefix(s.text, " ")
		switch {
		case s.text != "":
			s.stop = s.text[0]
		case s.isWord:
			s.stop = ' '
		default:
			s.stop = '\t'
		}
		s.isWord = s.isWord && s.stop != ' '
		s.mayEnd = i+1 >= p.optional && s.closing == "" && !s.isLoose
		s.errAfter = &lineError{problem: "what follows column " + p.names[i] + " does not fit the format"}
		s.errEnds = &lineError{problem: "it ends before the end of column " + p.names[i]}
		before, quotes = s.text, quotes+strings.Count(s.text, `"`)
	}
}

// newPattern finds the wanted columns in a list of columns.
func newPattern(columns string, wanted []string) (*pattern, error) {
	p, err := parsePattern(columns)
	if err != nil {
		return nil, err
	}
	all, err := destinations(p.names, wanted)
	if err != nil {
		return nil, err
	}
	p.last = len(all) - 1
	if p.open {
		p.last = p.optional - 1
	}
	for i, to := range all {
		p.steps[i].to = to
		if len(to) > 0 {
			p.last = max(p.last, i)
		}
	}
	return p, nil
}

var (
	errStart = &lineError{problem: "it does not begin as the format does"}
	errQuote = &lineError{problem: "where its values end is not known: a quote is missing, or one in a value has no backslash"}
	errSpace = &lineError{problem: "there are more words than columns"}
	errMore  = &lineError{problem: `it has more columns than the format: name them, or end the list with " ..." to leave them out`}
)

// split reads a line to its end.
func (p *pattern) split(line []byte, values []value) error {
	for len(line) > 0 && line[len(line)-1] == ' ' {
		line = line[:len(line)-1]
	}
	err := p.match(line, values)
	const pair = 2
	if err != nil && p.hasQuotes() && (bytes.Count(line, []byte{'"'})-bytes.Count(line, []byte(`\"`)))%pair != 0 {
		return errQuote
	}
	return err
}

func (p *pattern) match(line []byte, values []value) error {
	if !hasPrefix(line, p.start) {
		return errStart
	}
	rest, escaped := line[len(p.start):], 0
	for i := range p.steps {
		s := &p.steps[i]
		end := bytes.IndexByte(rest, s.stop)
		if end < 0 || s.goesOn(rest, end) {
			if end, escaped = s.end(rest, end, escaped); end < 0 {
				return s.errEnds
			}
		}
		if (s.isLoose || s.isWord) && !s.fits(rest[:end]) {
			return errSpace
		}
		for j := range s.to {
			s.to[j].put(values, rest[:end])
		}
		rest = rest[end:]
		if i+1 >= p.optional && p.isEnd(i, rest) {
			return p.count(line[:len(line)-len(rest)+len(s.closing)], s.quotes+escaped)
		}
		if len(s.text) != 1 && !hasPrefix(rest, s.text) { // the first byte has ended the value
			return s.errAfter
		}
		rest = rest[len(s.text):]
	}
	return errMore
}

// count fails if the part of a line that was read has other quotes than those of the list and
// those with a backslash.
func (p *pattern) count(read []byte, quotes int) error {
	if p.hasQuotes() && bytes.Count(read, []byte{'"'}) != quotes {
		return errQuote
	}
	return nil
}

// hasPrefix is for texts of few bytes, which take longer to compare by a call.
func hasPrefix(line []byte, text string) bool {
	if len(line) < len(text) {
		return false
	}
	for i := range len(text) {
		if line[i] != text[i] {
			return false
		}
	}
	return true
}

// hasQuotes reports whether quotes enclose values, so that no other may be in them.
func (p *pattern) hasQuotes() bool { return p.steps[len(p.steps)-1].quotes > 0 }

// goesOn reports whether the stop at a place belongs to the value: a quote behind a backslash,
// or a space before other than a bracket.
func (s *step) goesOn(rest []byte, at int) bool {
	if s.inQuote {
		return isEscaped(rest[:at])
	}
	return s.isLoose && (at+1 == len(rest) || rest[at+1] != '[')
}

// isEscaped reports whether a text ends with a backslash that has none before it.
func isEscaped(text []byte) (yes bool) {
	for i := len(text) - 1; i >= 0 && text[i] == '\\'; i-- {
		yes = !yes
	}
	return yes
}

// end is the end of a value whose first stop is at a place, which is -1 if there is no stop. It
// is -1 if nothing ends the value. end adds the value's quotes behind a backslash to those before.
func (s *step) end(rest []byte, at, before int) (end, escaped int) {
	end, escaped = at, before
	for end >= 0 && s.goesOn(rest, end) {
		if s.inQuote {
			escaped++
		}
		next := bytes.IndexByte(rest[end+1:], s.stop)
		if next < 0 {
			return -1, escaped
		}
		end += 1 + next
	}
	if end < 0 && s.mayEnd {
		end = len(rest)
	}
	return end, escaped
}

// fits reports whether a value has nothing that another column should have: an absent value
// is alone, and a word has no space.
func (s *step) fits(v []byte) bool {
	if s.isLoose {
		return !hasPrefix(v, "- ")
	}
	return bytes.IndexByte(v, ' ') < 0
}

// isEnd reports whether a line ends with what follows the value of a column, or has only
// columns behind it that are left out.
func (p *pattern) isEnd(i int, rest []byte) bool {
	s := &p.steps[i]
	if !hasPrefix(rest, s.closing) {
		return false
	}
	after := rest[len(s.closing):]
	return len(after) == 0 || p.open && i >= p.last && (after[0] == ' ' || after[0] == '\t')
}
