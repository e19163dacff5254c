package logs

import (
	"bytes"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// csvLine finds columns of comma separated values.
type csvLine struct {
	comma   byte
	columns int
	places  []int // for each column, its index among the values, or -1
	text    []byte
}

// newCSV reads the header. The separator is the one that occurs most in it.
func newCSV(header []byte, wanted []string) (*csvLine, error) {
	c := &csvLine{comma: ','}
	for _, other := range []byte{';', '\t'} {
		if bytes.Count(header, []byte{other}) > bytes.Count(header, []byte{c.comma}) {
			c.comma = other
		}
	}
	var names []string
	if err := c.each(header, func(_ int, value []byte) { names = append(names, string(value)) }); err != nil {
		return nil, &store.ValidationError{Field: "header", Value: string(header[:min(len(header), maxText)]), Reason: err.Error()}
	}
	c.columns, c.places = len(names), make([]int, len(names))
	for i := range c.places {
		c.places[i] = -1
	}
	for i, column := range wanted {
		place, ok := lastIndex(names, column)
		if !ok {
			return nil, missing(column, names)
		}
		c.places[place] = i
	}
	return c, nil
}

func lastIndex(names []string, name string) (int, bool) {
	for i, other := range slices.Backward(names) {
		if other == name {
			return i, true
		}
	}
	return 0, false
}

var errColumns = &lineError{"it has not as many columns as the header"}

func (c *csvLine) split(line []byte, values [][]byte) error {
	seen := 0
	err := c.each(line, func(i int, value []byte) {
		seen++
		if i < len(c.places) && c.places[i] >= 0 {
			values[c.places[i]] = value
		}
	})
	if err == nil && seen != c.columns {
		return errColumns
	}
	return err
}

// each visits the values of a line.
func (c *csvLine) each(line []byte, visit func(int, []byte)) error {
	c.text = c.text[:0]
	for i := 0; ; i++ {
		if len(line) == 0 || line[0] != '"' {
			end := bytes.IndexByte(line, c.comma)
			if end < 0 {
				end = len(line)
			}
			if bytes.IndexByte(line[:end], '"') >= 0 {
				return &lineError{"there is a quote within a value that does not begin with one"}
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
var errOpenQuote = &lineError{"a quote is not closed"}

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
			return nil, nil, &lineError{"there is text after the closing quote of a value"}
		}
		c.text = append(c.text, '"')
		rest = rest[1:]
	}
}
