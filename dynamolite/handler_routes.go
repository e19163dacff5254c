package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// The services of X-Amz-Target.
const (
	tablesTarget  = "DynamoDB_20120810."
	streamsTarget = "DynamoDBStreams_20120810."
)

// route decodes the input of an operation, calls it, and writes its output. Host is the host that
// the request was sent to.
type route func(ctx context.Context, db *DB, host string, body []byte, e *wire.Encoder) error

// routes maps X-Amz-Target to operations.
var routes = map[string]route{
	tablesTarget + "GetItem":            to((*DB).GetItem),
	tablesTarget + "PutItem":            to((*DB).PutItem),
	tablesTarget + "UpdateItem":         to((*DB).UpdateItem),
	tablesTarget + "DeleteItem":         to((*DB).DeleteItem),
	tablesTarget + "Query":              to((*DB).Query),
	tablesTarget + "Scan":               to((*DB).Scan),
	tablesTarget + "BatchGetItem":       to((*DB).BatchGetItem),
	tablesTarget + "BatchWriteItem":     to((*DB).BatchWriteItem),
	tablesTarget + "TransactGetItems":   to((*DB).TransactGetItems),
	tablesTarget + "TransactWriteItems": to((*DB).TransactWriteItems),
	tablesTarget + "CreateTable":        to((*DB).CreateTable),
	tablesTarget + "DescribeTable":      to((*DB).DescribeTable),
	tablesTarget + "DeleteTable":        to((*DB).DeleteTable),
	tablesTarget + "ListTables":         to((*DB).ListTables),
	tablesTarget + "UpdateTable":        to((*DB).UpdateTable),
	tablesTarget + "UpdateTimeToLive":   to((*DB).UpdateTimeToLive),
	tablesTarget + "DescribeTimeToLive": to((*DB).DescribeTimeToLive),
	tablesTarget + "TagResource":        to((*DB).TagResource),
	tablesTarget + "UntagResource":      to((*DB).UntagResource),
	tablesTarget + "ListTagsOfResource": to((*DB).ListTagsOfResource),
	tablesTarget + "DescribeLimits":     to((*DB).DescribeLimits),
	tablesTarget + "DescribeEndpoints":  toEndpoints,
	streamsTarget + "ListStreams":       to((*DB).ListStreams),
	streamsTarget + "DescribeStream":    to((*DB).DescribeStream),
	streamsTarget + "GetShardIterator":  to((*DB).GetShardIterator),
	streamsTarget + "GetRecords":        to((*DB).GetRecords),
}

// output is the interface of all outputs of the SDK.
type output interface {
	SerializeMembers(s smithy.ShapeSerializer)
}

// to returns the route to an operation.
func to[In, Option any, Out output](do func(*DB, context.Context, *In, ...func(*Option)) (Out, error)) route {
	return func(ctx context.Context, db *DB, _ string, body []byte, e *wire.Encoder) error {
		in := new(In)
		if err := wire.Decode(body, in); err != nil {
			return err
		}
		out, err := do(db, ctx, in)
		if err != nil {
			return err
		}
		writeOutput(e, out)
		return nil
	}
}

// toEndpoints is the route to DescribeEndpoints, the only operation that depends on the handler's
// address.
func toEndpoints(ctx context.Context, db *DB, host string, body []byte, e *wire.Encoder) error {
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
