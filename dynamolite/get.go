package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// GetItem reads one item. A missing item is not an error: Item is nil. Every read sees all writes
// acknowledged before it; ConsistentRead only doubles the price.
func (db *DB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return run(ctx, db, opGetItem, in, (*DB).getItem)
}

func (db *DB) getItem(c *call, in *dynamodb.GetItemInput) (*dynamodb.GetItemOutput, error) {
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	if err := checkConsumedCapacity(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	if err := refuseLegacy(
		parameters{{"AttributesToGet", in.AttributesToGet != nil}}, parameters{{"ProjectionExpression", in.ProjectionExpression != nil}},
	); err != nil {
		return nil, err
	}
	g, err := t.newGet(in.Key, in.ProjectionExpression, in.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	r, u, err := g.read(db, c, aws.ToBool(in.ConsistentRead))
	if err != nil {
		return nil, err
	}
	if err := c.holds(r.bytes()); err != nil {
		return nil, err
	}
	b := bill{table: t, reads: true, units: u}
	b.enter(c.op)
	return &dynamodb.GetItemOutput{Item: r.image(g.projection), ConsumedCapacity: b.report(in.ReturnConsumedCapacity)}, nil
}

// get is a validated read of one item.
type get struct {
	table      *table
	key        itemKey
	projection *expr.Projection // nil: everything
}

func (t *table) newGet(key value.Item, projection *string, names map[string]string) (g get, err error) {
	g.table = t
	if key == nil {
		return g, missing("Key")
	}
	if g.projection, err = parseProjection(projection, names); err != nil {
		return g, err
	}
	g.key, err = t.keyOf(key)
	return g, err
}

// read reads the item, unless its partition has no capacity left. It also returns the cost.
func (g *get) read(db *DB, c *call, consistent bool) (*record, units, error) {
	if !db.limited() {
		r := g.table.shard(&g.key).get(c, g.key.full)
		return r, readUnits(r.bytes(), consistent), nil
	}
	now := db.now()
	ds := []demand{g.table.readDemand(&g.key, 0)}
	if refusals := refusalsOf(now, ds); len(refusals) > 0 {
		return nil, 0, throttled(refusals...)
	}
	r := g.table.shard(&g.key).get(c, g.key.full)
	ds[0].units = readUnits(r.bytes(), consistent)
	charge(now, ds)
	return r, ds[0].units, nil
}

// parseProjection parses a projection that is the request's only expression.
func parseProjection(projection *string, names map[string]string) (*expr.Projection, error) {
	env, err := newEnv("", names, nil, projection)
	if err != nil || projection == nil {
		return nil, err
	}
	p, err := expr.ParseProjection(*projection, env)
	if err != nil {
		return nil, err
	}
	return p, unused(env)
}
