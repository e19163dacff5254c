//go:build conformance

package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/peers"
)

// What this package is held to on the embedded engine, on DynamoDB Local.
func TestOnDynamoDBLocal(t *testing.T) { //nolint:paralleltest // costs tell by time which requests go out together
	api := peers.DynamoDBLocal(t).Client
	if err := dynamo.CreateTable(t.Context(), api, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + checkCosts(t, api, true))
	checkCostOfLimits(t, api)
	checkPlanted(t, api)
}
