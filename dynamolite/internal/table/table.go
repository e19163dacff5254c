// Package table holds one table: its schema, its indexes, its settings and its shards, and what a
// request may say about them.
//
// Invariants: a schema in force never changes; an alteration clones it and puts the clone in its
// place while all shards are locked. A write that holds a shard therefore has one schema from its
// evaluation to its application. What is on disk of a table is its [State], and nothing else.
package table

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Table is a table that exists: the properties fixed at its creation, its items, and the schema in
// force. A deleted table lives on in requests that have found it. Their writes have no effect that
// anyone can see. A table of the same name that is created later is another object.
type Table struct {
	Name string
	// Number counts the tables in the order of their creation and is never used twice. It names the
	// table on disk, and transactions lock tables in its order.
	Number  int
	Created time.Time
	// Key is fixed, as on AWS: no operation alters the key of a table.
	Key storage.KeySchema

	Shards [storage.Shards]storage.Shard
	// Counters are those of all tables that have had the name. They are set before the table is
	// known. Requests add to them without a lock.
	Counters *Counters
	Meter    *wall.Meter // nil: no limits; made before the table is known

	// Current is replaced, never changed in place, and only with all shards locked. A schema that
	// a write finds while it holds its shard stays in force until it releases the shard.
	Current atomic.Pointer[Schema]
	// Altering is held from the reading of the schema to its replacement. It is taken before the
	// shards. The shards alone would not do: changing the clone may take long, and writes go on
	// meanwhile. Two alterations must not clone the same schema, because the second would undo the
	// first:
	//
	//	alter 1   clone · add an index ····· put in force
	//	alter 2         clone · add a tag ················· put in force ✗ the index is gone
	Altering sync.Mutex
	// Retired is set when the log has the deletion; guarded by Altering. An alteration that has
	// found the table before then fails as if it had not.
	Retired bool
	// Altered is the position of the last alteration. It is stored before the schema, so that
	// whoever sees the schema sees the position.
	Altered atomic.Uint64
}

// Schema returns the schema in force now.
//
// Two calls may return two schemas, unless the caller holds a shard in between.
func (t *Table) Schema() *Schema { return t.Current.Load() }

// Shard returns the shard of an item.
func (t *Table) Shard(k *storage.ItemKey) *storage.Shard { return &t.Shards[k.Shard] }

// LockAll stops all writes and reads of the table. The order of the shards is that of transactions,
// so an alteration and a transaction never wait for each other.
func (t *Table) LockAll() {
	for i := range t.Shards {
		t.Shards[i].Mu.Lock()
	}
}

// UnlockAll ends LockAll.
func (t *Table) UnlockAll() {
	for i := range t.Shards {
		t.Shards[i].Mu.Unlock()
	}
}

// Describe returns the description for the API. Counts are exact and current. AWS updates its
// counts every six hours. Tests of programs would have to wait for that, so the engine counts on
// each request. One shard is locked at a time, so writes in progress may be counted or not.
func (t *Table) Describe(status types.TableStatus) *types.TableDescription {
	s := t.Schema()
	records, bytes := storage.Census(t.Shards[:])
	d := &types.TableDescription{
		TableName: aws.String(t.Name),
		TableArn:  aws.String(t.ARN()),
		// The same after each restart, because the number is on disk.
		TableId:                   aws.String(fmt.Sprintf("00000000-0000-4000-8000-%012d", t.Number)),
		TableStatus:               status,
		CreationDateTime:          aws.Time(t.Created),
		KeySchema:                 t.Key.Describe(),
		AttributeDefinitions:      make([]types.AttributeDefinition, 0, len(s.kinds)),
		ItemCount:                 aws.Int64(records),
		TableSizeBytes:            aws.Int64(bytes),
		DeletionProtectionEnabled: aws.Bool(s.Protected),
		ProvisionedThroughput:     describeThroughput(s.Capacity),
	}
	for _, a := range s.kinds {
		d.AttributeDefinitions = append(d.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(*a.AttributeName), AttributeType: a.AttributeType,
		})
	}
	if !s.onDemandSince.IsZero() { // on-demand now or earlier
		d.BillingModeSummary = &types.BillingModeSummary{
			BillingMode: cmp.Or(s.Billing, types.BillingModeProvisioned), LastUpdateToPayPerRequestDateTime: aws.Time(s.onDemandSince),
		}
	}
	if s.Stream != nil {
		d.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: s.Stream.View}
	}
	// AWS shows the latest stream without a specification once it is disabled.
	if s.Latest != nil {
		d.LatestStreamArn, d.LatestStreamLabel = aws.String(s.Latest.ARN), aws.String(s.Latest.Label)
	}
	if s.class != "" {
		d.TableClassSummary = &types.TableClassSummary{TableClass: s.class}
	}
	for _, x := range s.Indexes {
		records, bytes := storage.Census(x.Shards[:])
		projection := &types.Projection{ProjectionType: x.projection}
		projection.NonKeyAttributes = append(projection.NonKeyAttributes, x.Include...)
		if x.Local {
			d.LocalSecondaryIndexes = append(d.LocalSecondaryIndexes, types.LocalSecondaryIndexDescription{
				IndexName:      aws.String(x.Name),
				IndexArn:       aws.String(x.arn()),
				KeySchema:      x.Key.Describe(),
				Projection:     projection,
				ItemCount:      aws.Int64(records),
				IndexSizeBytes: aws.Int64(bytes),
			})
			continue
		}
		g := types.GlobalSecondaryIndexDescription{
			IndexName:             aws.String(x.Name),
			IndexArn:              aws.String(x.arn()),
			IndexStatus:           types.IndexStatusActive,
			KeySchema:             x.Key.Describe(),
			Projection:            projection,
			ItemCount:             aws.Int64(records),
			IndexSizeBytes:        aws.Int64(bytes),
			ProvisionedThroughput: describeThroughput(s.IndexCapacity[x.Name]),
		}
		if x.Filling.Load() {
			g.IndexStatus, g.Backfilling = types.IndexStatusCreating, aws.Bool(true)
		}
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, g)
	}
	s.describeSettings(d)
	return d
}

// ARN returns the ARN of the table.
func (t *Table) ARN() string { return api.TableARN(t.Name) }

// describeThroughput shows 0 units for an on-demand table, as AWS does. NumberOfDecreasesToday is
// always 0: the engine sets no limit to them.
func describeThroughput(p types.ProvisionedThroughput) *types.ProvisionedThroughputDescription {
	return &types.ProvisionedThroughputDescription{
		NumberOfDecreasesToday: aws.Int64(0),
		ReadCapacityUnits:      aws.Int64(aws.ToInt64(p.ReadCapacityUnits)),
		WriteCapacityUnits:     aws.Int64(aws.ToInt64(p.WriteCapacityUnits)),
	}
}
