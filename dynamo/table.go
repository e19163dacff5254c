package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Projection says what the index of a resource's buckets stores of each bucket.
type Projection string

// The values of [Projection].
const (
	// ProjectKeys stores keys: a write to a bucket that changes no key costs the index
	// nothing.
	ProjectKeys Projection = "keys"
	// ProjectAll stores whole items, as the peer's tables do. Every write to a bucket
	// costs twice. All buckets of a resource share an index partition and its limit of
	// 1000 writes a second.
	ProjectAll Projection = "all"
)

// TableOptions describe a table to create.
type TableOptions struct {
	Name string
	// GSI2Projection is [ProjectKeys] if "".
	GSI2Projection Projection
	// IndexKeys are the keys of new buckets. With "", they are what was recorded, and if nothing was
	// recorded, [SpreadKeys], but [SharedKeys] for a table with [ProjectAll] or local indexes. An existing
	// table can be given others. Stores that are open keep theirs.
	IndexKeys IndexKeys
	// Stream gives the table a stream of old and new images, which an aggregator
	// follows. On AWS, reading the stream is billed.
	Stream bool
	// KeepExpired leaves the expiry of items to the table's owner. Otherwise the table
	// deletes expired items: idle buckets, usage, audit events.
	KeepExpired bool
	// Now gives the time of the table's first records; nil is time.Now.
	Now func() time.Time
	// Principal is the actor that makes the table, as [Options.Principal].
	Principal string
}

// streamView is the stream view that an aggregator needs.
const streamView = types.StreamViewTypeNewAndOldImages

const (
	tableTimeout = 5 * time.Minute // for a context without a deadline
	tablePoll    = 250 * time.Millisecond
)

// CreateTable makes a table, waits until it is ready, and writes its version record and
// the namespace [DefaultNamespace]. It accepts an existing table of that name if its
// keys and indexes fit, so that an interrupted CreateTable can be repeated. Otherwise
// it fails with [store.ErrExists]. On an existing table it switches on expiry if that
// is off; expiry must not be on for another attribute.
//
// The table is billed per request.
func CreateTable(ctx context.Context, api API, o TableOptions) error {
	options, err := Options{API: api, Table: o.Name, Now: o.Now, Principal: o.Principal}.withDefaults()
	if err != nil {
		return err
	}
	switch o.GSI2Projection {
	case "", ProjectKeys, ProjectAll:
	default:
		return &store.ValidationError{Field: "GSI2 projection", Value: string(o.GSI2Projection), Reason: `give "keys" or "all"`}
	}
	switch o.IndexKeys {
	case "", SpreadKeys, SharedKeys:
	default:
		return &store.ValidationError{Field: "index keys", Value: string(o.IndexKeys), Reason: `give "spread" or "shared"`}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tableTimeout)
		defer cancel()
	}
	c, trail, err := options.connect()
	if err != nil {
		return err
	}
	op := "create table " + o.Name
	_, err = conn.Call(ctx, c, op, api.CreateTable, tableInput(o))
	if inUse := (*types.ResourceInUseException)(nil); err != nil && !errors.As(err, &inUse) {
		return err
	}
	table, err := awaitTable(ctx, c, api, op)
	if err != nil {
		return err
	}
	misfit := fits(table, o.GSI2Projection)
	if spec := table.StreamSpecification; misfit == "" && o.Stream && (spec == nil || spec.StreamViewType != streamView) {
		misfit = "it has no stream of old and new images"
	}
	if misfit == "" && o.IndexKeys == SpreadKeys && isPeers(table) {
		misfit = "it has the form of a Python package's table, whose index keys are shared"
	}
	if misfit != "" {
		return fmt.Errorf("%s: %s, use another name: %w", op, misfit, &store.ExistsError{Kind: "table", Name: o.Name})
	}
	if !o.KeepExpired {
		if err := expire(ctx, c, api, op); err != nil {
			return err
		}
	}
	if err := recordTable(ctx, c, o.IndexKeys, table); err != nil {
		return err
	}
	_, err = namespace.Register(ctx, c, trail, DefaultNamespace)
	return err
}

// An index of the table, with the minimum that it must project. Balances change with each
// write, so no index of buckets needs to project them (ADR 002).
type index struct {
	name       string
	projection types.ProjectionType
}

var indexes = [...]index{
	{schema.GSI1, types.ProjectionTypeAll},
	{schema.GSI2, types.ProjectionTypeKeysOnly},
	{schema.GSI3, types.ProjectionTypeKeysOnly},
	{schema.GSI4, types.ProjectionTypeKeysOnly},
}

