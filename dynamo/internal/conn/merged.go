package conn

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// mergedEntries is how many entries one request of a merged query evaluates: with 17 partitions,
// 17 pages are in memory.
const mergedEntries = 1000

// QueryMerged is [Conn.Query] of several partitions of an index for the same sort keys: it yields
// the table keys of their entries in the order of the index's sort key, whatever partition they are in. It reads the
// first page of all partitions at the same time, and each other page when it is needed.
func (c *Conn) QueryMerged(ctx context.Context, op, index string, pks []string, prefix string, yield func(schema.Item) error) error {
	sk := index + schema.SK
	streams := make([]*stream, len(pks))
	var first sync.WaitGroup
	for i, pk := range pks {
		in := IndexQuery(index, pk, prefix)
		in.TableName, in.Limit = c.Table, aws.Int32(mergedEntries)
		*in.ProjectionExpression += ", " + sk
		streams[i] = &stream{in: in}
		first.Go(func() { streams[i].err = streams[i].fill(ctx, c, op) })
	}
	first.Wait()
	for {
		var least *stream
		for _, s := range streams {
			if s.err != nil {
				return s.err
			}
			if len(s.page) > 0 && (least == nil || s.first(sk) < least.first(sk)) {
				least = s
			}
		}
		if least == nil {
			return nil
		}
		if err := yield(least.page[0]); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
		least.page = least.page[1:]
		least.err = least.fill(ctx, c, op)
	}
}

// A stream is one partition of a merged query.
type stream struct {
	in    *dynamodb.QueryInput
	page  []schema.Item // the entries that were not yielded yet
	ended bool          // there is no other page
	err   error
}

// first is a key of the first entry.
func (s *stream) first(key string) string {
	text, _ := s.page[0][key].(*types.AttributeValueMemberS)
	return text.Value // every index key of the table is a string
}

// fill reads pages until there is an entry, or no page is left.
func (s *stream) fill(ctx context.Context, c *Conn, op string) error {
	for len(s.page) == 0 && !s.ended {
		out, err := Call(ctx, c, op, c.API.Query, s.in)
		if err != nil {
			return err
		}
		s.page, s.in.ExclusiveStartKey = out.Items, out.LastEvaluatedKey
		s.ended = len(out.LastEvaluatedKey) == 0
	}
	return nil
}
