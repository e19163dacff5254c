//go:build conformance

package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/peers"
	"github.com/zeroae/zae-limiter-go/storetest"
)

// The store passes the suite of stores on DynamoDB Local, each test on a namespace of
// its own.
func TestStoreOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	api := peers.DynamoDBLocal(t).Client
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	open := storesOn(api)
	t.Run("Store", func(t *testing.T) { storetest.Run(t, open) })
	t.Run("Limiter", func(t *testing.T) { storetest.RunLimiter(t, storetest.Real, open) })
}

// DynamoDB Local passes the checks that this package makes on the embedded engine.
func TestOnDynamoDBLocal(t *testing.T) { //nolint:paralleltest // costs tell by time which requests go out together
	api := peers.DynamoDBLocal(t).Client
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + checkCosts(t, api, true))
	checkCostOfLimits(t, api)
	checkPlanted(t, api)
	checkMergePlanted(t, api)
	checkUsageCountsOnce(t, api)
	checkUsageRace(t, api)
	checkUsageCosts(t, api, dynamo.ProjectKeys)
	checkUsageInParts(t, api)
	checkUsageBeyond64Bits(t, api)
	checkExpiry(t, api)
	namespaces, err := dynamo.NewNamespaces(dynamo.Options{API: api, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Register(t.Context(), "usage"); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: api, Table: table, Namespace: "usage", Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	checkUsageQueries(t, s, api, 3)
}

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
