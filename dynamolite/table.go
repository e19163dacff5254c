package dynamolite

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// tableShards is how many locks a table has.
const tableShards = 64

// table is a table that exists: the properties fixed at its creation, its items, and the schema
// in force.
type table struct {
	name    string
	number  int // in order of creation: the order in which a transaction locks tables
	created time.Time
	key     keySchema

	shards   [tableShards]shard
	counters *counters
	meter    *wall.Meter // nil: no limits; made before the table is known

	// current is replaced, never changed in place, and only with all shards locked. A schema that
	// a write finds while it holds its shard stays in force until it releases the shard.
	current atomic.Pointer[schema]
	// altering is held from the reading of the schema to its replacement. It is taken before the
	// shards.
	altering sync.Mutex
	retired  bool          // deleted; guarded by altering
	altered  atomic.Uint64 // position of the last alteration
}

// schema returns the schema in force now.
func (t *table) schema() *schema { return t.current.Load() }

func (t *table) shard(k *itemKey) *shard { return &t.shards[k.shard] }

// lockAll stops all writes and reads of the table.
func (t *table) lockAll() {
	for i := range t.shards {
		t.shards[i].mu.Lock()
	}
}

func (t *table) unlockAll() {
	for i := range t.shards {
		t.shards[i].mu.Unlock()
	}
}

// describe returns the description for the API. Counts are exact and current.
func (t *table) describe(status types.TableStatus) *types.TableDescription {
	s := t.schema()
	records, bytes := census(t.shards[:])
	d := &types.TableDescription{
		TableName:                 aws.String(t.name),
		TableArn:                  aws.String(t.arn()),
		TableId:                   aws.String(fmt.Sprintf("00000000-0000-4000-8000-%012d", t.number)),
		TableStatus:               status,
		CreationDateTime:          aws.Time(t.created),
		KeySchema:                 t.key.describe(),
		AttributeDefinitions:      make([]types.AttributeDefinition, 0, len(s.kinds)),
		ItemCount:                 aws.Int64(records),
		TableSizeBytes:            aws.Int64(bytes),
		DeletionProtectionEnabled: aws.Bool(s.protected),
		ProvisionedThroughput:     describeThroughput(s.capacity),
	}
	for _, a := range s.kinds {
		d.AttributeDefinitions = append(d.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(*a.AttributeName), AttributeType: a.AttributeType,
		})
	}
	if !s.onDemandSince.IsZero() { // on-demand now or earlier
		d.BillingModeSummary = &types.BillingModeSummary{
			BillingMode: cmp.Or(s.billing, types.BillingModeProvisioned), LastUpdateToPayPerRequestDateTime: aws.Time(s.onDemandSince),
		}
	}
	if s.stream != nil {
		d.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: s.stream.view}
	}
	if s.latest != nil {
		d.LatestStreamArn, d.LatestStreamLabel = aws.String(s.latest.arn), aws.String(s.latest.label)
	}
	if s.class != "" {
		d.TableClassSummary = &types.TableClassSummary{TableClass: s.class}
	}
	for _, x := range s.indexes {
		records, bytes := census(x.shards[:])
		projection := &types.Projection{ProjectionType: x.projection}
		projection.NonKeyAttributes = append(projection.NonKeyAttributes, x.include...)
		if x.local {
			d.LocalSecondaryIndexes = append(d.LocalSecondaryIndexes, types.LocalSecondaryIndexDescription{
				IndexName:      aws.String(x.name),
				IndexArn:       aws.String(x.arn()),
				KeySchema:      x.key.describe(),
				Projection:     projection,
				ItemCount:      aws.Int64(records),
				IndexSizeBytes: aws.Int64(bytes),
			})
			continue
		}
		g := types.GlobalSecondaryIndexDescription{
			IndexName:             aws.String(x.name),
			IndexArn:              aws.String(x.arn()),
			IndexStatus:           types.IndexStatusActive,
			KeySchema:             x.key.describe(),
			Projection:            projection,
			ItemCount:             aws.Int64(records),
			IndexSizeBytes:        aws.Int64(bytes),
			ProvisionedThroughput: describeThroughput(s.indexCapacity[x.name]),
		}
		if x.filling.Load() {
			g.IndexStatus, g.Backfilling = types.IndexStatusCreating, aws.Bool(true)
		}
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, g)
	}
	s.describeSettings(d)
	return d
}

func (t *table) arn() string { return tableARN(t.name) }

// tableARN returns the ARN of a table, in an account of zeros and a region of our own.
func tableARN(name string) string { return "arn:aws:dynamodb:dynamolite:000000000000:table/" + name }

// plainTableName returns the name in the ARN of a table, or the text itself if it is no such ARN.
// The engine has one account and one region, so it accepts the ARN of a table in any.
func plainTableName(text string) string {
	const parts = 6 // arn, partition, service, region, account, resource
	fields := strings.SplitN(text, ":", parts)
	if len(fields) != parts || fields[0] != "arn" || fields[1] == "" || fields[2] != "dynamodb" || fields[3] == "" || fields[4] == "" {
		return text
	}
	name, ok := strings.CutPrefix(fields[parts-1], "table/")
	if !ok {
		return text
	}
	return name
}

// indexARN returns the ARN of an index of a table.
func indexARN(table, index string) string { return table + "/index/" + index }

func (s *keySchema) describe() []types.KeySchemaElement {
	out := []types.KeySchemaElement{{AttributeName: aws.String(s.hash.name), KeyType: types.KeyTypeHash}}
	if s.rng.name != "" {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(s.rng.name), KeyType: types.KeyTypeRange})
	}
	return out
}

// describeThroughput shows 0 units for an on-demand table, as AWS does.
func describeThroughput(p types.ProvisionedThroughput) *types.ProvisionedThroughputDescription {
	return &types.ProvisionedThroughputDescription{
		NumberOfDecreasesToday: aws.Int64(0),
		ReadCapacityUnits:      aws.Int64(aws.ToInt64(p.ReadCapacityUnits)),
		WriteCapacityUnits:     aws.Int64(aws.ToInt64(p.WriteCapacityUnits)),
	}
}
