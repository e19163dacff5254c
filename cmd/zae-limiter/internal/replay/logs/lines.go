package logs

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

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
			return withoutEnd(line), nil
		case err != nil:
			return nil, l.broken(l.line+1, err)
		}
	}
}

// maxText is how much of a line an error shows, in bytes.
const maxText = 200

var errLong = &lineError{problem: "the line is longer than 1 MiB"}

// readLine reads a line without its end. It fails with a lineError if the line is too long.
func (l *Reader) readLine() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.line++
	if l.isCut = err != nil; !l.isCut {
		return withoutEnd(line), nil
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		start := bytes.Clone(line[:maxText])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, l.broken(l.line, err)
		}
		return start, errLong
	case !errors.Is(err, io.EOF):
		return nil, l.broken(l.line, err)
	case len(line) == 0:
		return nil, io.EOF
	}
	return withoutEnd(line), nil
}

// withoutEnd is a line without its line break.
func withoutEnd(line []byte) []byte {
	for _, c := range [...]byte{'\n', '\r'} {
		if last := len(line) - 1; last >= 0 && line[last] == c {
			line = line[:last]
		}
	}
	return line
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
		l.record = append(append(l.record, '\n'), withoutEnd(next)...)
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
