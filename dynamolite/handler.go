package dynamolite

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/smithy-go"
	"github.com/go-json-experiment/json"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/server"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// HandlerOptions configures a [Handler]. The zero value works.
type HandlerOptions struct {
	// Credentials maps access key IDs to the secret access keys of the clients that may send
	// requests. If nil, the handler does not verify signatures. It still refuses a request
	// without a signature, as DynamoDB does, so that a client without credentials fails here as
	// it would fail there. It also refuses requests that a web page of another site may have
	// caused: see Hosts. An empty map refuses every request.
	Credentials map[string]string
	// Region is the only region that signatures may name. Default: any.
	Region string
	// Hosts are further names or addresses, without a port, by which clients may address a
	// handler without Credentials. Such a handler would serve any page that a browser of
	// this machine takes for its origin. It therefore answers only requests whose Host is
	// a loopback address, localhost, a name that ends in .localhost, or one of Hosts. An
	// Origin must be one of these, too. Default: none. With Credentials, any host is
	// served.
	Hosts []string
	// Logger receives panics, the only events of requests that the client is not told about, and
	// connections that Serve refuses. Default: discard.
	Logger *slog.Logger
	// MaxBodyBytes is the largest request body that is accepted. Default: 16 MiB, as DynamoDB.
	MaxBodyBytes int64
	// MaxInFlightBytes limits the memory for all bodies and answers at a time. Only those above
	// 64 KiB count: the number of connections limits the others. An answer counts from when its
	// items are read, and a body of many small values counts what it takes decoded. Beyond the
	// limit the handler refuses requests with a ThrottlingException, which SDKs send again later;
	// BatchGetItem returns UnprocessedKeys. A value below MaxBodyBytes means MaxBodyBytes. With
	// Credentials, connections of [Handler.Serve] that have not yet brought a true signature get a
	// 32nd of it for their bodies, beyond 4 KiB each. A body that does not fit is read for its
	// signature alone, and the client must send the request again. Default: 64 MiB.
	MaxInFlightBytes int64
	// MaxConnections limits the connections that [Handler.Serve] keeps open. Beyond the limit it
	// closes the connection that has been idle for longest. If none is idle, it closes the new
	// one. Default: 1,024.
	MaxConnections int
	// Now returns the time that signatures are compared with. Default: time.Now.
	Now func() time.Time
}

// Handler offers a [DB] over HTTP to any client of DynamoDB and of DynamoDB Streams, in the
// protocol AWS JSON 1.0. Make one with [NewHandler]. It is safe for concurrent use.
//
// Beside the operations, it answers these requests:
//
//   - GET / reports whether the database works, in the words of DynamoDB: 200 and "healthy", or
//     503, "unhealthy" and the reason. It needs no signature.
//   - GET /_dynamolite/ledger returns the database's [Ledger] as JSON. The object has rows,
//     sorted by table, index ("" for the table itself) and operation, each with its requests,
//     read_units and write_units; and it has their total. With Credentials this request must be
//     signed too, for the service dynamodb, as in curl --aws-sigv4 aws:amz:us-east-1:dynamodb
//     --user ID:SECRET. Without Credentials it needs no Authorization.
//
// The handler refuses these before it reads a body: a foreign host or origin, a missing signature,
// an unknown access key, an unknown operation. An operation that the DB does not have fails with
// an UnknownOperationException. The handler logs a panic in an operation and answers it with an
// InternalServerError. A closed database gives the same answer.
type Handler struct{ web *server.Handler }

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a handler for the database.
func NewHandler(db *DB, o HandlerOptions) *Handler {
	return &Handler{server.New(server.Backend{Routes: db.routes(), Ledger: db.ledgerJSON, Unhealthy: db.unhealthy}, server.Options(o))}
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.web.ServeHTTP(w, r) }

// Serve accepts connections on l until ctx is done. It then closes l and gives the requests in
// progress five seconds to end. It returns nil, or an error if some did not end and were cut off.
// If l fails, Serve returns early with its error. It closes l in any case.
//
// A client has 10 seconds to send a header, and a minute to send a request. It has three minutes
// to take the answer, and 5 minutes until its next request. [HandlerOptions.MaxConnections] limits
// the connections.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error { return h.web.Serve(ctx, l) }

// unhealthy returns the reason for which the database does not work, without the names of files, or "".
func (db *DB) unhealthy() string {
	switch err := db.Err(); {
	case err == nil:
		return ""
	case errors.Is(err, ErrDiskFailed):
		return "the disk has failed; the errors of operations tell how"
	default:
		return "the database is closed"
	}
}

