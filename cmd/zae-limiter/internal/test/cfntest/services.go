package cfntest

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// Objects returns the keys in a bucket, in order.
func (c *Cloud) Objects(bucket string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.buckets[bucket]))
}

// Store puts an object into a bucket.
func (c *Cloud) Store(bucket, key string, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buckets[bucket][key] = content
}

// AddBucket makes a bucket that belongs to no stack.
func (c *Cloud) AddBucket(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buckets[name], c.exists["AWS::S3::Bucket "+name] = map[string][]byte{}, true
}

func noBucket() error {
	return &types.NoSuchBucket{Message: aws.String("The specified bucket does not exist")}
}

// HeadObject says how long an object is.
func (c *Cloud) HeadObject(_ context.Context, in *s3.HeadObjectInput, _ ...func(*s3.Options)) (*s3.HeadObjectOutput, error) {
	return call(c, "HeadObject", func() (*s3.HeadObjectOutput, error) {
		content, ok := c.buckets[aws.ToString(in.Bucket)][aws.ToString(in.Key)]
		if !ok {
			return nil, &types.NotFound{}
		}
		return &s3.HeadObjectOutput{ContentLength: aws.Int64(int64(len(content)))}, nil
	})
}

// PutObject stores an object.
func (c *Cloud) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	content, err := io.ReadAll(in.Body)
	if err != nil {
		return nil, err
	}
	return call(c, "PutObject", func() (*s3.PutObjectOutput, error) {
		objects, ok := c.buckets[aws.ToString(in.Bucket)]
		if !ok {
			return nil, noBucket()
		}
		objects[aws.ToString(in.Key)] = content
		return &s3.PutObjectOutput{}, nil
	})
}

// GetBucketPolicy returns the policy of a bucket, which a resource of a stack made.
func (c *Cloud) GetBucketPolicy(_ context.Context, in *s3.GetBucketPolicyInput, _ ...func(*s3.Options)) (*s3.GetBucketPolicyOutput, error) {
	return call(c, "GetBucketPolicy", func() (*s3.GetBucketPolicyOutput, error) {
		bucket := aws.ToString(in.Bucket)
		if _, ok := c.buckets[bucket]; !ok {
			return nil, noBucket()
		}
		if !c.exists["AWS::S3::BucketPolicy "+bucket] {
			return nil, &smithy.GenericAPIError{Code: "NoSuchBucketPolicy", Message: "The bucket policy does not exist"}
		}
		return &s3.GetBucketPolicyOutput{Policy: aws.String("{}")}, nil
	})
}

// ListObjectVersions lists a page of the objects, which have one version each.
func (c *Cloud) ListObjectVersions(_ context.Context, in *s3.ListObjectVersionsInput, _ ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error) {
	return call(c, "ListObjectVersions", func() (*s3.ListObjectVersionsOutput, error) {
		objects, ok := c.buckets[aws.ToString(in.Bucket)]
		if !ok {
			return nil, noBucket()
		}
		out := &s3.ListObjectVersionsOutput{IsTruncated: aws.Bool(false)}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if key <= aws.ToString(in.KeyMarker) {
				continue
			}
			if len(out.Versions) == c.o.Page {
				out.IsTruncated, out.NextKeyMarker = aws.Bool(true), out.Versions[len(out.Versions)-1].Key
				break
			}
			out.Versions = append(out.Versions, types.ObjectVersion{Key: &key, VersionId: aws.String("null")})
		}
		return out, nil
	})
}

// DeleteObjects deletes objects.
func (c *Cloud) DeleteObjects(_ context.Context, in *s3.DeleteObjectsInput, _ ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error) {
	return call(c, "DeleteObjects", func() (*s3.DeleteObjectsOutput, error) {
		objects, ok := c.buckets[aws.ToString(in.Bucket)]
		if !ok {
			return nil, noBucket()
		}
		for _, o := range in.Delete.Objects {
			delete(objects, aws.ToString(o.Key))
		}
		return &s3.DeleteObjectsOutput{}, nil
	})
}

