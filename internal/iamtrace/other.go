package iamtrace

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// AnyStream is the resource of [Access] for requests whose input does not name the stream: a
// shard iterator leads to it, and only AWS can read that.
const AnyStream = "table/*/stream/*"

// ofOther returns the access of a request to a stream or to S3.
func ofOther(input any) (Access, bool) {
	switch in := input.(type) {
	case *dynamodbstreams.DescribeStreamInput:
		return Access{Action: "dynamodb:DescribeStream", Resource: streamOf(in.StreamArn)}, true
	case *dynamodbstreams.GetShardIteratorInput:
		return Access{Action: "dynamodb:GetShardIterator", Resource: streamOf(in.StreamArn)}, true
	case *dynamodbstreams.GetRecordsInput:
		return Access{Action: "dynamodb:GetRecords", Resource: AnyStream}, true

	// The actions of S3 do not have the names of its operations ("Required permissions for
	// Amazon S3 API operations"): HeadBucket and ListObjectsV2 need s3:ListBucket.
	case *s3.HeadBucketInput:
		return Access{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)}, true
	case *s3.ListObjectsV2Input:
		return Access{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)}, true
	case *s3.GetObjectInput:
		return Access{Action: "s3:GetObject", Resource: aws.ToString(in.Bucket) + "/" + aws.ToString(in.Key)}, true
	case *s3.PutObjectInput:
		return Access{Action: "s3:PutObject", Resource: aws.ToString(in.Bucket) + "/" + aws.ToString(in.Key)}, true
	}
	return Access{}, false
}

// streamOf is the resource of a stream's ARN: what follows region and account.
func streamOf(arn *string) string {
	const before = 5 // arn:PARTITION:dynamodb:REGION:ACCOUNT:
	fields := strings.SplitN(aws.ToString(arn), ":", before+1)
	return fields[len(fields)-1]
}
