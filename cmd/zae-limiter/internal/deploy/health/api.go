package health

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// A Watch is the part of CloudWatch that this package calls, with the SDK's own signatures.
// *[cloudwatch.Client] implements it.
type Watch interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
	DescribeAlarms(context.Context, *cloudwatch.DescribeAlarmsInput, ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmsOutput, error)
}

// A Functions is the part of Lambda that this package calls. *[lambda.Client] implements it.
type Functions interface {
	GetFunctionConfiguration(context.Context, *lambda.GetFunctionConfigurationInput, ...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error)
	ListEventSourceMappings(context.Context, *lambda.ListEventSourceMappingsInput, ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error)
}

// A Queues is the part of SQS that this package calls. *[sqs.Client] implements it.
type Queues interface {
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// A Logs is the part of CloudWatch Logs that this package calls. *[cloudwatchlogs.Client]
// implements it.
type Logs interface {
	FilterLogEvents(context.Context, *cloudwatchlogs.FilterLogEventsInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.FilterLogEventsOutput, error)
}

// A Buckets is the part of S3 that this package calls. *[s3.Client] implements it.
type Buckets interface {
	HeadBucket(context.Context, *s3.HeadBucketInput, ...func(*s3.Options)) (*s3.HeadBucketOutput, error)
	GetBucketLifecycleConfiguration(context.Context, *s3.GetBucketLifecycleConfigurationInput, ...func(*s3.Options)) (*s3.GetBucketLifecycleConfigurationOutput, error)
}

// Clients are the services that [Collect] reads besides DynamoDB. All must be of one account
// and region. A client is needed only if the site has a part of its service.
type Clients struct {
	Watch     Watch
	Functions Functions
	Queues    Queues
	Logs      Logs
	Buckets   Buckets
}

var (
	_ Watch     = (*cloudwatch.Client)(nil)
	_ Functions = (*lambda.Client)(nil)
	_ Queues    = (*sqs.Client)(nil)
	_ Logs      = (*cloudwatchlogs.Client)(nil)
	_ Buckets   = (*s3.Client)(nil)
)
