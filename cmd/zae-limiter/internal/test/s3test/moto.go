//go:build conformance

package s3test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// OnMoto returns a client of the S3 server of a moto, with new buckets.
func OnMoto(tb testing.TB, endpoint string, buckets ...string) *s3.Client {
	tb.Helper()
	client := s3.New(s3.Options{
		Region: peers.Region, BaseEndpoint: aws.String(endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	})
	for _, name := range buckets {
		if _, err := client.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: aws.String(name)}); err != nil {
			tb.Fatalf("s3test: create bucket %s: %v", name, err)
		}
	}
	return client
}
