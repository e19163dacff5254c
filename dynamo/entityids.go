package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// entityIDEntries is how many entries of the index one request of [Store.EntityIDs] evaluates.
const entityIDEntries = 100

// EntityIDs lists IDs of the namespace's entities that begin with a prefix, in order: of
// those with a record, and of those that have only limits, buckets or usage. It is for
// proposals, and does not list all of a large table: it sends at most
// [MaxEntityIDRequests] requests, each for 100 entries of an index that lags behind. A
// request costs at most about 2.5 read units, and all at least 9. An error comes with the IDs
// that were read before it.
//
// The index has an entity's entries of a range side by side. The next request begins behind the last
// entity of the page before, so an entity with many entries costs one request for each range.
func (s *Store) EntityIDs(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" {
		if err := store.CheckEntity(prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	var ranges []idRange
	for _, k := range schema.EntityRanges(s.ns) {
		ranges = append(ranges, idRange{pk: k.PK, begin: k.SK, from: k.SK + prefix, to: k.SK + prefix + schema.MostOfID})
	}
	var ids []string
	var failed error
	for left := MaxEntityIDRequests; left > 0 && len(ranges) > 0 && failed == nil; {
		round := ranges[:min(left, len(ranges))]
		left -= len(round)
		var asked sync.WaitGroup
		for i := range round {
			asked.Go(func() { round[i].ids, round[i].err = s.nextIDs(ctx, &round[i]) })
		}
		asked.Wait()
		for i := range round {
			ids, failed = append(ids, round[i].ids...), cmp.Or(failed, round[i].err)
		}
		ranges = slices.DeleteFunc(ranges, func(r idRange) bool { return r.from == "" })
	}
	slices.Sort(ids)
	return slices.Compact(ids), failed
}

// An idRange is a part of the index in which IDs follow a beginning. from is where the next
// request begins, "" at the end. ids and err are of the last request.
type idRange struct {
	pk, begin, from, to string
	ids                 []string
	err                 error
}

// nextIDs sends one request, and moves the range on.
func (s *Store) nextIDs(ctx context.Context, r *idRange) (ids []string, err error) {
	in := conn.IndexQuery(schema.GSI4, r.pk, r.from)
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
