package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// empty deletes all versions of all objects of a bucket. A bucket that is gone is empty.
func (m *Manager) empty(ctx context.Context, bucket string) error {
	op := "empty bucket " + bucket
	for pages := s3.NewListObjectVersionsPaginator(m.o.Clients.Buckets, &s3.ListObjectVersionsInput{Bucket: &bucket}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if isNoBucket(err) {
			return nil
		}
		if err != nil {
			return translate(op, err)
		}
		var objects []types.ObjectIdentifier
		for _, v := range page.Versions {
			objects = append(objects, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, d := range page.DeleteMarkers {
			objects = append(objects, types.ObjectIdentifier{Key: d.Key, VersionId: d.VersionId})
		}
		if len(objects) == 0 {
			continue
		}
		out, err := m.o.Clients.Buckets.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
		})
		if err != nil {
			return translate(op, err)
		}
		if len(out.Errors) > 0 {
			e := out.Errors[0]
			return fmt.Errorf("%s: %d objects stay, the first is %s: %s: %s: correct the cause and delete again",
				op, len(out.Errors), aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message))
		}
	}
	return nil
}

// deleteBucket empties a bucket and deletes it.
func (m *Manager) deleteBucket(ctx context.Context, bucket string) error {
	if err := m.empty(ctx, bucket); err != nil {
		return err
	}
	_, err := m.o.Clients.Buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	if isNoBucket(err) {
		return nil
	}
	return translate("delete bucket "+bucket, err)
}

func isNoBucket(err error) bool {
	absent := (*types.NoSuchBucket)(nil)
	return errors.As(err, &absent) || codeOf(err) == "NoSuchBucket"
}
