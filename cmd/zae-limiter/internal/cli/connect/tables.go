package connect

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// lister is the part of DynamoDB that lists tables.
type lister interface {
	ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error)
}

// Tables lists the names of up to 100 tables, which is one request; none if the connection
// cannot list them.
func Tables(ctx context.Context, api dynamo.API) ([]string, error) {
	l, ok := api.(lister)
	if !ok {
		return nil, nil
	}
	out, err := l.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		return nil, err
	}
	return out.TableNames, nil
}
