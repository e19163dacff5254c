// Package connect makes the clients of the command line. It is the only CLI package that
// knows the SDK.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// idleConns is the number of connections kept open. With the SDK's default of 10,
// concurrent requests above 10 open a new connection each time.
const idleConns = 128

// dialTimeout is how long a connection may take to come about. A person waits for the
// command, and an address that does not answer within two seconds rarely does later.
const dialTimeout = 2 * time.Second

// isUnansweredFinal makes a retryer give up at once if a server has not answered in time. All
// attempts of a request to DynamoDB together have hardly more time than one.
func isUnansweredFinal(o *retry.StandardOptions) {
	o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		if app.IsUnanswered(err) {
			return aws.FalseTernary
		}
		return aws.UnknownTernary
	})}, o.Retryables...)
}

// isUnreachedFinal makes a retryer give up at once if another attempt would end the same way:
// no connection comes about, the server speaks otherwise than the address says, or it is no
// service of AWS.
func isUnreachedFinal(o *retry.StandardOptions) {
	o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		foreign := (*foreignError)(nil)
		if app.IsUnreached(err) || app.IsMisspoken(err) || errors.As(err, &foreign) && !foreign.again {
			return aws.FalseTernary
		}
		return aws.UnknownTernary
	})}, o.Retryables...)
}

// DynamoDB makes a client for an endpoint, from the SDK's usual sources: the environment,
// shared files, roles. It sends no request to DynamoDB.
//
// DynamoDB never invents credentials, not even for DynamoDB Local, which accepts any.
// DynamoDB Local keeps a database for each access key, so invented keys would silently
// select another database than the user's other tools use. On loopback, DynamoDB skips only
// the search for a role of the machine: it cannot help, and takes seconds to fail.
func DynamoDB(ctx context.Context, e app.Endpoint) (dynamo.API, error) {
	cfg, err := load(ctx, e)
	if err != nil {
		return nil, err
	}
	return database(cfg, e), nil
}

// database makes a client of DynamoDB that encodes and sends the usual requests itself: an
// aggregator writes hundreds of sums for each page of a stream.
//
// Such a client leaves every request to the SDK if its options ask for middleware, or for a
// time until an answer begins. So it has a time until the answer is complete, and no
// middleware. The program's middleware changes only errors and rare answers. The SDK's client
// makes those, and keeps the program's options.
func database(cfg aws.Config, e app.Endpoint) *fastclient.Client {
	address := func(o *dynamodb.Options) {
		if e.URL != "" {
			o.BaseEndpoint = aws.String(e.URL)
		}
	}
	own := cfg.Copy()
	own.HTTPClient = newHTTPClient().WithReadTimeout(cmp.Or(e.Timeout, app.DefaultTimeout))
	own.APIOptions = nil
	c := fastclient.New(own, address)
	c.Client = dynamodb.NewFromConfig(cfg, address)
	return c
}

// Streams makes a client of DynamoDB Streams, as [DynamoDB] makes one of DynamoDB. One URL
// serves both.
func Streams(ctx context.Context, e app.Endpoint) (stream.API, error) {
	cfg, err := load(ctx, e)
	if err != nil {
		return nil, err
	}
	return dynamodbstreams.NewFromConfig(cfg, func(o *dynamodbstreams.Options) {
		if e.URL != "" {
			o.BaseEndpoint = aws.String(e.URL)
		}
	}), nil
}

// S3 makes a client of S3, as [DynamoDB] makes one of DynamoDB. A URL other than AWS's
// needs no region. The client addresses such a service as /BUCKET/KEY, since few have a
// host name for each bucket. It also omits the checksum forms that some do not accept: it
// signs the whole body.
func S3(ctx context.Context, e app.Endpoint) (archive.API, error) {
	const usual = "us-east-1" // the region that such services sign with if none is given
	var options []func(*config.LoadOptions) error
	if e.URL != "" {
		options = append(options, config.WithDefaultRegion(usual))
	}
	cfg, err := load(ctx, e, options...)
	if err != nil {
		return nil, err
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		if e.URL != "" {
			o.BaseEndpoint = aws.String(e.URL)
		}
		if o.BaseEndpoint != nil { // the environment may set it
			o.UsePathStyle = true
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	}), nil
}

// SQS makes a client of SQS at the host of a queue's URL.
func SQS(ctx context.Context, e app.Endpoint) (redrive.Queue, error) {
	queue, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the queue: %w", err)
	}
	cfg, err := load(ctx, e)
	if err != nil {
		return nil, err
	}
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.BaseEndpoint = aws.String(queue.Scheme + "://" + queue.Host)
	}), nil
}

// newHTTPClient makes an HTTP client that gives up connecting soon.
func newHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout })
}

func httpClient(timeout time.Duration) *awshttp.BuildableClient {
	return newHTTPClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConns, idleConns
		t.ResponseHeaderTimeout = cmp.Or(timeout, app.DefaultTimeout)
	})
}

// load reads the configuration for an endpoint.
func load(ctx context.Context, e app.Endpoint, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	options = append(
		options,
		config.WithHTTPClient(httpClient(e.Timeout)),
		config.WithRetryer(func() aws.Retryer { return retry.NewStandard(isUnreachedFinal, isUnansweredFinal) }),
		// Errors are returned; only the program writes to standard error.
		config.WithLogger(logging.Nop{}),
		config.WithAPIOptions([]func(*middleware.Stack) error{readable}),
	)
	if e.Region != "" {
		options = append(options, config.WithRegion(e.Region))
	}
	if app.IsLoopback(e.URL) {
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if unknown := (config.SharedConfigProfileNotExistError{}); errors.As(err, &unknown) {
		return aws.Config{}, app.Usagef("there is no AWS profile %q: set AWS_PROFILE to one of ~/.aws/config, or add it with aws configure --profile", unknown.Profile)
	}
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w: correct the environment variable, or ~/.aws/config", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, app.Usagef("no AWS region: give --region, or set AWS_REGION")
	}
	if !app.IsRegion(cfg.Region) {
		return aws.Config{}, app.Usagef("invalid AWS region %q: set AWS_REGION to the name of a region, us-east-1 for instance, or give --region", cfg.Region)
	}
	cfg.APIOptions = append(cfg.APIOptions, ownAnswers)
	// Checking credentials here allows a clear error. The SDK caches them, so that it does
	// not ask twice.
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		if ctx.Err() != nil {
			return aws.Config{}, fmt.Errorf("get AWS credentials: %w", ctx.Err())
		}
		return aws.Config{}, fmt.Errorf("no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (DynamoDB Local takes any), or AWS_PROFILE: %w: %w",
			limiter.ErrAccessDenied, err)
	}
	return cfg, nil
}
