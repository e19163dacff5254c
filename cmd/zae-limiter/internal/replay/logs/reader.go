package logs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Reader reads the events of a log in the order of its lines.
type Reader struct {
	o      Options
	r      *bufio.Reader
	line   int64 // the number of the line that was read last
	isCut  bool  // the line has no end
	values []value
	fields splitter
	places places
	clock  clock
	last   string // the resource that was read last: most lines have the same
	record []byte // memory of a record of several lines

	lacks   []error // why the line has no usable cost in a column, in the order of the costs
	lacking bool    // one of them is not nil
	read    Malformed
}

// A splitter finds the values of the columns in a line. The values may share the memory of
// the line, and are valid until the next call.
type splitter interface {
	split(line []byte, values []value) error
}

// places are the indexes of columns among the values; -1 is none.
type places struct {
	date, time, entity, resource, parent int
	costs                                []int
	amounts                              []int // for each cost, the amount to which it is added
}

// MaxLine is the length of the longest line, in bytes. A longer one is malformed.
const MaxLine = 1 << 20

// byteOrderMark is how some programs begin a text in UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// NewReader returns a reader of a log, and detects whether it is compressed and its format.
// It fails with a [store.ValidationError] if the options are wrong, or name a column that
// the log does not have, and with a [FormatError] if no format fits.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	buffered := bufio.NewReaderSize(r, MaxLine)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("unzip %s: %w", o.Name, err)
		}
		buffered = bufio.NewReaderSize(unzipped, MaxLine)
	}
	if mark, _ := buffered.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // it was peeked
	}
	l := &Reader{o: o, r: buffered}
	first, err := l.first()
	if err != nil {
		return nil, err
	}
	if l.o.Format == Detect {
		if l.o.Format, err = l.detect(first); err != nil {
			return nil, err
		}
	}
	return l, l.prepare()
}

// prepare finds the columns.
func (l *Reader) prepare() (err error) {
	var names []string
	if list := l.o.Format.Columns(); list != "" {
		p, err := parsePattern(list)
		if err != nil {
			return err
		}
		names = p.names
	}
	l.o.fill(names)
	l.clock.layout = l.o.TimeLayout
	columns := l.o.columns()
	l.values, l.lacks = make([]value, len(columns)), make([]error, len(l.o.Costs))
	place := func(name string) int { return slices.Index(columns, name) }
	l.places = places{date: place(l.o.Date), time: place(l.o.Time), entity: place(l.o.Entity), resource: place(l.o.Resource), parent: place(l.o.Parent)}
	limits := l.o.Limits()
	for _, c := range l.o.Costs {
		l.places.costs = append(l.places.costs, place(c.Column))
		l.places.amounts = append(l.places.amounts, slices.Index(limits, c.Limit))
		l.read.Lacking = append(l.read.Lacking, Lack{Limit: c.Limit, Column: c.Column})
	}
	switch l.o.Format {
	case JSON:
		l.fields = newJSON(columns)
	case CSV:
		err = l.header(columns)
	case W3C:
		err = l.directives(columns)
	default:
		l.fields, err = newPattern(l.o.Format.Columns(), columns)
	}
	return err
}

// header reads the header of separated values.
func (l *Reader) header(columns []string) error {
	header, err := l.readLine()
	if errors.Is(err, io.EOF) {
		return nil // an empty log
	}
	if err == nil {
		l.fields, err = newCSV(header, columns)
	}
	return err
}

// directives reads the lines of a W3C log up to the one that names the columns.
func (l *Reader) directives(columns []string) error {
	for {
		start, err := l.r.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil // an empty log
		}
		if err == nil && start[0] != '#' {
			line, _ := l.peekLine()
			return &store.ValidationError{
				Field: "header", Value: string(line[:min(len(line), maxText)]), Reason: "no line " + fieldsOf + " before this one names the columns",
			}
		}
		line, err := l.readLine()
		if err != nil {
			return err
		}
		if err := l.directive(line, columns); err != nil || l.fields != nil {
			return err
		}
	}
}

// directive takes over the names of the columns, if a line of a W3C log has them.
func (l *Reader) directive(line []byte, columns []string) (err error) {
	if bytes.HasPrefix(line, []byte(fieldsOf)) {
		l.fields, err = newW3C(line, columns)
	}
	return err
}

// Format is the format of the log.
func (l *Reader) Format() Format { return l.o.Format }

// Malformed tells of the lines so far what could not be read.
func (l *Reader) Malformed() Malformed { return l.read.used() }

// Next reads the next event. It passes over empty and malformed lines.
func (l *Reader) Next(e *replay.Event) error {
	for {
		line, err := l.readLine()
		if _, isLong := err.(*lineError); err != nil && !isLong { //nolint:errorlint // readLine returns it itself
			return err
		}
		switch {
		case len(line) == 0:
			continue
		case line[0] == '#' && l.o.Format == W3C:
			if err := l.directive(line, l.o.columns()); err != nil {
				return fmt.Errorf("read line %d of %s: %w", l.line, l.o.Name, err)
			}
			continue
		}
		number := l.line
		if err == nil {
			if err = l.event(line, e); err == errOpenQuote { //nolint:errorlint // csvLine returns it itself
				line, err = l.continued(line, e)
			}
		}
		l.read.Lines++
		if err != nil {
			l.noteMalformed(number, line, err)
			continue
		}
		if l.lacking || l.isCut {
			l.noteRead(number, line)
		}
		return nil
	}
}

func (l *Reader) noteMalformed(number int64, line []byte, err error) {
	l.read.Count++
	r := l.read.reason(kindOf(err))
	if r.Lines++; r.Lines == 1 {
		r.First = l.problem(number, line, err.Error())
	}
}

// noteRead notes what an event lacks, and whether its line may be cut off.
func (l *Reader) noteRead(number int64, line []byte) {
	if l.lacking {
		for i, err := range l.lacks {
			if lack := &l.read.Lacking[i]; err != nil {
				if lack.Events++; lack.Events == 1 {
					lack.First = l.problem(number, line, err.Error())
				}
			}
		}
	}
	if l.isCut && l.o.Format != JSON && line[len(line)-1] != '"' {
		l.read.Cut = append(l.read.Cut, l.problem(number, line, "the file does not end with a line break: the last value may be cut off"))
	}
}

// problem is what is wrong with a line.
func (l *Reader) problem(number int64, line []byte, reason string) Problem {
	return Problem{l.o.Name, number, reason, string(bytes.ToValidUTF8(line[:min(len(line), maxText)], []byte{'?'}))}
}
