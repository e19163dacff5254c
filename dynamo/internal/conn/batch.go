package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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

// BatchGet reads the items that exist, by key; a key may be given twice. It requests
// again the keys that the server leaves unprocessed, with growing waits that the
// context bounds. It never returns a partial answer.
func (c *Conn) BatchGet(ctx context.Context, op string, keys []schema.Key, consistent bool) (map[schema.Key]schema.Item, error) {
	items := make(map[schema.Key]schema.Item, len(keys))
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
		out, err := Call(ctx, c, op, c.API.BatchGetItem, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*c.Table: request}})
		if err != nil {
			return nil, err
		}
		for _, it := range out.Responses[*c.Table] {
			items[schema.KeyOf(it)] = it
		}
		left := out.UnprocessedKeys[*c.Table].Keys
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

// BatchDelete deletes items, as [Conn.BatchGet] reads them.
func (c *Conn) BatchDelete(ctx context.Context, op string, keys []schema.Key) error {
	writes := make([]types.WriteRequest, len(keys))
	for i, k := range keys {
		writes[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: k.Item()}}
	}
	return c.batchWrite(ctx, op, writes)
}

// BatchPut writes items, each of another key, as [Conn.BatchGet] reads them.
func (c *Conn) BatchPut(ctx context.Context, op string, items []schema.Item) error {
	writes := make([]types.WriteRequest, len(items))
	for i, it := range items {
		writes[i] = types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}
	}
	return c.batchWrite(ctx, op, writes)
}

func (c *Conn) batchWrite(ctx context.Context, op string, pending []types.WriteRequest) error {
	for attempt := 0; len(pending) > 0; {
		n := min(len(pending), maxBatchWrite)
		out, err := Call(ctx, c, op, c.API.BatchWriteItem, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{*c.Table: pending[:n:n]},
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
		left := out.UnprocessedItems[*c.Table]
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
func (c *Conn) again(ctx context.Context, op string, attempt int) (int, error) {
	if attempt++; attempt == batchAttempts {
		return 0, &callError{op, throttled, errUnprocessed}
	}
	if err := Sleep(ctx, Backoff(batchBackoff, attempt)); err != nil {
		return 0, c.Translate(op, fmt.Errorf("waiting to retry: %w", err))
	}
	return attempt, nil
}
