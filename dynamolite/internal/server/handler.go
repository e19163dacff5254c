// Package server offers a database over HTTP, in the protocol AWS JSON 1.0.
//
// Invariants: a request that can be refused by its header has no body read. The bytes of the bodies
// and answers in memory never exceed a budget, whatever clients send or ask for.
package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/sigv4"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// Handler answers the requests of clients. It refuses what it can before it reads a body: a foreign
// host or origin, a missing signature, an unknown access key, an unknown operation.
//
// What it refuses by the header costs no memory for a body.
//
// All fields but the budgets and the pool are fixed. It is safe for concurrent use.
type Handler struct {
	backend  Backend
	verifier *sigv4.Verifier // nil if signatures are not verified
	hosts    hosts           // that a request may name if signatures are not verified
	logger   *slog.Logger
	maxBody  int64
	flight   budget
	// unproven is the part of flight for connections that have not proven a key. It is a 32nd, so
	// strangers cannot use up the budget of those with a key.
	unproven    budget
	connections int
	now         func() time.Time
	exchanges   sync.Pool // of *exchange
}

const (
	defaultMaxBodyBytes     = 16 << 20
	defaultMaxInFlightBytes = 64 << 20 // four of the largest requests
	defaultMaxConnections   = 1024
	unprovenPart            = 32 // of the bytes in flight
	ledgerPath              = "/_dynamolite/ledger"
	signedService           = "dynamodb" // streams use the same name
)

// Options configures a [Handler]. The zero value of a field means its default.
type Options struct {
	Credentials      map[string]string // nil: signatures are not verified
	Region           string
	Hosts            []string
	Logger           *slog.Logger
	MaxBodyBytes     int64
	MaxInFlightBytes int64
	MaxConnections   int
	Now              func() time.Time
}

// Backend is what a [Handler] serves.
type Backend struct {
	Routes map[string]Route // by X-Amz-Target
	// Ledger returns the bill as JSON.
	Ledger func() ([]byte, error)
	// Unhealthy returns the reason for which the database does not work, or "". Anyone may ask, so
	// the reason does not name files.
	Unhealthy func() string
}

// Route decodes the input of an operation, executes it, and writes its output. Host is the host that
// the request was sent to.
type Route func(ctx context.Context, host string, body []byte, e *wire.Encoder) error

// New returns a handler for a backend. One request of the largest size must fit, so the budget is
// at least that size.
func New(b Backend, o Options) *Handler {
	h := &Handler{backend: b, hosts: newHosts(o.Hosts), logger: o.Logger, maxBody: o.MaxBodyBytes, connections: o.MaxConnections, now: o.Now}
	if o.Credentials != nil {
		h.verifier = &sigv4.Verifier{Credentials: maps.Clone(o.Credentials), Service: signedService, Region: o.Region}
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	if h.maxBody <= 0 {
		h.maxBody = defaultMaxBodyBytes
	}
	h.flight.most = o.MaxInFlightBytes
	if h.flight.most <= 0 {
		h.flight.most = defaultMaxInFlightBytes
	}
	h.flight.most = max(h.flight.most, h.maxBody)
	h.unproven.most = h.flight.most / unprovenPart
	if h.connections <= 0 {
		h.connections = defaultMaxConnections
	}
	if h.now == nil {
		h.now = time.Now //nolint:forbidigo // the default clock
	}
	h.exchanges.New = func() any { return &exchange{flight: &h.flight, unproven: &h.unproven} }
	return h
}

// ServeHTTP answers one request.
//
// The answer is sent after the operation, in any case: an error is an answer, too. Release comes
// after the sending, because the answer is in memory until then.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, _ := h.exchanges.Get().(*exchange)
	defer func() {
		x.release()
		h.exchanges.Put(x)
	}()
	x.reset()
	if err := h.answer(r.Context(), x, r); err != nil {
		x.fail(err)
	}
	x.send(w)
}

// answer executes a request and leaves the response in x. A panic is a defect of the engine. It is
// logged and answered, so that the client gets an error in AWS's form.
func (h *Handler) answer(ctx context.Context, x *exchange, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.logger.ErrorContext(ctx, "request panicked", "target", r.Header.Get(targetHeader), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			x.reset()
			err = errInternal
		}
	}()
	if h.verifier == nil { // otherwise a page would need the secret
		if err := h.hosts.check(r); err != nil {
			return err
		}
	}
	switch get := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case get && r.URL.Path == ledgerPath:
		if h.verifier != nil {
			if err := h.readVerified(x, r); err != nil {
				return err
			}
		}
		x.contentType = []string{plainJSON}
		x.out, err = h.backend.Ledger()
		return err
	case get && r.URL.Path == "/":
		x.health(r.Host, h.backend.Unhealthy())
		return nil
	case r.Method != http.MethodPost:
		return errNoSuchPage
	}
	return h.operate(ctx, x, r)
}

// The services of X-Amz-Target.
const (
	TablesTarget  = "DynamoDB_20120810."
	StreamsTarget = "DynamoDBStreams_20120810."
)

