package health

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// archive reads the bucket of expired audit events.
func (r *reader) archive(ctx context.Context, report *Report) {
	bucket := r.o.Site.Archive
	if bucket == "" {
		return
	}
	a := &Archive{Bucket: bucket}
	report.Archive = a
	read(ctx, r, &a.Exists, "s3:ListBucket", func(ctx context.Context) (bool, error) {
		_, err := r.o.Clients.Buckets.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket})
		return err == nil, err
	})
	read(ctx, r, &a.Lifecycle, "s3:GetLifecycleConfiguration", func(ctx context.Context) ([]Rule, error) { return r.lifecycle(ctx, bucket) })
}

// lifecycle reads the rules of a bucket. A bucket without a configuration has none.
func (r *reader) lifecycle(ctx context.Context, bucket string) ([]Rule, error) {
	out, err := r.o.Clients.Buckets.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &bucket})
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorCode() == "NoSuchLifecycleConfiguration" {
		return []Rule{}, nil
	}
	if err != nil {
		return nil, err
	}
	rules := []Rule{}
	for i := range out.Rules {
		rules = append(rules, ruleOf(&out.Rules[i]))
	}
	return rules, nil
}

func ruleOf(of *types.LifecycleRule) Rule {
	rule := Rule{ID: aws.ToString(of.ID), Enabled: of.Status == types.ExpirationStatusEnabled, Prefix: prefixOf(of)}
	if len(of.Transitions) > 0 {
		rule.To, rule.Days = string(of.Transitions[0].StorageClass), aws.ToInt32(of.Transitions[0].Days)
	}
	if of.Expiration != nil {
		rule.ExpireDays = aws.ToInt32(of.Expiration.Days)
	}
	return rule
}

// prefixOf is the prefix of a rule, in the two forms that S3 has for it.
func prefixOf(of *types.LifecycleRule) string {
	if of.Filter != nil && of.Filter.Prefix != nil {
		return *of.Filter.Prefix
	}
	return aws.ToString(of.Prefix) //nolint:staticcheck // the form of older configurations
}
