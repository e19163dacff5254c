package logs

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/zeroae/zae-limiter-go/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Reader reads the events of a log in the order of its lines.
type Reader struct {
	o      Options
	r      *bufio.Reader
	line   int64 // the number of the line that was read last
	values [][]byte
	fields splitter
	places places
	clock  clock
	last   string // the resource that was read last: most lines have the same
	record []byte // memory of a record of several lines

	malformed Malformed
}

// A splitter finds the values of the columns in a line. The values may share the memory of
// the line, and are valid until the next call.
type splitter interface {
	split(line []byte, values [][]byte) error
}

// places are the indexes of columns among the values; -1 is none.
type places struct {
	time, entity, resource, parent int
	costs                          []int
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
		if l.o.Format, err = detect(o.Name, first); err != nil {
			return nil, err
		}
	}
	l.o.fill()
	l.clock.layout = l.o.TimeLayout
	return l, l.prepare()
}

// first is the first line that is not empty, without consuming it. Empty lines before it
// are consumed.
func (l *Reader) first() ([]byte, error) {
	for {
		start, err := l.r.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, l.broken(l.line+1, err)
		case start[0] != '\n' && start[0] != '\r':
			return l.peekLine()
		}
		_, _ = l.r.Discard(1) // it was peeked
		if start[0] == '\n' {
			l.line++
		}
	}
}

// peekLine is the line that begins here, or as much of it as is buffered.
func (l *Reader) peekLine() ([]byte, error) {
	for n := 4096; ; n *= 2 {
		text, err := l.r.Peek(min(n, MaxLine))
		line, _, isWhole := bytes.Cut(text, []byte{'\n'})
		switch {
		case isWhole || errors.Is(err, io.EOF) || n >= MaxLine:
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		case err != nil:
			return nil, l.broken(l.line+1, err)
		}
	}
}

// prepare finds the columns.
func (l *Reader) prepare() (err error) {
	columns := l.o.columns()
	l.values = make([][]byte, len(columns))
	switch l.o.Format {
	case JSON:
		l.fields = newJSON(columns)
	case CSV:
		header, readErr := l.readLine()
		if errors.Is(readErr, io.EOF) {
			break // an empty log
		}
		if readErr != nil {
			return readErr
		}
		l.fields, err = newCSV(header, columns)
	default:
		l.fields, err = newAccess(l.o.Format, columns)
	}
	if err != nil {
		return err
	}
	place := func(name string) int {
		for i, column := range columns {
			if column == name {
				return i
			}
		}
		return -1
	}
	l.places = places{place(l.o.Time), place(l.o.Entity), place(l.o.Resource), place(l.o.Parent), nil}
	for _, c := range l.o.Costs {
		l.places.costs = append(l.places.costs, place(c.Column))
	}
	return nil
}

// Format is the format of the log.
func (l *Reader) Format() Format { return l.o.Format }

// Malformed counts the lines so far.
func (l *Reader) Malformed() Malformed { return l.malformed }

// Next reads the next event. It passes over empty and malformed lines.
func (l *Reader) Next(e *replay.Event) error {
	for {
		line, err := l.readLine()
		if err == nil && len(line) == 0 {
			continue
		}
		number := l.line
		if err == nil {
			if err = l.event(line, e); err == errOpenQuote { //nolint:errorlint // csvLine returns it itself
				line, err = l.continued(line, e)
			}
		} else if _, ok := errors.AsType[*lineError](err); !ok {
			return err
		}
		l.malformed.Lines++
		if err == nil {
			return nil
		}
		l.note(number, line, err)
	}
}

// readLine reads a line without its end. It fails with a lineError if the line is too long.
func (l *Reader) readLine() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.line++
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		start := bytes.Clone(line[:maxText])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, l.broken(l.line, err)
		}
		return start, &lineError{"the line is longer than 1 MiB"}
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return nil, l.broken(l.line, err)
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), nil
}

// Bounds of a record of several lines. They keep a quote that nobody closes from costing
// more than its own line.
const (
	maxRecordLines = 100
	maxRecord      = 1 << 16 // bytes
)

// continued reads the event of a record of comma separated values whose line ends within a
// quoted value: the lines that follow belong to it up to the one that closes the quote. If
// no record results, the first line alone is malformed, and the others are still to be
// read. continued returns a copy of what it has read as the record.
func (l *Reader) continued(line []byte, e *replay.Event) ([]byte, error) {
	l.record = append(l.record[:0], line...) // looking ahead moves the memory of the line
	first, ahead := len(l.record), 0
	for lines := int64(1); lines < maxRecordLines; lines++ {
		next, err := l.peek(ahead)
		if err != nil {
			return l.record[:first], err
		}
		ahead += len(next)
		if ahead > maxRecord || len(next) == 0 {
			break
		}
		l.record = append(append(l.record, '\n'), bytes.TrimSuffix(bytes.TrimSuffix(next, []byte{'\n'}), []byte{'\r'})...)
		if bytes.IndexByte(next, '"') < 0 {
			continue
		}
		err = l.fields.split(l.record, l.values)
		if err == errOpenQuote { //nolint:errorlint // csvLine returns it itself
			continue
		}
		if err != nil {
			break
		}
		_, _ = l.r.Discard(ahead) // it was peeked
		l.line += lines
		return l.record, l.event(l.record, e)
	}
	return l.record[:first], errOpenQuote
}

