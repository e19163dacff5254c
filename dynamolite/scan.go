package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// maxSegments is how many parts a Scan can be divided into.
const maxSegments = 1_000_000

// Scan reads all of a table or of a secondary index, in an internal order that does not change.
// Its pages end like those of [DB.Query], and a local index fetches from the table in the same
// way. An item that exists from the first page to the last is read exactly once. If an item is
// written meanwhile, Scan may read either image. An item that moves in the scanned index may be
// read twice or not at all. A filter may use the keys; attributes that an index does not hold are
// absent to it.
//
// A table or an index is divided into 64 shards; a segment of a parallel Scan is a run of whole
// shards. Segments beyond that number are empty. The work is even only if the number of segments
// divides 64.
func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return run(ctx, db, opScan, in, (*DB).scan)
}

func (db *DB) scan(c *call, in *dynamodb.ScanInput) (*dynamodb.ScanOutput, error) {
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	s, err := t.newScan(c, in)
	if err != nil {
		return nil, err
	}
	a, err := s.perform(db, c)
	if err != nil {
		return nil, err
	}
	return &dynamodb.ScanOutput{
		Items: a.items, Count: a.count, ScannedCount: a.scanned, LastEvaluatedKey: a.last, ConsumedCapacity: a.consumed,
	}, nil
}

// scan is a validated Scan: a reading of a run of shards.
type scan struct{ reading }

func (t *table) newScan(c *call, in *dynamodb.ScanInput) (*scan, error) {
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
	r, err := t.newReading(c, &common)
	if err != nil {
		return nil, err
	}
	env, err := newEnv("FilterExpression is null", in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.FilterExpression, in.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	if err := r.parse(&common, env); err != nil {
		return nil, err
	}
	if err := unused(env); err != nil {
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
		return validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case segment == nil:
		return validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *total < 1:
		return validationf("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value greater than or equal to 1", *total)
	case *total > maxSegments:
		return validationf("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value less than or equal to %d", *total, maxSegments)
	case *segment < 0:
		return validationf("1 validation error detected: Value '%d' at 'segment' failed to satisfy constraint: Member must have value greater than or equal to 0", *segment)
	case *segment >= *total:
		return validationf("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *segment, *total)
	}
	return nil
}

// bound turns the segment and the ExclusiveStartKey into a run of shards and a start in the
// first.
func (s *scan) bound(in *dynamodb.ScanInput) error {
	s.keys = everyKey
	from, to := 0, len(s.shards)
	if in.TotalSegments != nil {
		from, to = segmentOf(len(s.shards), int(*in.Segment), int(*in.TotalSegments))
	}
	if in.ExclusiveStartKey != nil {
		n, at, err := s.startKey(in.ExclusiveStartKey)
		if err != nil {
			return err
		}
		if n < from || n >= to {
			return validationf("The provided starting key is invalid: Invalid ExclusiveStartKey. "+
				"Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", *in.TotalSegments, *in.Segment)
		}
		from, s.keys = n, s.keys.after(at, false)
	}
	s.shards = s.shards[from:to]
	return nil
}

// segmentOf returns the run of shards that a segment reads, given the numbers of shards and
// segments. Each shard is in exactly one segment.
func segmentOf(shards, segment, total int) (from, to int) {
	first := func(segment int) int { return (segment*shards + total - 1) / total }
	return first(segment), first(segment + 1)
}
