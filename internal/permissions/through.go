package permissions

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/archive"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// A Note receives the SDK's input of each request before it is sent.
type Note func(ctx context.Context, input any)

// Streams returns streams whose requests are noted.
func Streams(api stream.API, note Note) stream.API { return &streams{api, note} }

type streams struct {
	api  stream.API
	note Note
}

func (s *streams) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	s.note(ctx, in)
	return s.api.DescribeStream(ctx, in, o...)
}

func (s *streams) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	s.note(ctx, in)
	return s.api.GetShardIterator(ctx, in, o...)
}

func (s *streams) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	s.note(ctx, in)
	return s.api.GetRecords(ctx, in, o...)
}

// Objects returns a storage of objects whose requests are noted.
func Objects(api archive.API, note Note) archive.API { return &objects{api, note} }

type objects struct {
	api  archive.API
	note Note
}

func (o *objects) HeadBucket(ctx context.Context, in *s3.HeadBucketInput, with ...func(*s3.Options)) (*s3.HeadBucketOutput, error) {
	o.note(ctx, in)
	return o.api.HeadBucket(ctx, in, with...)
}

func (o *objects) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, with ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	o.note(ctx, in)
	return o.api.ListObjectsV2(ctx, in, with...)
}

func (o *objects) GetObject(ctx context.Context, in *s3.GetObjectInput, with ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	o.note(ctx, in)
	return o.api.GetObject(ctx, in, with...)
}

func (o *objects) PutObject(ctx context.Context, in *s3.PutObjectInput, with ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	o.note(ctx, in)
	return o.api.PutObject(ctx, in, with...)
}
