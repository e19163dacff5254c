package connect

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/health"
)

// Health makes the clients that read the state of a stack's parts, as [Stack] makes those
// that operate it.
func Health(ctx context.Context, e app.Endpoint) (health.Clients, error) {
	cfg, err := load(ctx, e)
	if err != nil {
		return health.Clients{}, err
	}
	if e.URL != "" {
		cfg.BaseEndpoint = aws.String(e.URL)
	}
	return health.Clients{
		Watch:     cloudwatch.NewFromConfig(cfg, older(e)),
		Functions: lambda.NewFromConfig(cfg),
		Queues:    sqs.NewFromConfig(cfg),
		Logs:      cloudwatchlogs.NewFromConfig(cfg),
		Buckets:   s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil }),
	}, nil
}

// older makes a client of CloudWatch speak its older protocol to another URL than AWS's:
// emulators do not have the newer one.
func older(e app.Endpoint) func(*cloudwatch.Options) {
	return func(o *cloudwatch.Options) {
		if e.URL != "" {
			o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801)
		}
	}
}