// routes maps X-Amz-Target to the operations of a database.
func (db *DB) routes() map[string]server.Route {
	return map[string]server.Route{
		server.TablesTarget + "GetItem":            to(db.GetItem),
		server.TablesTarget + "PutItem":            to(db.PutItem),
		server.TablesTarget + "UpdateItem":         to(db.UpdateItem),
		server.TablesTarget + "DeleteItem":         to(db.DeleteItem),
		server.TablesTarget + "Query":              to(db.Query),
		server.TablesTarget + "Scan":               to(db.Scan),
		server.TablesTarget + "BatchGetItem":       to(db.BatchGetItem),
		server.TablesTarget + "BatchWriteItem":     to(db.BatchWriteItem),
		server.TablesTarget + "TransactGetItems":   to(db.TransactGetItems),
		server.TablesTarget + "TransactWriteItems": to(db.TransactWriteItems),
		server.TablesTarget + "CreateTable":        to(db.CreateTable),
		server.TablesTarget + "DescribeTable":      to(db.DescribeTable),
		server.TablesTarget + "DeleteTable":        to(db.DeleteTable),
		server.TablesTarget + "ListTables":         to(db.ListTables),
		server.TablesTarget + "UpdateTable":        to(db.UpdateTable),
		server.TablesTarget + "UpdateTimeToLive":   to(db.UpdateTimeToLive),
		server.TablesTarget + "DescribeTimeToLive": to(db.DescribeTimeToLive),
		server.TablesTarget + "TagResource":        to(db.TagResource),
		server.TablesTarget + "UntagResource":      to(db.UntagResource),
		server.TablesTarget + "ListTagsOfResource": to(db.ListTagsOfResource),
		server.TablesTarget + "DescribeLimits":     to(db.DescribeLimits),
		server.TablesTarget + "DescribeEndpoints":  db.toEndpoints,
		server.StreamsTarget + "ListStreams":       to(db.ListStreams),
		server.StreamsTarget + "DescribeStream":    to(db.DescribeStream),
		server.StreamsTarget + "GetShardIterator":  to(db.GetShardIterator),
		server.StreamsTarget + "GetRecords":        to(db.GetRecords),
	}
}

// output is the interface of all outputs of the SDK.
type output interface {
	SerializeMembers(s smithy.ShapeSerializer)
}

// to returns the route to an operation.
func to[In, Option any, Out output](do func(context.Context, *In, ...func(*Option)) (Out, error)) server.Route {
	return func(ctx context.Context, _ string, body []byte, e *wire.Encoder) error {
		in := new(In)
		if err := wire.Decode(body, in); err != nil {
			return err
		}
		out, err := do(ctx, in)
		if err != nil {
			return err
		}
		writeOutput(e, out)
		return nil
	}
}

// toEndpoints is the route to DescribeEndpoints, the only operation that depends on the handler's
// address.
func (db *DB) toEndpoints(ctx context.Context, host string, body []byte, e *wire.Encoder) error {
	in := new(dynamodb.DescribeEndpointsInput)
	if err := wire.Decode(body, in); err != nil {
		return err
	}
	out, err := db.DescribeEndpoints(ctx, in)
	if err != nil {
		return err
	}
	out.Endpoints[0].Address = &host
	writeOutput(e, out)
	return nil
}

func writeOutput(e *wire.Encoder, out output) {
	e.WriteStruct(nil)
	out.SerializeMembers(e)
	writeZeros(e, out)
	e.CloseStruct()
}

// writeZeros writes members that DynamoDB sends even if they are zero or empty. The SDK's types
// leave them out, but callers in other languages than Go read them without a check.
func writeZeros(e *wire.Encoder, out output) {
	count := func(s *smithy.Schema, n int32) {
		if n == 0 {
			e.WriteInt32(s, 0)
		}
	}
	switch out := out.(type) {
	case *dynamodb.QueryOutput:
		count(schemas.QueryOutput_Count, out.Count)
		count(schemas.QueryOutput_ScannedCount, out.ScannedCount)
	case *dynamodb.ScanOutput:
		count(schemas.ScanOutput_Count, out.Count)
		count(schemas.ScanOutput_ScannedCount, out.ScannedCount)
	case *dynamodb.ListTablesOutput:
		if out.TableNames == nil {
			e.WriteList(schemas.ListTablesOutput_TableNames)
			e.CloseList()
		}
	}
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

// ledgerJSON returns the bill as a [Handler] shows it.
func (db *DB) ledgerJSON() ([]byte, error) {
	l := db.Ledger()
	sum := func(u Usage) ledgerSum { return ledgerSum(u) }
	rows := make([]ledgerRow, 0, len(l))
	for key, u := range l {
		rows = append(rows, ledgerRow{key.Table, key.Index, key.Operation, sum(u)})
	}
	slices.SortFunc(rows, func(a, b ledgerRow) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Operation, b.Operation))
	})
	return json.Marshal(struct {
		Rows  []ledgerRow `json:"rows"`
		Total ledgerSum   `json:"total"`
	}{rows, sum(l.Total())})
}
