package logs

import (
	"bytes"

	"github.com/zeroae/zae-limiter-go/store"
)

// csvLine finds columns of separated values.
type csvLine struct {
	comma   byte // 0: a tab or a space, whichever the line has
	columns [][]destination
	text    []byte
}

// newCSV reads the header. The separator is the one that occurs most in it.
func newCSV(header []byte, wanted []string) (*csvLine, error) {
	c := &csvLine{comma: ','}
	for _, other := range []byte{';', '\t', '|'} {
		if bytes.Count(header, []byte{other}) > bytes.Count(header, []byte{c.comma}) {
			c.comma = other
		}
	}
	var names []string
	if err := c.each(header, func(_ int, value []byte) { names = append(names, string(value)) }); err != nil {
		return nil, &store.ValidationError{Field: "header", Value: string(header[:min(len(header), maxText)]), Reason: err.Error()}
	}
	var err error
	c.columns, err = destinations(names, wanted)
	return c, err
}

// fieldsOf is how a line of a W3C log begins that names the columns.
const fieldsOf = "#Fields:"

// newW3C reads the names of a W3C log.
func newW3C(fields []byte, wanted []string) (*csvLine, error) {
	fields = bytes.TrimSpace(fields[len(fieldsOf):])
	if bytes.IndexByte(fields, ' ') < 0 && bytes.IndexByte(fields, ',') >= 0 {
		return newCSV(fields, wanted)
	}
	c := &csvLine{}
	var names []string
	for name := range bytes.FieldsSeq(fields) {
		names = append(names, string(name))
	}
	var err error
	c.columns, err = destinations(names, wanted)
	return c, err
}

var (
	errColumns = &lineError{problem: "it has not as many columns as the header"}
	errInside  = &lineError{problem: "there is a quote within a value that does not begin with one"}
	errBehind  = &lineError{problem: "there is text after the closing quote of a value"}
)

func (c *csvLine) split(line []byte, values []value) error {
	seen := 0
	err := c.each(line, func(i int, text []byte) {
		seen++
		if i < len(c.columns) {
			for j := range c.columns[i] {
				c.columns[i][j].put(values, text)
			}
		}
	})
	if err == nil && seen != len(c.columns) {
		return errColumns
	}
	return err
}

// each visits the values of a line. Quotes mean nothing between spaces and tabs of W3C.
func (c *csvLine) each(line []byte, visit func(int, []byte)) error {
	c.text = c.text[:0]
	comma, quotes := c.comma, c.comma != 0
	if !quotes {
		if comma = ' '; bytes.IndexByte(line, '\t') >= 0 {
			comma = '\t'
		}
	}
	for i := 0; ; i++ {
		if !quotes || len(line) == 0 || line[0] != '"' {
			end := bytes.IndexByte(line, comma)
			if end < 0 {
				end = len(line)
			}
			if quotes && bytes.IndexByte(line[:end], '"') >= 0 {
				return errInside
			}
			visit(i, line[:end])
			line = line[end:]
		} else {
			value, rest, err := c.quoted(line)
			if err != nil {
				return err
			}
			visit(i, value)
			line = rest
		}
		if len(line) == 0 {
			return nil
		}
		line = line[1:] // the separator
	}
}

// errOpenQuote says that a line ends within a quoted value.
var errOpenQuote = &lineError{problem: "a quote is not closed"}

// quoted reads a quoted value. Two quotes in it stand for one.
func (c *csvLine) quoted(line []byte) (value, rest []byte, err error) {
	from := len(c.text)
	for rest = line[1:]; ; {
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			return nil, nil, errOpenQuote
		}
		c.text = append(c.text, rest[:end]...)
		rest = rest[end+1:]
		switch {
		case len(rest) == 0 || rest[0] == c.comma:
			return c.text[from:], rest, nil
		case rest[0] != '"':
			return nil, nil, errBehind
		}
		c.text = append(c.text, '"')
		rest = rest[1:]
	}
}
