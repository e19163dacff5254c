package connect

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
)

// Stack makes the clients of the services that stacks need, as [DynamoDB] makes one of
// DynamoDB. A URL is that of an emulator which serves all of them.
func Stack(ctx context.Context, e app.Endpoint) (stack.Clients, error) {
	cfg, err := load(ctx, e)
	if err != nil {
		return stack.Clients{}, err
	}
	if e.URL != "" {
		cfg.BaseEndpoint = aws.String(e.URL)
	}
	return stack.Clients{
		CloudFormation: cloudformation.NewFromConfig(cfg, patient),
		Buckets:        s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil }),
		Functions:      lambda.NewFromConfig(cfg),
		Tagging:        resourcegroupstaggingapi.NewFromConfig(cfg),
		Database:       database(cfg, e),
		Tasks:          ecs.NewFromConfig(cfg),
	}, nil
}

// patient makes a client send a request again that is not answered in time: CloudFormation is
// slow at times. Its requests have tokens, so that it carries each out once.
func patient(o *cloudformation.Options) { o.Retryer = retry.NewStandard(isUnreachedFinal) }
