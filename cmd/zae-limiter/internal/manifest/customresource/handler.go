package customresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// answerTime is the time before the function's deadline that is kept for recording what
// was done, and for the answer. Of a short time, it is half.
const answerTime = 20 * time.Second

// Options configure a [Handler]. API is required.
type Options struct {
	API dynamo.API
	// Table is the only table that events may name; "" is any. An event that names none
	// is about Table.
	Table string
	// Client sends the answers to CloudFormation; nil is a client that waits 10 s.
	Client *http.Client
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
	// Logger receives what cannot be answered, and the [store.UnconfiguredWarning] of each
	// limit that does not hold since a change; nil discards it. It never gets the
	// address of an answer, which is a secret.
	Logger *slog.Logger
	// Principal names, in audit events, the actor of each change; see
	// [dynamo.Options.Principal].
	Principal string
}

// clientTimeout bounds one try to send an answer.
const clientTimeout = 10 * time.Second

// withDefaults validates o and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.API == nil {
		return o, &store.ValidationError{Field: "API", Value: "nil", Reason: "give a DynamoDB client"}
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: clientTimeout}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// A Handler applies manifests for events. It is safe for concurrent use.
type Handler struct{ options Options }

// New returns a handler. It sends no request.
func New(o Options) (*Handler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Handler{o}, nil
}

// Handle serves the event of a Lambda function. It answers the event of a custom resource
// at the event's ResponseURL, and a direct call by the peer's protocol with its result. An
// error of the first kind means that there was no answer, and CloudFormation waits for its
// own timeout. Every other failure is in the answer.
//
// Handle finishes before the deadline of ctx, if there is one: it stops the work, and
// answers that it is not complete.
func (h *Handler) Handle(ctx context.Context, event json.RawMessage) (any, error) {
	var kind struct {
		RequestType string
		Action      string `json:"action"`
	}
	if err := json.Unmarshal(event, &kind); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	switch {
	case kind.RequestType != "":
		return nil, h.resource(ctx, event)
	case kind.Action != "":
		return h.direct(ctx, event)
	}
	return nil, &store.ValidationError{Field: "event", Value: "", Reason: "give a RequestType, as CloudFormation does, or an action: plan or apply"}
}

// machineNow is the machine's clock, by which contexts have their deadlines.
var machineNow = time.Now //nolint:forbidigo // see above

// working bounds ctx so that there is time left to answer.
func (h *Handler) working(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := deadline.Sub(machineNow())
	return context.WithDeadline(ctx, deadline.Add(-min(answerTime, left/2)))
}

// open opens the namespace of an event, by its name or by its ID.
func (h *Handler) open(ctx context.Context, table, namespace, id string) (*dynamo.Store, error) {
	if table == "" {
		table = h.options.Table
	}
	if h.options.Table != "" && table != h.options.Table {
		return nil, &store.ValidationError{Field: "TableName", Value: table, Reason: fmt.Sprintf("this function serves the table %q only", h.options.Table)}
	}
	o := dynamo.Options{
		API: h.options.API, Table: table, Namespace: namespace,
		Now: h.options.Now, Logger: h.options.Logger, Principal: h.options.Principal,
	}
	switch {
	case id != "":
		o.Namespace = "" // the ID leads to the name
		return dynamo.OpenID(ctx, o, id)
	case namespace == "":
		return nil, &store.ValidationError{Field: "Namespace", Value: "", Reason: "give the name of the namespace, or its NamespaceId"}
	}
	return dynamo.Open(ctx, o)
}

// warn logs limits that do not hold since an apply, because CloudFormation shows no
// warnings.
func (h *Handler) warn(ctx context.Context, r *manifest.Result) {
	const most = 10
	for _, w := range r.Unconfigured[:min(len(r.Unconfigured), most)] {
		h.options.Logger.WarnContext(ctx, "limits do not hold: declare them at the level that holds if they are to hold", "warning", w)
	}
	if more := len(r.Unconfigured) - most; more > 0 {
		h.options.Logger.WarnContext(ctx, "limits of more levels do not hold: a plan shows all", "levels", more)
	}
}

// failed joins the failures of a result into one error.
func failed(r *manifest.Result) error {
	failures := r.Failures()
	if len(failures) == 0 {
		return nil
	}
	errs := make([]error, 0, len(failures)+1)
	errs = append(errs, fmt.Errorf("%d of %d levels failed", len(failures), len(r.Outcomes)))
	for i := range failures {
		errs = append(errs, reason(&failures[i]))
	}
	return errors.Join(errs...)
}

// reason is why a level failed. A conflict does not name its level.
func reason(o *manifest.Outcome) error {
	if o.Action != manifest.Conflict {
		return o.Err
	}
	level, target := o.Level()
	return fmt.Errorf("%s: %w", strings.TrimSpace(level+" "+target), o.Err)
}