const targetHeader = "X-Amz-Target"

// operate executes an operation. The order is that of the cost: what the header says, the body and
// its signature, the room for decoding it.
//
// Without keys, a signature must still have AWS's form. A client that forgets to sign would
// otherwise find out on AWS only.
func (h *Handler) operate(ctx context.Context, x *exchange, r *http.Request) error {
	if err := sigv4.Signed(r); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if kind = strings.TrimSpace(kind); kind != amzJSON && kind != plainJSON {
		return errNoSuchPage
	}
	do, ok := h.backend.Routes[r.Header.Get(targetHeader)]
	if !ok {
		return errUnknownOperation
	}
	if h.verifier == nil {
		if err := x.receive(r, h.maxBody); err != nil {
			return err
		}
	} else if err := h.readVerified(x, r); err != nil {
		return err
	}
	if err := x.admit(); err != nil {
		return err
	}
	return do(api.WithRoom(ctx, x), r.Host, x.in, &x.encoder)
}

// readVerified reads the body of a request and verifies its signature. It does not read the body
// if the signature names no known access key, or cannot be right for another reason.
//
// The signature covers the body, so a client that knows only the access key has its body read.
// Little of it is kept: once a body outgrows the budget of unproven connections, the rest is only
// hashed. If the signature is true, the connection has proven the key, and the client must send
// the request again.
//
// The naive design reads the body before it looks at the key. Bodies of 16 MiB on 60 connections
// then made the heap grow by 2.35 GB.
func (h *Handler) readVerified(x *exchange, r *http.Request) error {
	claim, err := h.verifier.Claim(r, h.now())
	if err != nil {
		return err
	}
	conn := connectionOf(r.Context())
	x.stranger = conn != nil && !conn.proven.Load()
	sum := sha256.New()
	received := x.receive(r, h.maxBody)
	_, _ = sum.Write(x.in) // never fails
	switch {
	case received == nil:
	case x.stranger && errors.Is(received, errBusy):
		if err := x.skim(r, h.maxBody, sum); err != nil {
			return err
		}
	default:
		return received
	}
	if err := claim.Verify(sum.Sum(nil)); err != nil {
		return err
	}
	if conn != nil {
		conn.proven.Store(true)
	}
	return received
}

// The namespaces of error types. SDKs read the part after the "#".
const (
	modeled    = "com.amazonaws.dynamodb.v20120810#"
	validating = "com.amazon.coral.validate#"
	serving    = "com.amazon.coral.service#"
)

// refusal is a protocol error. It has the form of AWS's errors, so that SDKs handle it like one of
// DynamoDB.
type refusal struct {
	status        int
	kind, message string
}

// Error returns the type and the message.
func (e *refusal) Error() string { return e.kind + ": " + e.message }

var (
	errUnknownOperation = &refusal{
		http.StatusBadRequest, serving + "UnknownOperationException",
		"The operation is not known. X-Amz-Target must be " + TablesTarget + " or " + StreamsTarget + " and the name of an operation that dynamolite has.",
	}
	errNoSuchPage = &refusal{
		http.StatusNotFound, serving + "UnknownOperationException",
		"Operations are requests with the method POST and the content type " + amzJSON + ".",
	}
	errTooLarge = &refusal{
		http.StatusRequestEntityTooLarge, serving + "RequestEntityTooLargeException", "The request is larger than DynamoDB allows.",
	}
	errBusy = &refusal{
		http.StatusBadRequest, modeled + "ThrottlingException",
		"Too many large requests and answers are in flight. Send the request again later, send fewer large requests at a time, or raise MaxInFlightBytes.",
	}
	errInternal = &refusal{http.StatusInternalServerError, modeled + "InternalServerError", "The request failed; the log of dynamolite tells why."}
)

// fail turns an error into the response. What was written of an answer is dropped first.
func (x *exchange) fail(err error) {
	x.reset()
	x.status = http.StatusBadRequest
	if e, ok := errors.AsType[wire.ModeledError](err); ok {
		x.encoder.WriteModeledError(modeled+e.ErrorCode(), e)
		return
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		x.encoder.WriteError(namespace(e.ErrorCode()), e.ErrorMessage())
		return
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		x.encoder.WriteError(namespace(e.Code), e.Message)
		return
	}
	if e, ok := errors.AsType[*sigv4.Error](err); ok {
		x.encoder.WriteError(serving+e.Code, e.Message)
		return
	}
	if e, ok := errors.AsType[*refusal](err); ok {
		x.status = e.status
		x.encoder.WriteError(e.kind, e.message)
		return
	}
	// The database is closed or cannot write, or the client has gone and will not read this
	// response. The engine has no other internal errors.
	x.status = http.StatusInternalServerError
	x.encoder.WriteError(modeled+"InternalServerError", err.Error())
}

// namespace returns the namespace of an error that the API's model does not describe.
func namespace(code string) string {
	if code == wire.ValidationException {
		return validating + code
	}
	return serving + code
}
