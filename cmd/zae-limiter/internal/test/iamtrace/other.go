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

// anything is the resource of actions that have none: a policy must name all resources.
const anything = "*"

func one(a Access) []Access { return []Access{a} }

// ofStream returns the access of a request to a stream.
func ofStream(input any) []Access {
	switch in := input.(type) {
	case *dynamodbstreams.DescribeStreamInput:
		return one(Access{Action: "dynamodb:DescribeStream", Resource: resourceOf(in.StreamArn)})
	case *dynamodbstreams.GetShardIteratorInput:
		return one(Access{Action: "dynamodb:GetShardIterator", Resource: resourceOf(in.StreamArn)})
	case *dynamodbstreams.GetRecordsInput:
		return one(Access{Action: "dynamodb:GetRecords", Resource: AnyStream})
	}
	return nil
}

// ofObjects returns the accesses of a request to S3. The actions of S3 do not have the names
// of its operations ("Required permissions for Amazon S3 API operations").
func ofObjects(input any) []Access {
	switch in := input.(type) {
	case *s3.HeadBucketInput:
		return one(Access{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)})
	case *s3.ListObjectsV2Input:
		return one(Access{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)})
	case *s3.ListObjectVersionsInput:
		return one(Access{Action: "s3:ListBucketVersions", Resource: aws.ToString(in.Bucket)})
	case *s3.DeleteBucketInput:
		return one(Access{Action: "s3:DeleteBucket", Resource: aws.ToString(in.Bucket)})
	case *s3.GetBucketLifecycleConfigurationInput:
		return one(Access{Action: "s3:GetLifecycleConfiguration", Resource: aws.ToString(in.Bucket)})
	case *s3.GetBucketPolicyInput:
		return one(Access{Action: "s3:GetBucketPolicy", Resource: aws.ToString(in.Bucket)})
	case *s3.HeadObjectInput:
		// Without s3:ListBucket, S3 answers 403 for an object that does not exist ("HeadObject").
		return []Access{{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)}, ofObject("s3:GetObject", in.Bucket, in.Key)}
	case *s3.GetObjectInput:
		return one(ofObject("s3:GetObject", in.Bucket, in.Key))
	case *s3.PutObjectInput:
		return one(ofObject("s3:PutObject", in.Bucket, in.Key))
	case *s3.DeleteObjectsInput:
		return ofDeletion(in)
	}
	return nil
}

func ofObject(action string, bucket, key *string) Access {
	return Access{Action: action, Resource: aws.ToString(bucket) + "/" + aws.ToString(key)}
}

// ofDeletion returns one access for each object. To delete a version is an action of its own.
func ofDeletion(in *s3.DeleteObjectsInput) (all []Access) {
	for _, o := range in.Delete.Objects {
		action := "s3:DeleteObject"
		if o.VersionId != nil {
			action = "s3:DeleteObjectVersion"
		}
		all = append(all, ofObject(action, in.Bucket, o.Key))
	}
	return all
}

// resourceOf is the resource of an ARN: what follows region and account.
func resourceOf(arn *string) string {
	const before = 5 // arn:PARTITION:SERVICE:REGION:ACCOUNT:
	fields := strings.SplitN(aws.ToString(arn), ":", before+1)
	return fields[len(fields)-1]
}

func isARN(s *string) bool { return strings.HasPrefix(aws.ToString(s), "arn:") }

// queueOf is the name of a queue, the last part of its URL.
func queueOf(url *string) string {
	return aws.ToString(url)[strings.LastIndexByte(aws.ToString(url), '/')+1:]
}
