package dynamolite

import (
	"cmp"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// exchange is a request's body and its answer. Later requests reuse it.
type exchange struct {
	in          []byte
	encoder     wire.Encoder
	out         []byte // the answer, if it is not in the encoder
	status      int
	contentType []string
}

const (
	amzJSON   = "application/x-amz-json-1.0"
	plainJSON = "application/json"
	plainText = "text/plain; charset=utf-8"
)

// Header values in the form that net/http holds them, shared by all answers.
var amzJSONHeader = []string{amzJSON}

// keptBytes is the largest body whose buffer is kept for the next request.
const keptBytes = 64 << 10

// release drops buffers that are not worth keeping for the next request.
func (x *exchange) release() {
	x.reset()
	if cap(x.in) > keptBytes {
		x.in = nil
	}
}

// reset drops the answer. The body stays.
func (x *exchange) reset() {
	x.encoder.Reset()
	x.out = nil
	x.status = http.StatusOK
	x.contentType = amzJSONHeader
}

// read reads the body of a request to its end, unless it is too large.
func (x *exchange) read(r *http.Request, limit int64) error {
	x.in = x.in[:0]
	if r.ContentLength > limit {
		return errTooLarge
	}
	for {
		if len(x.in) == cap(x.in) {
			x.in = slices.Grow(x.in, max(len(x.in), 4<<10)) // not to Content-Length: a false one costs the client nothing
		}
		n, err := r.Body.Read(x.in[len(x.in):cap(x.in)])
		x.in = x.in[:len(x.in)+n]
		switch {
		case int64(len(x.in)) > limit:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &wire.Error{Code: wire.SerializationException, Message: "The body cannot be read: " + err.Error()}
		}
	}
}

// send writes the answer in one piece, with its length, so that the connection stays usable.
func (x *exchange) send(w http.ResponseWriter) {
	body := x.out
	if body == nil {
		body = x.encoder.Bytes()
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

// requestID returns 52 characters that are never reused.
func requestID() string {
	var random [32]byte
	for i := 0; i < len(random); i += 8 {
		binary.LittleEndian.PutUint64(random[i:], rand.Uint64())
	}
	return idEncoding.EncodeToString(random[:])
}

// healthy writes DynamoDB's answer to a GET.
func (x *exchange) healthy(host string) {
	x.contentType = []string{plainText}
	x.out = []byte("healthy: " + host + "\n")
}

// ledgerRow is a row of the ledger as JSON.
type ledgerRow struct {
	Table     string `json:"table"`
	Index     string `json:"index"`
	Operation string `json:"operation"`
	ledgerSum
}

type ledgerSum struct {
	Requests   int64   `json:"requests"`
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
}

// ledger makes the bill the answer.
func (x *exchange) ledger(l Ledger) error {
	sum := func(u Usage) ledgerSum { return ledgerSum(u) }
	rows := make([]ledgerRow, 0, len(l))
	for key, u := range l {
		rows = append(rows, ledgerRow{key.Table, key.Index, key.Operation, sum(u)})
	}
	slices.SortFunc(rows, func(a, b ledgerRow) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Operation, b.Operation))
	})
	var err error
	x.contentType = []string{plainJSON}
	x.out, err = json.Marshal(struct {
		Rows  []ledgerRow `json:"rows"`
		Total ledgerSum   `json:"total"`
	}{rows, sum(l.Total())})
	return err
}
