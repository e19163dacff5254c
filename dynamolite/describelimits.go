package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The throughput that AWS lets a new account provision, in reads and in writes.
const (
	accountUnits = 80_000
	tableUnits   = 40_000
)

// DescribeLimits returns the limits of a new AWS account on provisioned throughput. The engine itself has none.
func (db *DB) DescribeLimits(ctx context.Context, in *dynamodb.DescribeLimitsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error) {
	return run(ctx, db, opDescribeLimits, in, (*DB).describeLimits)
}

func (db *DB) describeLimits(*call, *dynamodb.DescribeLimitsInput) (*dynamodb.DescribeLimitsOutput, error) {
	return &dynamodb.DescribeLimitsOutput{
		AccountMaxReadCapacityUnits: aws.Int64(accountUnits), AccountMaxWriteCapacityUnits: aws.Int64(accountUnits),
		TableMaxReadCapacityUnits: aws.Int64(tableUnits), TableMaxWriteCapacityUnits: aws.Int64(tableUnits),
	}, nil
}

// DescribeEndpoints returns one endpoint, to be cached for a day. A database in the calling
// process has no address, so the endpoint is localhost. A [Handler] answers with the host that
// the request was sent to.
func (db *DB) DescribeEndpoints(ctx context.Context, in *dynamodb.DescribeEndpointsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error) {
	return run(ctx, db, opDescribeEndpoints, in, (*DB).describeEndpoints)
}

func (db *DB) describeEndpoints(*call, *dynamodb.DescribeEndpointsInput) (*dynamodb.DescribeEndpointsOutput, error) {
	const day = 24 * 60 // minutes
	return &dynamodb.DescribeEndpointsOutput{
		Endpoints: []types.Endpoint{{Address: aws.String("localhost"), CachePeriodInMinutes: day}},
	}, nil
}
