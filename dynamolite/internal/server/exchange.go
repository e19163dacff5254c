package server

import (
	"bytes"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// exchange is a request's body and its answer. Later requests reuse it.
//
// One goroutine owns it, from ServeHTTP's beginning to its end. After release it holds at most 64
// KiB for a body, and it is in no budget.
type exchange struct {
	in          []byte
	encoder     wire.Encoder
	out         []byte // the answer, if it is not in the encoder
	status      int
	contentType []string

	flight *budget
	// held is what flight counts of the body and the answer, in bytes. Every path ends in release,
	// which gives it back.
	held int64
	// read is the sum of the items and stream records that were read for the answer. It is what the
	// answer will about hold.
	read int64

	stranger bool // the connection has not proven a key
	unproven *budget
	// lent is what unproven counts of the body, in bytes.
	lent int64
}

const (
	amzJSON   = "application/x-amz-json-1.0"
	plainJSON = "application/json"
	plainText = "text/plain; charset=utf-8"
)

// Header values in the form that net/http holds them, shared by all answers.
var amzJSONHeader = []string{amzJSON}

// keptBytes is the largest body whose buffer is kept for the next request. The budget of bytes in
// flight does not count so much of a body or an answer. Small requests are nearly all of the load.
// They take nothing from the budget.
const keptBytes = 64 << 10

// firstBytes is the first room for a body. The budget of unproven connections does not count it.
// Requests about small items fit into it.
const firstBytes = 4 << 10

// release drops buffers that are not worth keeping for the next request.
func (x *exchange) release() {
	x.reset()
	if cap(x.in) > keptBytes {
		x.in = nil
	}
	x.flight.give(x.held)
	x.unproven.give(x.lent)
	x.held, x.read, x.lent, x.stranger = 0, 0, 0, false
}

// reset drops the answer. The body stays.
func (x *exchange) reset() {
	x.encoder.Reset()
	x.out = nil
	x.status = http.StatusOK
	x.contentType = amzJSONHeader
}

// receive reads the body of a request to its end, unless it is too large or too much is in flight.
// A full budget refuses at once, before a byte is read. The naive design reads all and then
// refuses, and the memory is used by then.
func (x *exchange) receive(r *http.Request, limit int64) error {
	x.in = x.in[:0]
	if r.ContentLength > limit {
		return errTooLarge
	}
	if x.flight.full() {
		return errBusy
	}
	for {
		if len(x.in) == cap(x.in) {
			if err := x.grow(limit); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(x.in[len(x.in):cap(x.in)])
		x.in = x.in[:len(x.in)+n]
		switch {
		case int64(len(x.in)) > limit:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(err)
		}
	}
}

// grow doubles the room for a body, up to one byte more than the limit. It does not trust
// Content-Length: a false one costs the client nothing. Doubling means that a body is counted while
// it comes in. The last byte may be missing for a minute, and what has come takes memory all the
// while.
//
// Both budgets are asked before the memory is made.
func (x *exchange) grow(limit int64) error {
	room := int(min(max(2*int64(cap(x.in)), firstBytes), max(limit+1, firstBytes)))
	if more := int64(room - max(cap(x.in), firstBytes)); x.stranger && more > 0 {
		if !x.unproven.take(more) {
			return errBusy
		}
		x.lent += more
	}
	if more := int64(room - max(cap(x.in), keptBytes)); more > 0 {
		if !x.flight.take(more) {
			return errBusy
		}
		x.held += more
	}
	grown := make([]byte, len(x.in), room)
	copy(grown, x.in)
	x.in = grown
	return nil
}

// skim reads the rest of a body into a hash, and keeps nothing of it. Its memory is what the body
// has so far, whatever the client sends.
func (x *exchange) skim(r *http.Request, limit int64, sum io.Writer) error {
	rest := limit - int64(len(x.in))
	if cap(x.in) == 0 {
		x.in = make([]byte, 0, firstBytes)
	}
	n, err := io.CopyBuffer(sum, io.LimitReader(r.Body, rest+1), x.in[:cap(x.in)])
	switch {
	case err != nil:
		return unreadable(err)
	case n > rest:
		return errTooLarge
	}
	return nil
}

func unreadable(err error) error {
	return &wire.Error{Code: wire.SerializationException, Message: "The body cannot be read: " + err.Error()}
}

// Memory that a value takes beside its text, once a body is decoded. An empty map takes most.
//
// The naive design counts the body as it came. Four bodies of 16 MiB with empty maps then took 1.7
// GB.
const (
	bytesOfValue  = 128 // after "{"
	bytesOfMember = 64  // before or after ","
)

// admit decides whether a body may be decoded and the operation executed. A body of many small
// values takes some twenty times its size then. It counts as the whole budget at most, so that it
// is admitted alone.
//
// The client decides when a body ends. Other requests may therefore have used up the budget since
// receive found room.
func (x *exchange) admit() error {
	if x.held == 0 && x.flight.full() {
		return errBusy
	}
	decoded := int64(bytes.Count(x.in, []byte("{"))*bytesOfValue + bytes.Count(x.in, []byte(","))*bytesOfMember)
	more := min(decoded-keptBytes, x.flight.most-x.held)
	if more <= 0 {
		return nil
	}
	if !x.flight.take(more) {
		return errBusy
	}
	x.held += more
	return nil
}

// Hold counts an item or a stream record that the answer will hold. The naive design counts an
// answer when it is sent. A client could send many requests without their last byte, and end them
// together:
//
//	1,000 requests   wait for the last byte ··· all read 16 MB each ··· counted: too late
func (x *exchange) Hold(n int) error {
	counted := max(x.read, keptBytes)
	if more := x.read + int64(n) - counted; more > 0 {
		if !x.flight.take(more) {
			return errBusy
		}
		x.held += more
	}
	x.read += int64(n)
	return nil
}

// send writes the answer in one piece, with its length, so that the connection stays usable. The
// SDK for Go verifies the CRC-32 of an answer.
func (x *exchange) send(w http.ResponseWriter) {
	body := x.out
	if body == nil {
		body = x.encoder.Bytes()
	}
	if more := int64(len(body)) - max(x.read, keptBytes); more > 0 {
		// The operation is done, so its answer is sent even if it exceeds the budget.
		x.flight.charge(more)
		x.held += more
	}
	// One array holds the values. The keys are canonical; SDKs read headers regardless of case.
	values := &[...]string{requestID(), strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10), strconv.Itoa(len(body))}
	header := w.Header()
	header["Content-Type"] = x.contentType
	header["X-Amzn-Requestid"] = values[0:1:1]
	header["X-Amz-Crc32"] = values[1:2:2]
	header["Content-Length"] = values[2:3:3]
	w.WriteHeader(x.status)
	_, _ = w.Write(body) // fails if the client has gone
}

var idEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// requestID returns 52 characters that are never reused. It has the form of AWS's. It is no secret,
// so a fast generator is enough.
func requestID() string {
	var random [32]byte
	for i := 0; i < len(random); i += 8 {
		binary.LittleEndian.PutUint64(random[i:], rand.Uint64())
	}
	return idEncoding.EncodeToString(random[:])
}

// health writes the answer to a GET: DynamoDB's, unless the database does not work.
func (x *exchange) health(host, unhealthy string) {
	x.contentType = []string{plainText}
	if unhealthy == "" {
		x.out = []byte("healthy: " + host + "\n")
		return
	}
	x.status = http.StatusServiceUnavailable
	x.out = []byte("unhealthy: " + host + ": " + unhealthy + "\n")
}
