package dynamo

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of [Store.EntityIDs]: requests, and entries of the index that one evaluates.
const (
	MaxEntityIDRequests = 20
	entityIDEntries     = 100
)

// EntityIDs lists IDs of the namespace's entities that begin with a prefix, in order: of
// those with a record, and of those that have only limits, buckets or usage. It is for
// proposals, and does not list all of a large table: it sends at most
// [MaxEntityIDRequests] requests, each for 100 entries of an index that lags behind. A
// request costs at most about 2.5 read units. An error comes with the IDs that were read
// before it.
//
// The index has an entity's entries side by side. The next request begins behind the last
// entity of the page before, so an entity with many entries costs one request.
func (s *Store) EntityIDs(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" {
		if err := store.CheckEntity(prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	var ids []string
	var ranges []idRange
	for _, begin := range schema.EntityRanges(s.ns) {
		ranges = append(ranges, idRange{begin: begin, from: begin + prefix, to: begin + prefix + schema.MostOfID})
	}
	var err error
	for i := 0; i < MaxEntityIDRequests && len(ranges) > 0 && err == nil; i++ {
		r := &ranges[i%len(ranges)] // in turn, so that the bound leaves out neither
		var more []string
		more, err = s.nextIDs(ctx, r)
		ids = append(ids, more...)
		if r.from == "" {
			ranges = slices.DeleteFunc(ranges, func(r idRange) bool { return r.from == "" })
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// An idRange is a part of the index in which IDs follow a beginning. from is where the next
// request begins, "" at the end.
type idRange struct{ begin, from, to string }

// nextIDs sends one request, and moves the range on.
func (s *Store) nextIDs(ctx context.Context, r *idRange) (ids []string, err error) {
	in := conn.IndexQuery(schema.GSI4, s.ns, r.from)
	in.KeyConditionExpression = aws.String("GSI4PK = :pk AND GSI4SK BETWEEN :sk AND :to")
	in.ExpressionAttributeValues[":to"] = schema.S(r.to)
	in.Limit = aws.Int32(entityIDEntries)
	entries := 0
	err = s.conn.Query(ctx, "list IDs of entities", in, func(it item) error {
		if id, ok := schema.EntityOf(schema.KeyOf(it).PK); ok {
			ids = append(ids, id)
		}
		if entries++; entries == entityIDEntries {
			return conn.ErrStop
		}
		return nil
	})
	r.from = ""
	if entries == entityIDEntries && len(ids) > 0 { // else nothing here is an entity's
		r.from = r.begin + ids[len(ids)-1] + schema.LeastOfID
	}
	return slices.Compact(ids), err
}
