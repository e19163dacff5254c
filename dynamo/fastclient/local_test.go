//go:build conformance

package fastclient_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// Callers of DynamoDB Local and of moto learn the same from both clients.
func TestClientOnOtherServers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() string{
		"DynamoDB Local": func() string { return peers.DynamoDBLocal(t).Endpoint }, "moto": func() string { return peers.Moto(t) },
	} {
		cfg := clientConfig(start())
		clients := []dynamo.API{newSDK(cfg), newFast(cfg)}
		if err := dynamo.CreateTable(t.Context(), clients[0], dynamo.TableOptions{Name: table}); err != nil {
			t.Fatal(err)
		}
		for kind, call := range operations() {
			t.Run(name+" "+kind, func(t *testing.T) { //nolint:paralleltest // the calls have one item
				var results [2]learned
				_, _ = call(t.Context(), clients[0]) // leaves what both find
				for i, c := range clients {
					if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: entity()}); err != nil {
						t.Fatal(err)
					}
					results[i] = learn(call(t.Context(), c))
				}
				checkSame(t, results[0], results[1])
			})
		}
	}
}
