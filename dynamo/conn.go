package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

type item = schema.Item

// A conn sends requests to one table. It bounds their time, translates their errors,
// and lets the clock learn from their answers.
type conn struct {
	api     API
	table   *string
	timeout time.Duration
	clock   *clock
	audit   *auditor
	// immediate reports that the API never waits, so no request needs a timeout.
	immediate bool
}

func newConn(o Options) *conn {
	c := &conn{api: o.API, table: &o.Table, timeout: o.Timeout, audit: newAuditor(o)}
	if api, ok := o.API.(store.ImmediateStore); ok {
		c.immediate = api.Immediate()
	}
	c.clock = newClock(&o, c.immediate)
	return c
}

// bounded gives a request without a deadline the store's own timeout.
func (c *conn) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || c.immediate {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// call sends one request; op names the operation in errors.
func call[In, Out any](
	ctx context.Context, c *conn, op string, metadata func(*Out) middleware.Metadata,
	send func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In,
) (*Out, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	sent := c.clock.sending()
	out, err := send(ctx, in)
	if err != nil {
		c.clock.failed(err, sent)
		return nil, c.translate(op, err)
	}
	c.clock.answered(metadata(out), sent)
	return out, nil
}

// getItem reads an item consistently; nil if there is none.
func (c *conn) getItem(ctx context.Context, op string, key schema.Key) (item, error) {
	out, err := call(ctx, c, op, func(o *dynamodb.GetItemOutput) middleware.Metadata { return o.ResultMetadata },
		c.api.GetItem, &dynamodb.GetItemInput{TableName: c.table, Key: key.Item(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

func (c *conn) putItem(ctx context.Context, op string, in *dynamodb.PutItemInput) error {
	in.TableName = c.table
	_, err := call(ctx, c, op, func(o *dynamodb.PutItemOutput) middleware.Metadata { return o.ResultMetadata },
		c.api.PutItem, in)
	return err
}

func (c *conn) updateItem(ctx context.Context, op string, in *dynamodb.UpdateItemInput) error {
	in.TableName = c.table
	_, err := call(ctx, c, op, func(o *dynamodb.UpdateItemOutput) middleware.Metadata { return o.ResultMetadata },
		c.api.UpdateItem, in)
	return err
}

// transact sends a transaction, and repeats it after a conflict with another
// transaction. A failed condition is final; the caller reads it from the error.
func (c *conn) transact(ctx context.Context, op string, in *dynamodb.TransactWriteItemsInput) error {
	for attempt := 0; ; attempt++ {
		_, err := call(ctx, c, op, func(o *dynamodb.TransactWriteItemsOutput) middleware.Metadata { return o.ResultMetadata },
			c.api.TransactWriteItems, in)
		if _, decided := conditionFailed(err); decided || !errors.Is(err, store.ErrConflict) || attempt == adminAttempts {
			return err
		}
		if err := sleep(ctx, backoff(writeBackoff, attempt)); err != nil {
			return c.translate(op, fmt.Errorf("waiting to retry: %w", err))
		}
	}
}

// query reads every page and calls yield with each item, until yield fails.
func (c *conn) query(ctx context.Context, op string, in *dynamodb.QueryInput, yield func(item) error) error {
	in.TableName = c.table
	for {
		out, err := call(ctx, c, op, func(o *dynamodb.QueryOutput) middleware.Metadata { return o.ResultMetadata },
			c.api.Query, in)
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			if err := yield(it); err != nil {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// Immediate reports whether the store's API says that it never waits, as an engine in
// the same process does.
func (c *conn) Immediate() bool { return c.immediate }
