// Package fastclient makes a client of DynamoDB whose most frequent calls cost a fraction
// of the SDK's (ADR 037). It knows nothing of limits. Begin with [New].
package fastclient

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/exchange"
)

// A Client is the SDK's client, with its own code for five operations: GetItem,
// PutItem, UpdateItem, BatchGetItem and TransactWriteItems. They return what the
// SDK's client returns, except that the metadata of a result has the time of the server
// only, and that requests have no header Amz-Sdk-Invocation-Id and Amz-Sdk-Request.
//
// The Client does itself what the SDK does most often: it encodes and signs the request,
// sends it once, and decodes a result or a failed condition. Everything else is the
// SDK's: it continues a call as if it had made the first attempt. So retries and errors
// are the SDK's own, and no request is sent that the SDK would not have sent.
type Client struct {
	// Client makes all other calls, and continues those that the SDK is to continue. A
	// program may replace it before the first call, by a client that also has what [New]
	// would leave every call to: middleware that changes errors, for instance.
	*dynamodb.Client
	options dynamodb.Options // of the SDK's client
	// pool has the connections; nil: the options leave every call to the SDK.
	pool *exchange.Pool
	now  func() time.Time

	route   atomic.Pointer[route] // of the last credentials
	server  atomic.Pointer[served]
	scratch sync.Pool // of *scratch
}

// New makes a client, as [dynamodb.NewFromConfig] does, for many small requests. An
// UpdateItem costs a fifth of the CPU time; see docs/performance.md.
//
// Up to 256 concurrent requests to a host keep a connection each instead of 10. The
// client takes timeouts, dialer, TLS settings and proxy from cfg.HTTPClient if that is an
// [awshttp.BuildableClient], as [github.com/aws/aws-sdk-go-v2/config] makes them. It sends
// requests on the caller's goroutine over HTTP/1.1, the only protocol of DynamoDB, and
// resumes TLS sessions. An exchange that takes longer than a minute fails, unless the
// client has a read timeout. An answer with a wrong checksum fails. The SDK only writes a
// line to its log, and does so for every answer without a checksum, too; its check is
// therefore off. The client does not follow redirects; DynamoDB has none.
//
// Every call is the SDK's own where the options ask for what this client does not do:
// another HTTP client or signer, middleware, interceptors, a tracer or meter, a log of
// requests, resolvers of endpoints, discovery of endpoints. So is a call whose own options
// change more than the retryer, and a request through a proxy. optFns run last.
func New(cfg aws.Config, optFns ...func(*dynamodb.Options)) *Client {
	sdk := dynamodb.NewFromConfig(cfg, append([]func(*dynamodb.Options){tune}, optFns...)...)
	c := &Client{
		Client: sdk, options: sdk.Options(),
		now:     time.Now, //nolint:forbidigo // the default clock
		scratch: sync.Pool{New: func() any { return new(scratch) }},
	}
	if pool, ok := c.options.HTTPClient.(*exchange.Pool); ok && isPlain(&c.options) {
		c.pool = pool
	}
	return c
}

// tune replaces the SDK's HTTP client.
func tune(o *dynamodb.Options) {
	if stock, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = exchange.New(stock)
		o.DisableValidateResponseChecksum = true // the pool verifies
	}
}

// isPlain reports whether options ask only for what a Client does itself.
func isPlain(o *dynamodb.Options) bool {
	stock := dynamodb.New(dynamodb.Options{}).Options()
	for _, part := range [][2]any{
		{o.EndpointResolver, stock.EndpointResolver}, //nolint:staticcheck // nil, unless somebody still sets it
		{o.EndpointResolverV2, stock.EndpointResolverV2},
		{o.HTTPSignerV4, stock.HTTPSignerV4},
		{o.MeterProvider, stock.MeterProvider},
		{o.TracerProvider, stock.TracerProvider},
		{o.Protocol, stock.Protocol},
		{o.AuthSchemeResolver, stock.AuthSchemeResolver},
		{o.Interceptors, stock.Interceptors},
	} {
		if reflect.TypeOf(part[0]) != reflect.TypeOf(part[1]) {
			return false
		}
	}
	return len(o.APIOptions) == 0 && reflect.DeepEqual(o.Interceptors, stock.Interceptors) && o.ClientLogMode == 0 &&
		o.EndpointDiscovery.EnableEndpointDiscovery != aws.EndpointDiscoveryEnabled && !o.EnableAcceptEncodingGzip &&
		len(o.AuthSchemes) == len(stock.AuthSchemes) && len(o.AuthSchemePreference) == 0 &&
		o.Credentials != nil && !aws.IsCredentialsProvider(o.Credentials, aws.AnonymousCredentials{})
}

// GetItem reads an item.
func (c *Client) GetItem(ctx context.Context, in *dynamodb.GetItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return call(ctx, c, &getItem, in, optFns)
}

// PutItem writes an item.
func (c *Client) PutItem(ctx context.Context, in *dynamodb.PutItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return call(ctx, c, &putItem, in, optFns)
}

// UpdateItem changes an item.
func (c *Client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return call(ctx, c, &updateItem, in, optFns)
}

// BatchGetItem reads several items.
func (c *Client) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return call(ctx, c, &batchGetItem, in, optFns)
}

// TransactWriteItems writes several items or none.
func (c *Client) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, optFns ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	if in != nil && in.ClientRequestToken == nil && c.options.IdempotencyTokenProvider != nil {
		token, err := c.options.IdempotencyTokenProvider.GetIdempotencyToken()
		if err == nil {
			withToken := *in
			withToken.ClientRequestToken, in = &token, &withToken
		}
	}
	return call(ctx, c, &transactWriteItems, in, optFns)
}
