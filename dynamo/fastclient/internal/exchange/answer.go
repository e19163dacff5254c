package exchange

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
)

const (
	// maxHeader is the largest header of an answer. DynamoDB's have 300 bytes.
	maxHeader = 64 << 10
	// maxBody is the largest body that is read in one piece; DynamoDB's have 16 MB at most.
	maxBody = 17 << 20
	// keptBytes is the largest memory for answers that a connection keeps.
	keptBytes = 64 << 10
)

var errLongHeader = errors.New("the header of the answer is too long")

// An Answer is an answer that was read to its end and agrees with its checksum. Its
// bytes are valid until it is released.
//
// The answers of DynamoDB have a status line, headers and as many bytes as
// Content-Length says. Answers of this form are plain and are read here. Every other
// form is read by package http, from the first byte, and so means what it says there:
// chunks, interim answers, HTTP/1.0, a connection that ends, malformed lines.
type Answer struct {
	Status int
	Date   []byte // the header
	Body   []byte

	in       []byte // what was read; a plain answer begins with it
	begin    int    // where the body begins
	length   int    // of the body; -1 until the header says it
	sum      []byte // the header X-Amz-Crc32
	odd      *http.Response
	reusable bool   // the connection is ready for the next exchange
	release  func() // gives the connection back
	goOn     func(context.Context) error
}

// Release ends the use of the answer's bytes and gives the connection back.
func (a *Answer) Release() {
	if cap(a.in) > keptBytes {
		a.in = nil
	}
	a.odd = nil
	a.release()
}

// IsPlain reports whether the answer has the usual form, and no header that says what kind
// of error it is.
func (a *Answer) IsPlain() bool { return a.odd == nil }

// GoOn goes on to read an answer, after [calls.ErrGoesOn].
func (a *Answer) GoOn(ctx context.Context) error { return a.goOn(ctx) }

// HTTP returns the answer as the SDK takes it. It remains valid after [Answer.Release].
func (a *Answer) HTTP() (*http.Response, error) {
	if a.odd != nil {
		answer := *a.odd
		answer.Body = io.NopCloser(bytes.NewReader(a.Body))
		return &answer, nil
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(slices.Clone(a.in[:a.begin+a.length]))), nil)
	if err != nil {
		return nil, err
	}
	_, err = readAll(answer)
	return answer, err
}

// read reads the answer from a connection, after what was read of it already.
func (a *Answer) read(from io.Reader) error {
	*a = Answer{in: a.in, length: -1, release: a.release, goOn: a.goOn}
	plain, err := a.readHead(from)
	for end := a.begin + a.length; plain && err == nil && len(a.in) < end; {
		err = a.more(from, end-len(a.in))
	}
	switch {
	case err != nil:
		return a.readOdd(&broken{err})
	case !plain:
		return a.readOdd(from)
	}
	end := a.begin + a.length
	a.Body, a.reusable = a.in[a.begin:end], len(a.in) == end
	return verify(string(a.sum), a.Body)
}

// more reads at least one byte, and makes room for as many as are missing.
func (a *Answer) more(from io.Reader, missing int) error {
	const least = 4096 // most answers come in one read
	a.in = slices.Grow(a.in, max(missing, least))
	n, err := from.Read(a.in[len(a.in):cap(a.in)])
	a.in = a.in[:len(a.in)+n]
	if n > 0 {
		return nil // the next read fails again
	}
	return err
}

// readHead reads up to the body, or as far as is needed to see that the answer is not
// plain.
func (a *Answer) readHead(from io.Reader) (plain bool, err error) {
	for at := 0; ; {
		length := bytes.IndexByte(a.in[at:], '\n')
		if length < 0 {
			if len(a.in) >= maxHeader || !mayBePlain(a.in) {
				return false, nil
			}
			if err := a.more(from, 0); err != nil {
				return false, err
			}
			continue
		}
		line, ended := bytes.CutSuffix(a.in[at:at+length], []byte{'\r'})
		first := at == 0
		at += length + 1
		switch {
		case !ended:
			return false, nil
		case first:
			plain = a.statusLine(line)
		case len(line) == 0:
			a.begin = at
			return a.length >= 0 && at <= maxHeader, nil
		default:
			plain = a.headerLine(line)
		}
		if !plain {
			return false, nil
		}
	}
}

