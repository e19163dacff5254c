package request

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// maxSegments is how many parts a Scan can be divided into.
//
// maxSegments is how many parts a Scan can be divided into (TotalSegments, API reference of Scan).
// The engine has 64 shards, so the segments beyond 64 are empty. AWS promises no more: a segment
// may have any share of the items, or none.
const maxSegments = 1_000_000

// Scan executes the operation of that name.
func (ex *Executor) Scan(c *api.Call, in *dynamodb.ScanInput) (*dynamodb.ScanOutput, error) {
	t, err := ex.Tables.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	s, err := newScan(t, c, in)
	if err != nil {
		return nil, err
	}
	a, err := s.perform(ex, c)
	if err != nil {
		return nil, err
	}
	return &dynamodb.ScanOutput{
		Items: a.items, Count: a.count, ScannedCount: a.scanned, LastEvaluatedKey: a.last, ConsumedCapacity: a.consumed,
	}, nil
}

// scan is a validated Scan: a reading of a run of shards. Its order is that of the shards, and
// within a shard that of the keys. It is the same in every process.
type scan struct{ reading }

func newScan(t *table.Table, c *api.Call, in *dynamodb.ScanInput) (*scan, error) {
	common := readRequest{
		index: in.IndexName, consistent: in.ConsistentRead, limit: in.Limit,
		filter: in.FilterExpression, projection: in.ProjectionExpression, selects: in.Select,
		capacity: in.ReturnConsumedCapacity,
	}
	if err := common.check(); err != nil {
		return nil, err
	}
	if err := refuseLegacy(
		parameters{{"AttributesToGet", in.AttributesToGet != nil}, {"ScanFilter", in.ScanFilter != nil}, {"ConditionalOperator", in.ConditionalOperator != ""}},
		parameters{{"ProjectionExpression", in.ProjectionExpression != nil}, {"FilterExpression", in.FilterExpression != nil}},
	); err != nil {
		return nil, err
	}
	if err := checkSegment(in.Segment, in.TotalSegments); err != nil {
		return nil, err
	}
	r, err := newReading(t, c, &common)
	if err != nil {
		return nil, err
	}
	env, err := NewEnv("FilterExpression is null", in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.FilterExpression, in.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	if err := r.parse(&common, env); err != nil {
		return nil, err
	}
	if err := Unused(env); err != nil {
		return nil, err
	}
	s := &scan{r}
	return s, s.bound(in)
}

// checkSegment validates the division of a parallel Scan.
func checkSegment(segment, total *int32) error {
	switch {
	case segment == nil && total == nil:
		return nil
	case total == nil:
		return api.Validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case segment == nil:
		return api.Validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *total < 1:
		return api.Validationf("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value greater than or equal to 1", *total)
	case *total > maxSegments:
		return api.Validationf("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value less than or equal to %d", *total, maxSegments)
	case *segment < 0:
		return api.Validationf("1 validation error detected: Value '%d' at 'segment' failed to satisfy constraint: Member must have value greater than or equal to 0", *segment)
	case *segment >= *total:
		return api.Validationf("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *segment, *total)
	}
	return nil
}

// bound turns the segment and the ExclusiveStartKey into a run of shards and a start in the first.
// The key says which shard the Scan has reached, so a position needs no state between pages. A
// position outside the segment is an error: the caller has mixed up two segments.
func (s *scan) bound(in *dynamodb.ScanInput) error {
	s.keys = storage.EveryKey
	from, to := 0, len(s.shards)
	if in.TotalSegments != nil {
		from, to = SegmentOf(len(s.shards), int(*in.Segment), int(*in.TotalSegments))
	}
	if in.ExclusiveStartKey != nil {
		n, at, err := s.startKey(in.ExclusiveStartKey)
		if err != nil {
			return err
		}
		if n < from || n >= to {
			return api.Validationf("The provided starting key is invalid: Invalid ExclusiveStartKey. "+
				"Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", *in.TotalSegments, *in.Segment)
		}
		from, s.keys = n, s.keys.After(at, false)
	}
	s.shards = s.shards[from:to]
	return nil
}

// SegmentOf returns the run of shards that a segment reads, given the numbers of shards and
// segments. Each shard is in exactly one segment. Rounding up gives contiguous runs that differ by
// one shard at most. The position after a page thus belongs to one segment.
func SegmentOf(shards, segment, total int) (from, to int) {
	first := func(segment int) int { return (segment*shards + total - 1) / total }
	return first(segment), first(segment + 1)
}