func tableInput(o TableOptions) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:            &o.Name,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            keySchema(""),
		AttributeDefinitions: keyDefinitions(""),
	}
	if o.Stream {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: streamView}
	}
	for _, ix := range indexes {
		if ix.name == schema.GSI2 && o.GSI2Projection == ProjectAll {
			ix.projection = types.ProjectionTypeAll
		}
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: &ix.name, KeySchema: keySchema(ix.name),
			Projection: &types.Projection{ProjectionType: ix.projection},
		})
		in.AttributeDefinitions = append(in.AttributeDefinitions, keyDefinitions(ix.name)...)
	}
	return in
}

// keySchema is the key of an index, or of the table for "". The names of its attributes
// begin with the index's name.
func keySchema(index string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(index + schema.PK), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(index + schema.SK), KeyType: types.KeyTypeRange},
	}
}

func keyDefinitions(index string) []types.AttributeDefinition {
	return []types.AttributeDefinition{
		{AttributeName: aws.String(index + schema.PK), AttributeType: types.ScalarAttributeTypeS},
		{AttributeName: aws.String(index + schema.SK), AttributeType: types.ScalarAttributeTypeS},
	}
}

// awaitTable polls until the table and its indexes are ready.
func awaitTable(ctx context.Context, c *conn.Conn, api TableAPI, op string) (*types.TableDescription, error) {
	for {
		out, err := conn.Call(ctx, c, op, api.DescribeTable, &dynamodb.DescribeTableInput{TableName: c.Table})
		switch {
		case errors.Is(err, store.ErrNotFound):
			// DescribeTable lags behind CreateTable.
		case err != nil:
			return nil, err
		case ready(out.Table):
			return out.Table, nil
		}
		if err := conn.Sleep(ctx, tablePoll); err != nil {
			return nil, c.Translate(op, fmt.Errorf("waiting for the table: %w", err))
		}
	}
}

func ready(t *types.TableDescription) bool {
	return t.TableStatus == types.TableStatusActive &&
		!slices.ContainsFunc(t.GlobalSecondaryIndexes, func(ix types.GlobalSecondaryIndexDescription) bool {
			return ix.IndexStatus != types.IndexStatusActive
		})
}

// expire switches on the deletion of expired items. AWS takes up to an hour to begin;
// expire does not wait for that.
func expire(ctx context.Context, c *conn.Conn, api TableAPI, op string) error {
	_, refused := conn.Call(ctx, c, op, api.UpdateTimeToLive, &dynamodb.UpdateTimeToLiveInput{
		TableName:               c.Table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(schema.TTL), Enabled: aws.Bool(true)},
	})
	if refused == nil {
		return nil
	}
	// UpdateTimeToLive also fails if expiry is already on, and only the error's text
	// says so.
	out, err := conn.Call(ctx, c, op, api.DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: c.Table})
	if err != nil || out.TimeToLiveDescription == nil {
		return refused
	}
	switch d := out.TimeToLiveDescription; d.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if by := aws.ToString(d.AttributeName); by != schema.TTL {
			return fmt.Errorf("%s: its items expire by the attribute %s instead of %s, use another name: %w", op, by, schema.TTL,
				&store.ExistsError{Kind: "table", Name: *c.Table})
		}
		return nil
	case types.TimeToLiveStatusDisabled, types.TimeToLiveStatusDisabling:
	}
	return refused
}

// Misfit says how the keys and indexes of a table differ from those that this client
// needs, "" if they do not. It accepts either [Projection] of GSI2.
func Misfit(t *types.TableDescription) string { return fits(t, "") }

// fits says how an existing table differs from the needed one, "" if it does not. A
// projection matters only if the caller asked for it.
func fits(t *types.TableDescription, gsi2 Projection) string {
	if !sameKey(t.KeySchema, keySchema("")) {
		return "its key is not PK and SK"
	}
	for _, ix := range indexes {
		at := slices.IndexFunc(t.GlobalSecondaryIndexes, func(d types.GlobalSecondaryIndexDescription) bool {
			return aws.ToString(d.IndexName) == ix.name
		})
		if at < 0 || !sameKey(t.GlobalSecondaryIndexes[at].KeySchema, keySchema(ix.name)) {
			return "it has no index " + ix.name + " of the right key"
		}
		has := types.ProjectionType("")
		if p := t.GlobalSecondaryIndexes[at].Projection; p != nil {
			has = p.ProjectionType
		}
		all := has == types.ProjectionTypeAll
		asked := ix.name == schema.GSI2 && gsi2 != ""
		if ix.projection == types.ProjectionTypeAll && !all || asked && all != (gsi2 == ProjectAll) {
			return "its index " + ix.name + " projects " + string(has)
		}
	}
	return ""
}

func sameKey(a, b []types.KeySchemaElement) bool {
	return slices.EqualFunc(a, b, func(a, b types.KeySchemaElement) bool {
		return aws.ToString(a.AttributeName) == aws.ToString(b.AttributeName) && a.KeyType == b.KeyType
	})
}
