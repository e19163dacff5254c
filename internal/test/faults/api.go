package faults

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Hook handles a call. It calls next to send the call on, which sets the output: once,
// more than once, or never. Several goroutines may run a hook at the same time. It must
// honour ctx in whatever it waits for.
type Hook func(ctx context.Context, c *Call, next Next) error

// Next sends a call on to the next hook, or to the API behind the last one.
type Next func(ctx context.Context) error

// An API is a [dynamo.API] with hooks. It is not immediate (see store.ImmediateStore).
type API struct {
	api   dynamo.API
	hooks []Hook
}

var _ dynamo.API = (*API)(nil)

// Wrap returns an API that passes every request through the hooks, the first one first,
// and then to api. Without hooks it only hides what else api implements.
func Wrap(api dynamo.API, hooks ...Hook) *API { return &API{api, hooks} }

// An Observed is an [API] that answers at once if the API behind it does.
type Observed struct {
	*API
	immediate bool
}

// Observe returns an API for hooks that only look at calls and never wait.
func Observe(api dynamo.API, hooks ...Hook) *Observed {
	at, ok := api.(store.ImmediateStore)
	return &Observed{Wrap(api, hooks...), ok && at.Immediate()}
}

// Immediate reports whether the API behind the hooks answers at once (see
// store.ImmediateStore).
func (o *Observed) Immediate() bool { return o.immediate }

// run passes a call through hooks, and then to send.
func run(ctx context.Context, c *Call, hooks []Hook, send Next) error {
	if len(hooks) == 0 {
		return send(ctx)
	}
	return hooks[0](ctx, c, func(ctx context.Context) error { return run(ctx, c, hooks[1:], send) })
}

// route is the one way of all operations.
func route[In, Out any](
	ctx context.Context, a *API, op string, in *In, options []func(*dynamodb.Options),
	send func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error),
) (*Out, error) {
	c := &Call{Op: op, Input: in, Options: options}
	err := run(ctx, c, a.hooks, func(ctx context.Context) error {
		in, ok := c.Input.(*In)
		if !ok {
			panic(fmt.Sprintf("a hook replaced the input of %s by a %T", op, c.Input))
		}
		out, err := send(ctx, in, c.Options...)
		if err != nil {
			c.Output = nil
			return err
		}
		c.Output = out
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.Output == nil {
		return new(Out), nil
	}
	out, ok := c.Output.(*Out)
	if !ok {
		panic(fmt.Sprintf("a hook replaced the output of %s by a %T", op, c.Output))
	}
	return out, nil
}

// GetItem passes the request through the hooks.
func (a *API) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return route(ctx, a, GetItem, in, o, a.api.GetItem)
}

// PutItem passes the request through the hooks.
func (a *API) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return route(ctx, a, PutItem, in, o, a.api.PutItem)
}

// UpdateItem passes the request through the hooks.
func (a *API) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return route(ctx, a, UpdateItem, in, o, a.api.UpdateItem)
}

// Query passes the request through the hooks.
func (a *API) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return route(ctx, a, Query, in, o, a.api.Query)
}

// Scan passes the request through the hooks.
func (a *API) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return route(ctx, a, Scan, in, o, a.api.Scan)
}

// BatchGetItem passes the request through the hooks.
func (a *API) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return route(ctx, a, BatchGetItem, in, o, a.api.BatchGetItem)
}

// BatchWriteItem passes the request through the hooks.
func (a *API) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return route(ctx, a, BatchWriteItem, in, o, a.api.BatchWriteItem)
}

// TransactWriteItems passes the request through the hooks.
func (a *API) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return route(ctx, a, TransactWriteItems, in, o, a.api.TransactWriteItems)
}

// CreateTable passes the request through the hooks.
func (a *API) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, o ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return route(ctx, a, CreateTable, in, o, a.api.CreateTable)
}

// DescribeTable passes the request through the hooks.
func (a *API) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return route(ctx, a, DescribeTable, in, o, a.api.DescribeTable)
}

// UpdateTimeToLive passes the request through the hooks.
func (a *API) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return route(ctx, a, UpdateTimeToLive, in, o, a.api.UpdateTimeToLive)
}

// DescribeTimeToLive passes the request through the hooks.
func (a *API) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return route(ctx, a, DescribeTimeToLive, in, o, a.api.DescribeTimeToLive)
}
