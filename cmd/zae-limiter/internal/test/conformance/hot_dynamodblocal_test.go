//go:build conformance

package conformance_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// TestProcessesOnDynamoDBLocal lets two processes contend for an entity on DynamoDB Local.
func TestProcessesOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	contend(t, peers.DynamoDBLocal(t).Endpoint)
}