const protocol = "HTTP/1.1 "

func mayBePlain(in []byte) bool {
	n := min(len(in), len(protocol))
	return string(in[:n]) == protocol[:n]
}

// statusLine reads the line. Statuses below 200 and those without a body are not plain.
func (a *Answer) statusLine(line []byte) (plain bool) {
	const digits = 3
	rest, ok := bytes.CutPrefix(line, []byte(protocol))
	if !ok || len(rest) < digits || len(rest) > digits && rest[digits] != ' ' {
		return false
	}
	a.Status = number(rest[:digits])
	return a.Status >= http.StatusOK && a.Status != http.StatusNoContent && a.Status != http.StatusNotModified
}

// headerLine reads a header. Headers that change what follows are not plain.
func (a *Answer) headerLine(line []byte) (plain bool) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || len(name) == 0 || bytes.ContainsFunc(name, isOdd) {
		return false
	}
	value = bytes.Trim(value, " \t")
	switch is := func(text string) bool { return len(name) == len(text) && bytes.EqualFold(name, []byte(text)) }; {
	case is("Content-Length"):
		again := a.length >= 0
		a.length = number(value)
		return !again && a.length >= 0 && a.length <= maxBody
	case is("Connection"):
		return bytes.EqualFold(value, []byte("keep-alive"))
	case is("Date") && a.Date == nil:
		a.Date = value
	case is("X-Amz-Crc32") && a.sum == nil:
		a.sum = value
	case is("Transfer-Encoding"), is("Content-Encoding"), is("Age"), is("Trailer"), is("Upgrade"), is("X-Amzn-Errortype"):
		return false
	}
	return true
}

// isOdd reports whether names of headers do not usually have a character.
func isOdd(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// number reads up to nine digits; -1 is no number.
func number(text []byte) (n int) {
	const most = 9
	if len(text) == 0 || len(text) > most {
		return -1
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// readOdd reads an answer with package http: first what was read already, then the rest.
func (a *Answer) readOdd(rest io.Reader) error {
	before := bytes.NewReader(a.in)
	all := &limited{io.MultiReader(before, &noted{rest, a}), maxHeader}
	in := bufio.NewReader(all)
	var answer *http.Response
	for answer == nil || answer.StatusCode < http.StatusOK { // no request here can end with a 1xx
		var err error
		if answer, err = http.ReadResponse(in, nil); err != nil { //nolint:bodyclose // readAll closes it
			return err
		}
	}
	all.left = math.MaxInt64
	body, err := readAll(answer)
	if err != nil {
		return err
	}
	a.odd, a.Status, a.Body, a.Date = answer, answer.StatusCode, body, nil
	if answer.Header.Get("Age") == "" {
		a.Date = []byte(answer.Header.Get("Date"))
	}
	a.reusable = !answer.Close && in.Buffered() == 0 && before.Len() == 0
	return nil
}

// readAll reads the body of an answer, verifies it, and replaces it by what it has read.
func readAll(answer *http.Response) ([]byte, error) {
	data, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(data))
	return data, verify(answer.Header.Get("X-Amz-Crc32"), data)
}

// verify compares an answer with its checksum. AWS sends one with every answer, other
// endpoints do not.
func verify(text string, data []byte) error {
	if text == "" {
		return nil
	}
	sum := crc32.ChecksumIEEE(data)
	var digits [10]byte // the largest 32-bit number
	if text == string(strconv.AppendUint(digits[:0], uint64(sum), 10)) {
		return nil
	}
	return fmt.Errorf("the answer was damaged on its way: its checksum is %d, want %s", sum, text)
}

// A noted reader adds what it reads to what was read of an answer. So the reading can begin
// again, after it was interrupted.
type noted struct {
	io.Reader
	answer *Answer
}

// Read reads.
func (r *noted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.answer.in = append(r.answer.in, p[:n]...)
	return n, err
}

// A limited reader fails after a number of bytes.
type limited struct {
	io.Reader
	left int64
}

// Read reads at most the bytes that are left.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLongHeader
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// A broken reader fails as a connection did.
type broken struct{ err error }

// Read fails.
func (b *broken) Read([]byte) (int, error) { return 0, b.err }
