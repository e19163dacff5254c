//go:build conformance

package peers

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// S3 is a running moto, which serves S3 and other services.
type S3 struct {
	// Endpoint is its URL, on loopback.
	Endpoint string
	// Client is a client of it, with the SDK's default retries.
	Client *s3.Client
}

// Moto starts a new moto with empty buckets on a free loopback port, waits until it
// answers, and kills it when the test ends.
func Moto(tb testing.TB, buckets ...string) *S3 {
	tb.Helper()
	server := require(tb, "python", "bin", "moto_server")
	var moto *S3
	var err error
	for range 3 { // another process may take the free port before moto does
		_, err = launch(tb, "moto", func(port string) []string {
			return []string{Python(tb), server, "-H", "127.0.0.1", "-p", port}
		}, func(ctx context.Context, endpoint string) error {
			moto = &S3{endpoint, s3.New(s3.Options{
				Region: Region, BaseEndpoint: aws.String(endpoint), UsePathStyle: true,
				Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, ""),
			})}
			_, err := moto.Client.ListBuckets(ctx, &s3.ListBucketsInput{}, func(o *s3.Options) { o.RetryMaxAttempts = 1 })
			return err
		})
		if err == nil {
			break
		}
	}
	if err != nil {
		tb.Fatalf("peers: start moto: %v", err)
	}
	for _, name := range buckets {
		if _, err := moto.Client.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: aws.String(name)}); err != nil {
			tb.Fatalf("peers: create bucket %s: %v", name, err)
		}
	}
	return moto
}