// peek is the line that begins so many bytes ahead, with its end, without consuming it; or
// as much of it as a record may have.
func (l *Reader) peek(ahead int) ([]byte, error) {
	for n := 4096; ; n *= 2 {
		text, err := l.r.Peek(ahead + n)
		text = text[min(ahead, len(text)):]
		end := bytes.IndexByte(text, '\n') + 1
		switch {
		case end > 0:
			return text[:end], nil
		case errors.Is(err, io.EOF), n > maxRecord:
			return text, nil
		case err != nil:
			return nil, l.broken(l.line, err)
		}
	}
}

// broken says where a log could not be read on, and what to do about compressed data.
func (l *Reader) broken(line int64, err error) error {
	var problem string
	switch _, corrupt := errors.AsType[flate.CorruptInputError](err); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		problem = "the compressed data end too early"
	case errors.Is(err, gzip.ErrHeader):
		problem = "what follows the compressed data is not compressed"
	case errors.Is(err, gzip.ErrChecksum), corrupt:
		problem = "the compressed data are damaged"
	default:
		return fmt.Errorf("read line %d of %s: %w", line, l.o.Name, err)
	}
	return fmt.Errorf("read line %d of %s: %s: unzip the file, and read what that gives", line, l.o.Name, problem)
}

// note counts a malformed line.
func (l *Reader) note(number int64, line []byte, err error) {
	l.malformed.Count++
	if len(l.malformed.First) < Shown {
		text := string(bytes.ToValidUTF8(line[:min(len(line), maxText)], []byte{'?'}))
		l.malformed.First = append(l.malformed.First, Problem{l.o.Name, number, err.Error(), text})
	}
}

// maxText is how much of a malformed line is shown, in bytes.
const maxText = 200

// event reads an event from a line.
func (l *Reader) event(line []byte, e *replay.Event) (err error) {
	clear(l.values)
	if err := l.fields.split(line, l.values); err != nil {
		return err
	}
	at, err := l.clock.parse(l.values[l.places.time])
	if err != nil {
		return &columnError{l.o.Time, err}
	}
	e.At, e.Resource, e.Parent = at, l.o.ResourceIs, ""
	if e.Entity, err = l.name(l.places.entity, l.o.Entity); err != nil {
		return err
	}
	if l.places.resource >= 0 {
		if string(l.values[l.places.resource]) != l.last || l.last == "" {
			if l.last, err = l.name(l.places.resource, l.o.Resource); err != nil {
				return err
			}
		}
		e.Resource = l.last
	}
	if l.places.parent >= 0 {
		if parent := l.values[l.places.parent]; len(parent) > 0 && string(parent) != "-" {
			e.Parent = string(parent)
		}
	}
	return l.amounts(e)
}

func (l *Reader) name(place int, column string) (string, error) {
	v := l.values[place]
	if len(v) == 0 {
		return "", &columnError{column, errMissing}
	}
	return string(v), nil
}

func (l *Reader) amounts(e *replay.Event) error {
	e.Amounts = e.Amounts[:0]
	for i, c := range l.o.Costs {
		tokens := c.Tokens
		if place := l.places.costs[i]; place >= 0 {
			var err error
			if tokens, err = number(l.values[place]); err != nil {
				return &columnError{c.Column, err}
			}
		}
		e.Amounts = append(e.Amounts, tokens)
	}
	return nil
}

// number reads a number of tokens.
func number(v []byte) (int64, error) {
	switch {
	case v == nil:
		return 0, errMissing
	case string(v) == "-":
		return 0, nil
	}
	const digits = 16 // of MaxTokens
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' || len(v) > digits {
			return 0, &valueError{v, "give a whole number of tokens from 0 to 10^15"}
		}
		n = n*10 + int64(c-'0')
	}
	if len(v) == 0 || n > store.MaxTokens {
		return 0, &valueError{v, "give a whole number of tokens from 0 to 10^15"}
	}
	return n, nil
}

// A lineError is what is wrong with a line.
type lineError struct{ problem string }

func (e *lineError) Error() string { return e.problem }

// errMissing says that a line does not have a column.
var errMissing = &lineError{"it is missing"}

// A columnError is what is wrong with a column of a line.
type columnError struct {
	column string
	err    error
}

func (e *columnError) Error() string { return "column " + e.column + ": " + e.err.Error() }
func (e *columnError) Unwrap() error { return e.err }

// A valueError is what is wrong with a value.
type valueError struct {
	value  []byte
	reason string
}

func (e *valueError) Error() string {
	return strconv.Quote(string(e.value[:min(len(e.value), maxValue)])) + ": " + e.reason
}

// maxValue is how much of a wrong value an error quotes.
const maxValue = 40
