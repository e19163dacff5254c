//go:build conformance

package archive_test

import (
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

func TestOnMoto(t *testing.T) {
	t.Parallel()
	suite(t, s3test.OnMoto(t, peers.Moto(t), bucket))
}

// An object has the headers that other readers use.
func TestObjectsOnMoto(t *testing.T) {
	t.Parallel()
	client := s3test.OnMoto(t, peers.Moto(t), bucket)
	a := open(t, client, "trail")
	put(t, a, event(1, noon))
	put(t, a, event(1, noon))
	put(t, a, event(2, noon.AddDate(0, 0, 1)))
	list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	if err != nil || len(list.Contents) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	key := list.Contents[0].Key
	object, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	body, err := io.ReadAll(object.Body)
	if err != nil || *object.ContentType != "application/x-ndjson" || *object.ContentEncoding != "gzip" || text(t, body) == "" {
		t.Errorf("%+v, %v", object, err)
	}
}
