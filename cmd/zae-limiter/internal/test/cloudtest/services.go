package cloudtest

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// GetFunctionConfiguration answers with the configuration of a function.
func (a *Account) GetFunctionConfiguration(ctx context.Context, in *lambda.GetFunctionConfigurationInput, _ ...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error) {
	if err := a.enter(ctx, "lambda:GetFunctionConfiguration"); err != nil {
		return nil, err
	}
	f, ok := a.Functions[aws.ToString(in.FunctionName)]
	if !ok {
		return nil, &lambdatypes.ResourceNotFoundException{Message: aws.String("Function not found: " + aws.ToString(in.FunctionName))}
	}
	return &lambda.GetFunctionConfigurationOutput{
		FunctionName: in.FunctionName, CodeSha256: &f.SHA256, State: lambdatypes.State(f.State), LastUpdateStatus: lambdatypes.LastUpdateStatus(f.Update),
		StateReason: &f.Reason, MemorySize: &f.MemoryMB, Timeout: &f.TimeoutS, Architectures: []lambdatypes.Architecture{f.Architecture},
		Runtime: f.Runtime, Handler: &f.Handler, Environment: &lambdatypes.EnvironmentResponse{Variables: f.Environment}, LastModified: aws.String(f.Modified.Format("2006-01-02T15:04:05.000-0700")),
	}, nil
}

// ListEventSourceMappings answers with the mappings of a function.
func (a *Account) ListEventSourceMappings(ctx context.Context, in *lambda.ListEventSourceMappingsInput, _ ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error) {
	if err := a.enter(ctx, "lambda:ListEventSourceMappings"); err != nil {
		return nil, err
	}
	var of []lambdatypes.EventSourceMappingConfiguration
	for i := range a.Mappings {
		if strings.HasSuffix(aws.ToString(a.Mappings[i].FunctionArn), ":function:"+aws.ToString(in.FunctionName)) {
			of = append(of, a.Mappings[i])
		}
	}
	out, next, err := slice(of, in.Marker)
	return &lambda.ListEventSourceMappingsOutput{EventSourceMappings: out, NextMarker: next}, err
}

// GetQueueAttributes answers with the attributes that are asked for.
func (a *Account) GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, _ ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	if err := a.enter(ctx, "sqs:GetQueueAttributes"); err != nil {
		return nil, err
	}
	q, ok := a.Queues[aws.ToString(in.QueueUrl)]
	if !ok {
		return nil, &sqstypes.QueueDoesNotExist{Message: aws.String("The specified queue does not exist.")}
	}
	out := &sqs.GetQueueAttributesOutput{Attributes: map[string]string{}}
	for name, n := range map[sqstypes.QueueAttributeName]int{
		sqstypes.QueueAttributeNameApproximateNumberOfMessages: q.Visible, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible: q.InFlight,
	} {
		if slices.Contains(in.AttributeNames, name) || slices.Contains(in.AttributeNames, sqstypes.QueueAttributeNameAll) {
			out.Attributes[string(name)] = strconv.Itoa(n)
		}
	}
	return out, nil
}

// HeadBucket fails as S3 does: an answer to HEAD has no body, so that its codes are those of
// the status.
func (a *Account) HeadBucket(ctx context.Context, in *s3.HeadBucketInput, _ ...func(*s3.Options)) (*s3.HeadBucketOutput, error) {
	if err := a.enter(ctx, "s3:ListBucket"); err != nil {
		return nil, err
	}
	if _, ok := a.Buckets[aws.ToString(in.Bucket)]; !ok {
		return nil, &smithy.GenericAPIError{Code: "NotFound", Message: "Not Found", Fault: smithy.FaultClient}
	}
	return &s3.HeadBucketOutput{}, nil
}

// GetBucketLifecycleConfiguration fails for a bucket without rules.
func (a *Account) GetBucketLifecycleConfiguration(ctx context.Context, in *s3.GetBucketLifecycleConfigurationInput, _ ...func(*s3.Options)) (*s3.GetBucketLifecycleConfigurationOutput, error) {
	if err := a.enter(ctx, "s3:GetLifecycleConfiguration"); err != nil {
		return nil, err
	}
	rules, ok := a.Buckets[aws.ToString(in.Bucket)]
	switch {
	case !ok:
		return nil, &smithy.GenericAPIError{Code: "NoSuchBucket", Message: "The specified bucket does not exist", Fault: smithy.FaultClient}
	case len(rules) == 0:
		return nil, &smithy.GenericAPIError{Code: "NoSuchLifecycleConfiguration", Message: "The lifecycle configuration does not exist", Fault: smithy.FaultClient}
	}
	return &s3.GetBucketLifecycleConfigurationOutput{Rules: rules}, nil
}