// DeleteBucket deletes an empty bucket.
func (c *Cloud) DeleteBucket(_ context.Context, in *s3.DeleteBucketInput, _ ...func(*s3.Options)) (*s3.DeleteBucketOutput, error) {
	return call(c, "DeleteBucket", func() (*s3.DeleteBucketOutput, error) {
		name := aws.ToString(in.Bucket)
		objects, ok := c.buckets[name]
		switch {
		case !ok:
			return nil, noBucket()
		case len(objects) > 0:
			return nil, &smithy.GenericAPIError{Code: "BucketNotEmpty", Message: "The bucket you tried to delete is not empty"}
		}
		delete(c.buckets, name)
		delete(c.exists, "AWS::S3::Bucket "+name)
		return &s3.DeleteBucketOutput{}, nil
	})
}

// ChangeFunction changes a function by hand, behind CloudFormation's back. The change must
// replace maps and lists, and not change what is in them.
func (c *Cloud) ChangeFunction(name string, change func(*lambda.GetFunctionConfigurationOutput)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := *c.functions[name]
	change(&now)
	c.functions[name] = &now
}

// function is what Lambda tells of a function.
func (c *Cloud) function(name *string) (*lambda.GetFunctionConfigurationOutput, error) {
	f, ok := c.functions[aws.ToString(name)]
	if !ok {
		return nil, &lambdatypes.ResourceNotFoundException{Message: aws.String("Function not found: " + aws.ToString(name))}
	}
	return f, nil
}

// GetFunctionConfiguration shows the checksum of a function's code, and its settings.
func (c *Cloud) GetFunctionConfiguration(_ context.Context, in *lambda.GetFunctionConfigurationInput, _ ...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error) {
	return call(c, "GetFunctionConfiguration", func() (*lambda.GetFunctionConfigurationOutput, error) {
		return c.function(in.FunctionName)
	})
}

// UpdateFunctionConfiguration changes the settings of a function that the request has. The
// variables replace all former ones.
func (c *Cloud) UpdateFunctionConfiguration(_ context.Context, in *lambda.UpdateFunctionConfigurationInput, _ ...func(*lambda.Options)) (*lambda.UpdateFunctionConfigurationOutput, error) {
	return call(c, "UpdateFunctionConfiguration", func() (*lambda.UpdateFunctionConfigurationOutput, error) {
		f, err := c.function(in.FunctionName)
		if err != nil {
			return nil, err
		}
		now := *f
		now.Handler, now.Runtime = cmp.Or(in.Handler, f.Handler), cmp.Or(in.Runtime, f.Runtime)
		now.MemorySize, now.Timeout = cmp.Or(in.MemorySize, f.MemorySize), cmp.Or(in.Timeout, f.Timeout)
		if in.Environment != nil {
			now.Environment = &lambdatypes.EnvironmentResponse{Variables: in.Environment.Variables}
		}
		c.functions[*in.FunctionName] = &now
		return &lambda.UpdateFunctionConfigurationOutput{FunctionName: in.FunctionName}, nil
	})
}

// UpdateFunctionCode puts the code of an object into a function, for an architecture.
func (c *Cloud) UpdateFunctionCode(_ context.Context, in *lambda.UpdateFunctionCodeInput, _ ...func(*lambda.Options)) (*lambda.UpdateFunctionCodeOutput, error) {
	return call(c, "UpdateFunctionCode", func() (*lambda.UpdateFunctionCodeOutput, error) {
		f, err := c.function(in.FunctionName)
		if err != nil {
			return nil, err
		}
		now := *f
		if len(in.Architectures) > 0 {
			now.Architectures = in.Architectures
		}
		c.functions[*in.FunctionName] = &now
		if reason := c.load(*in.FunctionName, aws.ToString(in.S3Bucket), aws.ToString(in.S3Key)); reason != "" {
			return nil, &lambdatypes.InvalidParameterValueException{Message: &reason}
		}
		return &lambda.UpdateFunctionCodeOutput{FunctionName: in.FunctionName}, nil
	})
}

// ListEventSourceMappings shows the mapping of a function.
func (c *Cloud) ListEventSourceMappings(_ context.Context, in *lambda.ListEventSourceMappingsInput, _ ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error) {
	return call(c, "ListEventSourceMappings", func() (*lambda.ListEventSourceMappingsOutput, error) {
		out := &lambda.ListEventSourceMappingsOutput{}
		if state := c.mappings[aws.ToString(in.FunctionName)]; state != "" {
			out.EventSourceMappings = append(out.EventSourceMappings, lambdatypes.EventSourceMappingConfiguration{State: &state})
		}
		return out, nil
	})
}
