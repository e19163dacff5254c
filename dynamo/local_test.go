//go:build conformance

package dynamo_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store/storetest"
)

// The store passes the suite of stores on DynamoDB Local through package fastclient, each
// test on a namespace of its own.
func TestStoreOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	endpoint := peers.DynamoDBLocal(t).Endpoint
	api := fastclient.New(aws.Config{Region: "us-east-1", Credentials: static, BaseEndpoint: &endpoint})
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
	t.Log("\n" + checkCosts(t, api, costs, true))
	checkCostOfLimits(t, api)
	checkPlanted(t, api)
	checkMergePlanted(t, api)
	checkExpiry(t, api)
	checkNestedCascade(t, api)
}

// DynamoDB Local sends no checksum with a refused write.
func TestARefusalIsQuietOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	checkQuiet(t, peers.DynamoDBLocal(t).Endpoint)
}
