package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of batches: DynamoDB's limits for one batch, and the number of attempts and
// the base wait for items left unprocessed.
const (
	maxBatchGet   = 100
	maxBatchWrite = 25
	batchAttempts = 10
	batchBackoff  = 50 * time.Millisecond
)

// adminAttempts is how often an administrative write starts over because another writer
// came first.
const adminAttempts = 5

// Load reads an entity's record, configuration and a bucket in one request. It returns
// a complete answer or an error.
func (s *Store) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	keys, err := s.loadKeys(l)
	if err != nil {
		return nil, err
	}
	items, err := s.batchGet(ctx, "load configuration", keys, l.Consistent)
	if err != nil {
		return nil, err
	}
	loaded := &store.Loaded{Configs: make([]*store.Config, len(l.Configs))}
	for i := range l.Configs {
		if it, ok := items[keys[i]]; ok {
			if loaded.Configs[i], err = schema.DecodeConfig(it); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range keys[len(l.Configs):] {
		it, ok := items[k]
		switch {
		case !ok:
		case k.SK == schema.MetaSK:
			loaded.Entity, err = schema.DecodeEntity(it)
		default:
			loaded.Image, err = schema.DecodeBucket(it)
		}
		if err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// loadKeys returns the keys of the configurations in l, then those of the record and of
// the bucket, if requested. It validates all names.
func (s *Store) loadKeys(l *store.Load) ([]schema.Key, error) {
	const others = 2
	keys := make([]schema.Key, 0, len(l.Configs)+others)
	for _, k := range l.Configs {
		if err := schema.CheckConfigKey(k); err != nil {
			return nil, err
		}
		keys = append(keys, schema.ConfigKey(s.ns, k))
	}
	if l.Entity != "" {
		if err := store.CheckEntity(l.Entity); err != nil {
			return nil, err
		}
		keys = append(keys, schema.MetaKey(s.ns, l.Entity))
	}
	if l.Bucket != nil {
		if err := checkBucket(*l.Bucket); err != nil {
			return nil, err
		}
		keys = append(keys, schema.BucketKey(s.ns, *l.Bucket))
	}
	return keys, nil
}

// batchGet reads the items that exist, by key; a key may be given twice. It requests
// again the keys that the server leaves unprocessed, with growing waits that the
// context bounds. It never returns a partial answer.
func (c *conn) batchGet(ctx context.Context, op string, keys []schema.Key, consistent bool) (map[schema.Key]item, error) {
	items := make(map[schema.Key]item, len(keys))
	pending := make([]map[string]types.AttributeValue, 0, len(keys))
	asked := make(map[schema.Key]bool, len(keys))
	for _, k := range keys {
		if !asked[k] {
			asked[k] = true
			pending = append(pending, k.Item())
		}
	}
	for attempt := 0; len(pending) > 0; {
		n := min(len(pending), maxBatchGet)
		request := types.KeysAndAttributes{Keys: pending[:n]}
		if consistent {
			request.ConsistentRead = &consistent
		}
		out, err := call(ctx, c, op, func(o *dynamodb.BatchGetItemOutput) middleware.Metadata { return o.ResultMetadata },
			c.api.BatchGetItem, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*c.table: request}})
		if err != nil {
			return nil, err
		}
		for _, it := range out.Responses[*c.table] {
			items[schema.KeyOf(it)] = it
		}
		left := out.UnprocessedKeys[*c.table].Keys
		pending = append(pending[n:], left...)
		if len(left) == 0 {
			continue
		}
		if attempt, err = c.again(ctx, op, attempt); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// batchDelete deletes items, as [conn.batchGet] reads them.
func (c *conn) batchDelete(ctx context.Context, op string, keys []schema.Key) error {
	pending := make([]types.WriteRequest, len(keys))
	for i, k := range keys {
		pending[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: k.Item()}}
	}
	for attempt := 0; len(pending) > 0; {
		n := min(len(pending), maxBatchWrite)
		out, err := call(ctx, c, op, func(o *dynamodb.BatchWriteItemOutput) middleware.Metadata { return o.ResultMetadata },
			c.api.BatchWriteItem, &dynamodb.BatchWriteItemInput{
				RequestItems: map[string][]types.WriteRequest{*c.table: pending[:n:n]},
			})
		if errors.Is(err, store.ErrThrottled) {
			if attempt, err = c.again(ctx, op, attempt); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		left := out.UnprocessedItems[*c.table]
		pending = append(pending[n:], left...)
		if len(left) == 0 {
			continue
		}
		if attempt, err = c.again(ctx, op, attempt); err != nil {
			return err
		}
	}
	return nil
}

var errUnprocessed = errors.New("the table kept leaving items unprocessed: it is throttled")

// again waits before the next attempt at the unprocessed items of a batch.
func (c *conn) again(ctx context.Context, op string, attempt int) (int, error) {
	if attempt++; attempt == batchAttempts {
		return 0, &callError{op, throttled, errUnprocessed}
	}
	if err := sleep(ctx, backoff(batchBackoff, attempt)); err != nil {
		return 0, c.translate(op, fmt.Errorf("waiting to retry: %w", err))
	}
	return attempt, nil
}
