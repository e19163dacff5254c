package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// An API is the part of DynamoDB that a [Conn] calls.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Options say how to send requests. API and Table are required.
type Options struct {
	API   API
	Table string
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
	// Logger receives what cannot be returned to a caller; nil discards it.
	Logger *slog.Logger
	// Timeout bounds each request whose context has no deadline; 0 is 10 s.
	Timeout time.Duration
	// Passed is the time since the connection was made; nil is the monotonic time.
	Passed func() time.Duration
}

const defaultTimeout = 10 * time.Second

// A Conn sends requests to one table. It bounds their time, translates their errors,
// and lets the clock learn from their answers. It is safe for concurrent use.
type Conn struct {
	API     API
	Table   *string
	Clock   *Clock
	Log     *slog.Logger
	timeout time.Duration
	updater direct.Updater // nil: the API has none
	// immediate reports that the API never waits, so no request needs a timeout.
	immediate bool
}

// New returns a connection. It sends no request. It fails with a
// [*store.ValidationError] if the options are invalid.
func New(o Options) (*Conn, error) {
	switch {
	case o.API == nil:
		return nil, &store.ValidationError{Field: "API", Value: "nil", Reason: "give a DynamoDB client"}
	case o.Table == "":
		return nil, &store.ValidationError{Field: "table", Value: "", Reason: "name the table"}
	case o.Timeout < 0:
		return nil, &store.ValidationError{Field: "timeout", Value: o.Timeout.String(), Reason: "give a positive duration, or 0 for 10 s"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	c := &Conn{API: o.API, Table: &o.Table, Log: o.Logger, timeout: o.Timeout, updater: direct.UpdaterOf(o.API, o.Table)}
	if api, ok := o.API.(store.ImmediateStore); ok {
		c.immediate = api.Immediate()
	}
	c.Clock = newClock(&o, c.immediate)
	return c, nil
}

// Bounded gives a request without a deadline the store's own timeout.
func (c *Conn) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || c.immediate {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// Quiet is the option of every request. It turns off the SDK's check of an answer's
// checksum. That check never fails a call: it only writes to the client's log. It also
// writes there for every answer without a checksum, which is how DynamoDB Local and other
// endpoints send a refused write (aws-sdk-go-v2, issue 3545). The client of package
// fastclient checks answers itself, and a damaged one fails the call.
func Quiet(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true }

// Send sends one request and returns its error as it is. It lets the clock learn from
// the answer. If the context has a bill, Send asks what the request consumes, and charges
// it. The options include [Quiet].
func Send[In, Out any](
	ctx context.Context, c *Conn,
	send func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In, options ...func(*dynamodb.Options),
) (*Out, error) {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	bill, name := store.BillOf(ctx), ""
	if bill != nil {
		name = AskForUnits(in)
	}
	sent := c.Clock.sending()
	out, err := send(ctx, in, options...)
	if bill != nil {
		c.charge(bill, name, out, err)
	}
	if err != nil {
		c.Clock.failed(err, sent)
		return nil, err
	}
	c.Clock.answered(out, sent)
	return out, nil
}

// bucketWrite are the options of [Conn.Update].
var bucketWrite = []func(*dynamodb.Options){BucketWrite}

// Update sends an update of a bucket item, as [Send] does with [BucketWrite]. If the update
// met the item, Update returns whether its condition held. Otherwise it returns the SDK's
// result or error.
//
// A request with a bill takes the SDK's way: its answer says what it consumed, and a
// refusal costs what the size of the item says.
func (c *Conn) Update(ctx context.Context, u direct.Update) (applied bool, out *dynamodb.UpdateItemOutput, err error) {
	if c.updater == nil || store.BillOf(ctx) != nil {
		if calls.MustLeave(ctx) {
			return false, nil, calls.ErrApart
		}
		out, err := Send(ctx, c, c.API.UpdateItem, u.Input(), bucketWrite...)
		return err == nil, out, err
	}
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	sent := calls.Since(ctx, c.Clock.sending())
	answer, err := c.updater.Update(ctx, u, bucketWrite...)
	switch {
	case err == nil:
		c.Clock.hear(answer.Metadata, sent)
	case !calls.IsUnanswered(err):
		c.Clock.failed(err, sent)
	}
	if err != nil {
		return false, nil, err
	}
	return !answer.Refused, answer.Output, nil
}

// Call sends one request and translates its error; op names the operation in it.
func Call[In, Out any](
	ctx context.Context, c *Conn, op string,
	send func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In,
) (*Out, error) {
	out, err := Send(ctx, c, send, in, Quiet)
	return out, c.Translate(op, err)
}

// AdminAttempts is how often an administrative write starts over because another writer
// came first.
const AdminAttempts = 5

// GetItem reads an item consistently; nil if there is none.
func (c *Conn) GetItem(ctx context.Context, op string, key schema.Key) (schema.Item, error) {
	out, err := Call(ctx, c, op, c.API.GetItem, &dynamodb.GetItemInput{TableName: c.Table, Key: key.Item(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// PutItem writes an item.
func (c *Conn) PutItem(ctx context.Context, op string, in *dynamodb.PutItemInput) error {
	in.TableName = c.Table
	_, err := Call(ctx, c, op, c.API.PutItem, in)
	return err
}

// PutNew is the write of an item, if there is none of its key.
func (c *Conn) PutNew(it schema.Item) *types.Put {
	return &types.Put{TableName: c.Table, Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)")}
}

// UpdateItem updates an item.
func (c *Conn) UpdateItem(ctx context.Context, op string, in *dynamodb.UpdateItemInput) error {
	in.TableName = c.Table
	_, err := Call(ctx, c, op, c.API.UpdateItem, in)
	return err
}

// Transact sends a transaction, and repeats it after a conflict with another
// transaction. A failed condition is final; the caller reads it from the error.
func (c *Conn) Transact(ctx context.Context, op string, in *dynamodb.TransactWriteItemsInput) error {
	for attempt := 0; ; attempt++ {
		_, err := Call(ctx, c, op, c.API.TransactWriteItems, in)
		if _, decided := ConditionFailed(err); decided || !errors.Is(err, store.ErrConflict) || attempt == AdminAttempts {
			return err
		}
		if err := Sleep(ctx, Backoff(writeBackoff, attempt)); err != nil {
			return c.Translate(op, fmt.Errorf("waiting to retry: %w", err))
		}
	}
}

// ErrStop is what yield returns to end a query or scan without an error.
var ErrStop = errors.New("stop")

// Query reads every page and calls yield with each schema.Item, until yield fails or
// returns [ErrStop]. It begins at in's ExclusiveStartKey.
func (c *Conn) Query(ctx context.Context, op string, in *dynamodb.QueryInput, yield func(schema.Item) error) error {
	in.TableName = c.Table
	return pages(in.ExclusiveStartKey, yield, func(from schema.Item) ([]schema.Item, schema.Item, error) {
		in.ExclusiveStartKey = from
		out, err := Call(ctx, c, op, c.API.Query, in)
		if err != nil {
			return nil, nil, err
		}
		return out.Items, out.LastEvaluatedKey, nil
	})
}

// Scan reads every page and calls yield with each schema.Item, until yield fails.
func (c *Conn) Scan(ctx context.Context, op string, in *dynamodb.ScanInput, yield func(schema.Item) error) error {
	in.TableName = c.Table
	return pages(nil, yield, func(from schema.Item) ([]schema.Item, schema.Item, error) {
		in.ExclusiveStartKey = from
		out, err := Call(ctx, c, op, c.API.Scan, in)
		if err != nil {
			return nil, nil, err
		}
		return out.Items, out.LastEvaluatedKey, nil
	})
}

// pages reads page after page, and calls yield with each item, until yield fails. read
// reads the page that begins after a key, and returns the key at which it ended.
func pages(from schema.Item, yield func(schema.Item) error, read func(from schema.Item) (page []schema.Item, last schema.Item, err error)) error {
	for {
		page, last, err := read(from)
		if err != nil {
			return err
		}
		for _, it := range page {
			switch err := yield(it); {
			case errors.Is(err, ErrStop):
				return nil
			case err != nil:
				return err
			}
		}
		if len(last) == 0 {
			return nil
		}
		from = last
	}
}

// Leavable reports whether [Conn.Update] observes a [calls.Leavable].
func (c *Conn) Leavable() bool { return c.updater != nil }

// Immediate reports whether the API says that it never waits, as an engine in
// the same process does.
func (c *Conn) Immediate() bool { return c.immediate }

// IndexQuery queries an index for the table keys of the entries of a partition. It leaves
// out items of other namespaces: IAM does not see which index keys a write sets, so a
// tenant can put its own items into the partitions of others.
func IndexQuery(index, pk, prefix string) *dynamodb.QueryInput {
	ns, _, _ := strings.Cut(pk, "/")
	in := &dynamodb.QueryInput{
		IndexName:                 &index,
		KeyConditionExpression:    aws.String(index + "PK = :pk"),
		FilterExpression:          aws.String("begins_with(PK, :own)"),
		ExpressionAttributeValues: schema.Item{":pk": schema.S(pk), ":own": schema.S(ns + "/")},
		ProjectionExpression:      aws.String("PK, SK"),
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String(index + "PK = :pk AND begins_with(" + index + "SK, :sk)")
		in.ExpressionAttributeValues[":sk"] = schema.S(prefix)
	}
	return in
}
