//go:build conformance

package stream_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

func TestFollowerOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t)
	if err := dynamo.CreateTable(t.Context(), local.Client, dynamo.TableOptions{Name: table, Stream: true}); err != nil {
		t.Fatal(err)
	}
	f := newFollow(t, local.Client, dynamodbstreams.New(dynamodbstreams.Options{
		Region: peers.Region, BaseEndpoint: aws.String(local.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	}))
	f.o.Poll = 10 * time.Millisecond
	last := 0
	checkFollower(f, func(time.Duration) {
		// until all written records have come
		for want := f.written; last < want; {
			f.mu.Lock()
			for _, r := range f.seen {
				last = max(last, int(r.New.RefilledAt))
			}
			f.mu.Unlock()
		}
	})
}
