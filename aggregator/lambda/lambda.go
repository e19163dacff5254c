// Package lambda is an aggregator as a function of AWS Lambda. Lambda calls it with the
// records of a table's stream.
//
// Its event source mapping needs FunctionResponseTypes ReportBatchItemFailures. The
// function's answer names the failed records, and Lambda delivers everything from the first
// of them again. Doing their work again has no further effect.
//
// The answer also names records that cannot be read, so that they reach the mapping's
// destination for failures. Give the mapping such a destination and a MaximumRetryAttempts.
// Without the latter, Lambda delivers an unreadable record for as long as the stream keeps
// it, and nothing that comes after it in its shard.
package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// DefaultNamespace is the default of Options.Namespace.
const DefaultNamespace = "ZaeLimiter/Aggregator"

// Options configure a [Handler]. The zero value works.
type Options struct {
	// Table is the dimension of the metrics.
	Table string
	// Metrics receives a line for each batch, and one for each minute of traffic, in
	// CloudWatch's embedded metric format; nil writes none. CloudWatch receives what a function
	// writes to standard output.
	Metrics io.Writer
	// Namespace is the CloudWatch namespace of the metrics; "" is [DefaultNamespace].
	Namespace string
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	if o.Metrics == nil {
		o.Metrics = io.Discard
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	return o
}

// A Handler handles events. It is safe for concurrent use.
type Handler struct {
	aggregator *aggregator.Aggregator
	o          Options

	mu   sync.Mutex // guards lines of metrics
	told time.Time  // the end of the last minute whose traffic was written
}

// New makes a handler that passes records to an aggregator.
func New(a *aggregator.Aggregator, o Options) *Handler {
	return &Handler{aggregator: a, o: o.withDefaults()}
}

// Handle processes the records of an event, and names those that failed. It returns an
// error only if it cannot write the metrics.
func (h *Handler) Handle(ctx context.Context, e events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
	out := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	page := make([]streamtypes.Record, len(e.Records))
	for i := range e.Records {
		page[i] = record(&e.Records[i])
	}
	// The failures include the work that the end of the context prevented.
	res, _ := h.aggregator.Process(ctx, stream.Decode(page))
	for _, f := range slices.Concat(res.Failed, res.Poisoned) {
		out.BatchItemFailures = append(out.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: f.Sequence})
	}
	return out, errors.Join(h.measure(&res), h.measureTraffic())
}

// record converts a record to the types of the streams' API.
func record(r *events.DynamoDBEventRecord) streamtypes.Record {
	out := streamtypes.Record{
		EventID: &r.EventID, EventName: streamtypes.OperationType(r.EventName),
		Dynamodb: &streamtypes.StreamRecord{
			ApproximateCreationDateTime: &r.Change.ApproximateCreationDateTime.Time, SequenceNumber: &r.Change.SequenceNumber,
			Keys: image(r.Change.Keys), OldImage: image(r.Change.OldImage), NewImage: image(r.Change.NewImage),
		},
	}
	if r.UserIdentity != nil {
		out.UserIdentity = &streamtypes.Identity{PrincipalId: &r.UserIdentity.PrincipalID, Type: &r.UserIdentity.Type}
	}
	return out
}

func image(item map[string]events.DynamoDBAttributeValue) map[string]streamtypes.AttributeValue {
	if item == nil {
		return nil
	}
	out := make(map[string]streamtypes.AttributeValue, len(item))
	for name, v := range item {
		out[name] = value(v)
	}
	return out
}

func value(v events.DynamoDBAttributeValue) streamtypes.AttributeValue {
	switch v.DataType() {
	case events.DataTypeString:
		return &streamtypes.AttributeValueMemberS{Value: v.String()}
	case events.DataTypeNumber:
		return &streamtypes.AttributeValueMemberN{Value: v.Number()}
	case events.DataTypeBoolean:
		return &streamtypes.AttributeValueMemberBOOL{Value: v.Boolean()}
	case events.DataTypeBinary:
		return &streamtypes.AttributeValueMemberB{Value: v.Binary()}
	case events.DataTypeStringSet:
		return &streamtypes.AttributeValueMemberSS{Value: v.StringSet()}
	case events.DataTypeNumberSet:
		return &streamtypes.AttributeValueMemberNS{Value: v.NumberSet()}
	case events.DataTypeBinarySet:
		return &streamtypes.AttributeValueMemberBS{Value: v.BinarySet()}
	case events.DataTypeMap:
		return &streamtypes.AttributeValueMemberM{Value: image(v.Map())}
	case events.DataTypeList:
		list := make([]streamtypes.AttributeValue, 0, len(v.List()))
		for _, e := range v.List() {
			list = append(list, value(e))
		}
		return &streamtypes.AttributeValueMemberL{Value: list}
	case events.DataTypeNull:
	}
	return &streamtypes.AttributeValueMemberNULL{Value: true}
}

// A metric is a metric's declaration; each line declares what it carries.
type metric struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

// directive is the part of a line that CloudWatch interprets.
type directive struct {
	Namespace  string     `json:"Namespace"`
	Dimensions [][]string `json:"Dimensions"`
	Metrics    []metric   `json:"Metrics"`
}

// metrics are the metrics in a line, in the order of its fields.
var metrics = []metric{
	{"BatchSize", "Count"},
	{"Lag", "Milliseconds"},
	{"Pages", "Count"},
	{"Refills", "Count"},
	{"Doublings", "Count"},
	{"Mends", "Count"},
	{"Merges", "Count"},
	{"ArchivedEvents", "Count"},
	{"ArchivedBytes", "Bytes"},
	{"Errors", "Count"},
	{"FailedRecords", "Count"},
	{"PoisonedRecords", "Count"},
}

// A header begins a line in the embedded metric format.
type header struct {
	AWS struct {
		Timestamp  int64       `json:"Timestamp"` // milliseconds
		Directives []directive `json:"CloudWatchMetrics"`
	} `json:"_aws"`
	Table string `json:"Table"`
}

// header is that of a line whose metrics have the table as their only dimension.
func (h *Handler) header(at time.Time, metrics []metric) (head header) {
	head.AWS.Timestamp = at.UnixMilli()
	head.AWS.Directives = []directive{{Namespace: h.o.Namespace, Dimensions: [][]string{{"Table"}}, Metrics: metrics}}
	head.Table = h.o.Table
	return head
}

// A line is the result of one batch.
type line struct {
	header
	BatchSize int   `json:"BatchSize"`
	Lag       int64 `json:"Lag"`
	Pages     int   `json:"Pages"`
	Refills   int   `json:"Refills"`
	Doublings int   `json:"Doublings"`
	Mends     int   `json:"Mends"`
	Merges    int   `json:"Merges"`
	Archived  int   `json:"ArchivedEvents"`
	Bytes     int   `json:"ArchivedBytes"`
	Errors    int   `json:"Errors"`
	Failed    int   `json:"FailedRecords"`
	Poisoned  int   `json:"PoisonedRecords"`
}

func (h *Handler) measure(r *aggregator.Result) error {
	return h.write(&line{
		header: h.header(h.o.Now(), metrics), BatchSize: r.Records, Lag: r.Lag.Milliseconds(), Pages: r.Pages, Refills: r.Refills,
		Doublings: r.Doublings, Mends: r.Mends, Merges: r.Merges, Archived: r.Archived, Bytes: r.ArchivedBytes, Errors: r.Errors, Failed: len(r.Failed), Poisoned: len(r.Poisoned),
	})
}

// write writes a line.
func (h *Handler) write(line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		_, err = h.o.Metrics.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}
