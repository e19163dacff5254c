package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
)

// CreateTable makes a table, which is ACTIVE at once. A name that is in use is a
// *types.ResourceInUseException.
func (db *DB) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return run(ctx, db, api.CreateTable, db.tables, in, (*catalog.Tables).CreateTable)
}

// DescribeTable describes a table. Its item counts are exact, unlike those of AWS, which lag by hours.
func (db *DB) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return run(ctx, db, api.DescribeTable, db.tables, in, (*catalog.Tables).DescribeTable)
}

// UpdateTable changes a table: its billing and throughput, its protection against deletion, its
// class, its stream, and its global secondary indexes. It can create or delete one index at a
// time. Everything takes effect at once, even if the answer says UPDATING. The exception is a new
// index: it is CREATING, and cannot be read, until it has the items that existed before.
//
// Errors:
//   - *types.LimitExceededException for the creation or deletion of a second index, in the same
//     request or while one is CREATING, and for a 21st index;
//   - *types.ResourceNotFoundException for a table or an index that does not exist;
//   - a ValidationException for a change that has no effect, where AWS refuses it: the same
//     throughput, a stream that is already on or off.
func (db *DB) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return run(ctx, db, api.UpdateTable, db.tables, in, (*catalog.Tables).UpdateTable)
}

// DeleteTable drops a table, which is gone at once. While an index is being created, the deletion
// fails with a *types.ResourceInUseException. An operation that overlaps with the deletion may
// still succeed on the dropped table, as if it had come first.
func (db *DB) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	return run(ctx, db, api.DeleteTable, db.tables, in, (*catalog.Tables).DeleteTable)
}

// ListTables lists names in alphabetical order, at most 100 at a time.
func (db *DB) ListTables(ctx context.Context, in *dynamodb.ListTablesInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	return run(ctx, db, api.ListTables, db.tables, in, (*catalog.Tables).ListTables)
}

// UpdateTimeToLive names the attribute that holds when an item expires, in seconds since 1970, or
// ends expiry. It is in force at once, and, unlike on AWS, can be changed again at once. A sweep
// deletes expired items at the next multiple of Options.SweepInterval, which is not billed; until then they are
// there. What is not a number, and what lies more than five years back, does not expire.
//
// Enabling what is enabled, disabling what is not, and naming another attribute than the one in force are
// ValidationExceptions.
func (db *DB) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return run(ctx, db, api.UpdateTimeToLive, db.tables, in, (*catalog.Tables).UpdateTimeToLive)
}

// DescribeTimeToLive tells the attribute that holds when an item expires, if there is one.
func (db *DB) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return run(ctx, db, api.DescribeTimeToLive, db.tables, in, (*catalog.Tables).DescribeTimeToLive)
}

// TagResource adds tags to a table, which is named by its ARN, or gives its existing tags another
// value. It sets all of them or none. Errors: *types.ResourceNotFoundException for a table that
// does not exist, or an AccessDeniedException if its ARN has another account or region than the
// ARNs of this engine. A ValidationException is for an ARN that is not a table's, a tag that AWS
// does not allow, and more than 50 tags together.
func (db *DB) TagResource(ctx context.Context, in *dynamodb.TagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	return run(ctx, db, api.TagResource, db.tables, in, (*catalog.Tables).TagResource)
}

// UntagResource removes tags from a table, which is named by its ARN. A missing tag is not an
// error. Errors are those of [DB.TagResource].
func (db *DB) UntagResource(ctx context.Context, in *dynamodb.UntagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.UntagResourceOutput, error) {
	return run(ctx, db, api.UntagResource, db.tables, in, (*catalog.Tables).UntagResource)
}

// ListTagsOfResource lists the tags of a table, which is named by its ARN, in the order of their
// keys. They fit on one page, as on AWS, so there is never a NextToken. A NextToken in the
// request is a ValidationException.
func (db *DB) ListTagsOfResource(ctx context.Context, in *dynamodb.ListTagsOfResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	return run(ctx, db, api.ListTagsOfResource, db.tables, in, (*catalog.Tables).ListTagsOfResource)
}

// The throughput that AWS lets a new account provision, in reads and in writes.
const (
	accountUnits = 80_000
	tableUnits   = 40_000
)

// DescribeLimits returns the limits of a new AWS account on provisioned throughput. The engine itself has none.
func (db *DB) DescribeLimits(ctx context.Context, in *dynamodb.DescribeLimitsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error) {
	return run(ctx, db, api.DescribeLimits, db, in, (*DB).describeLimits)
}

func (db *DB) describeLimits(*api.Call, *dynamodb.DescribeLimitsInput) (*dynamodb.DescribeLimitsOutput, error) {
	return &dynamodb.DescribeLimitsOutput{
		AccountMaxReadCapacityUnits: aws.Int64(accountUnits), AccountMaxWriteCapacityUnits: aws.Int64(accountUnits),
		TableMaxReadCapacityUnits: aws.Int64(tableUnits), TableMaxWriteCapacityUnits: aws.Int64(tableUnits),
	}, nil
}

// DescribeEndpoints returns one endpoint, to be cached for a day. A database in the calling
// process has no address, so the endpoint is localhost. A [Handler] answers with the host that
// the request was sent to.
func (db *DB) DescribeEndpoints(ctx context.Context, in *dynamodb.DescribeEndpointsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error) {
	return run(ctx, db, api.DescribeEndpoints, db, in, (*DB).describeEndpoints)
}

func (db *DB) describeEndpoints(*api.Call, *dynamodb.DescribeEndpointsInput) (*dynamodb.DescribeEndpointsOutput, error) {
	const day = 24 * 60 // minutes
	return &dynamodb.DescribeEndpointsOutput{
		Endpoints: []types.Endpoint{{Address: aws.String("localhost"), CachePeriodInMinutes: day}},
	}, nil
}
