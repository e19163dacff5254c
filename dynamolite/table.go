package dynamolite

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableShards is how many locks a table has.
const tableShards = 64

// table is a table that exists. All but its shards is fixed when it is created.
type table struct {
	name      string
	number    int // in order of creation: the order in which a transaction locks tables
	created   time.Time
	key       keySchema
	kinds     []types.AttributeDefinition
	billing   types.BillingMode
	capacity  types.ProvisionedThroughput // of a provisioned table
	protected bool                        // against deletion

	shards   [tableShards]shard
	counters *counters

	indexes   []*index // by name
	indexKeys []indexKey
	keysIndex map[string]bool // attributes that are a key of some index
	projected map[string]bool // attributes that some index projects by name
	mirrored  bool            // some index projects everything

	indexCapacity []types.ProvisionedThroughput // of a provisioned table, by position of the index
}

func (t *table) shard(k *itemKey) *shard { return &t.shards[k.shard] }

// index finds an index by name.
func (t *table) index(name string) (*index, error) {
	for _, x := range t.indexes {
		if x.name == name {
			return x, nil
		}
	}
	return nil, validationf("The table does not have the specified index: %s", name)
}

// unindexed tells whether writing these attributes cannot concern any index.
func (t *table) unindexed(touched []string) bool {
	if t.mirrored || touched == nil {
		return len(t.indexes) == 0
	}
	for _, name := range touched {
		if t.projected[name] {
			return false
		}
	}
	return true
}

// describe makes the description that the API returns. Counts are exact and current.
func (t *table) describe(status types.TableStatus) *types.TableDescription {
	records, bytes := census(t.shards[:])
	d := &types.TableDescription{
		TableName:                 aws.String(t.name),
		TableArn:                  aws.String(t.arn()),
		TableId:                   aws.String(fmt.Sprintf("00000000-0000-4000-8000-%012d", t.number)),
		TableStatus:               status,
		CreationDateTime:          aws.Time(t.created),
		KeySchema:                 t.key.describe(),
		AttributeDefinitions:      make([]types.AttributeDefinition, 0, len(t.kinds)),
		ItemCount:                 aws.Int64(records),
		TableSizeBytes:            aws.Int64(bytes),
		DeletionProtectionEnabled: aws.Bool(t.protected),
		ProvisionedThroughput:     describeThroughput(t.capacity),
	}
	for _, a := range t.kinds {
		d.AttributeDefinitions = append(d.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(*a.AttributeName), AttributeType: a.AttributeType,
		})
	}
	if t.billing == types.BillingModePayPerRequest {
		d.BillingModeSummary = &types.BillingModeSummary{
			BillingMode: t.billing, LastUpdateToPayPerRequestDateTime: aws.Time(t.created),
		}
	}
	for i, x := range t.indexes {
		records, bytes := census(x.shards[:])
		projection := &types.Projection{ProjectionType: x.projection}
		projection.NonKeyAttributes = append(projection.NonKeyAttributes, x.include...)
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, types.GlobalSecondaryIndexDescription{
			IndexName:             aws.String(x.name),
			IndexArn:              aws.String(t.arn() + "/index/" + x.name),
			IndexStatus:           types.IndexStatusActive,
			KeySchema:             x.key.describe(),
			Projection:            projection,
			ItemCount:             aws.Int64(records),
			IndexSizeBytes:        aws.Int64(bytes),
			ProvisionedThroughput: describeThroughput(t.indexCapacity[i]),
		})
	}
	return d
}

func (t *table) arn() string {
	return "arn:aws:dynamodb:dynamolite:000000000000:table/" + t.name
}

func (s *keySchema) describe() []types.KeySchemaElement {
	out := []types.KeySchemaElement{{AttributeName: aws.String(s.hash.name), KeyType: types.KeyTypeHash}}
	if s.rng.name != "" {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(s.rng.name), KeyType: types.KeyTypeRange})
	}
	return out
}

// describeThroughput shows 0 units for a table that is paid per request, as AWS does.
func describeThroughput(p types.ProvisionedThroughput) *types.ProvisionedThroughputDescription {
	return &types.ProvisionedThroughputDescription{
		NumberOfDecreasesToday: aws.Int64(0),
		ReadCapacityUnits:      aws.Int64(aws.ToInt64(p.ReadCapacityUnits)),
		WriteCapacityUnits:     aws.Int64(aws.ToInt64(p.WriteCapacityUnits)),
	}
}
