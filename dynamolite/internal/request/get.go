package request

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// GetItem executes the operation of that name.
//
// A read that is eventually consistent gets the latest item, too. AWS allows an older one, but the
// engine has one copy of each item. Only the price is half.
func (ex *Executor) GetItem(c *api.Call, in *dynamodb.GetItemInput) (*dynamodb.GetItemOutput, error) {
	t, err := ex.Tables.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	if err := CheckConsumedCapacity(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	if err := refuseLegacy(
		parameters{{"AttributesToGet", in.AttributesToGet != nil}}, parameters{{"ProjectionExpression", in.ProjectionExpression != nil}},
	); err != nil {
		return nil, err
	}
	g, err := NewGet(t, in.Key, in.ProjectionExpression, in.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	r, u, err := g.read(ex, c, aws.ToBool(in.ConsistentRead))
	if err != nil {
		return nil, err
	}
	if err := c.Hold(r.Bytes()); err != nil {
		return nil, err
	}
	b := Bill{table: t, Reads: true, Units: u}
	b.enter(c.Op)
	return &dynamodb.GetItemOutput{Item: Projected(r, g.Projection), ConsumedCapacity: b.report(in.ReturnConsumedCapacity)}, nil
}

// Get is a validated read of one item.
type Get struct {
	Table      *table.Table
	Key        storage.ItemKey
	Projection *expr.Projection // nil: everything
}

// NewGet validates a read of one item.
func NewGet(t *table.Table, key value.Item, projection *string, names map[string]string) (g Get, err error) {
	g.Table = t
	if key == nil {
		return g, api.Missing("Key")
	}
	if g.Projection, err = parseProjection(projection, names); err != nil {
		return g, err
	}
	g.Key, err = t.Key.Of(key)
	return g, err
}

// read reads the item, unless its partition has no capacity left. It also returns the cost. The
// room is asked for before the read, and the price is taken after it, because the size of the item
// decides the price.
func (g *Get) read(ex *Executor, c *api.Call, consistent bool) (*storage.Record, table.Units, error) {
	if g.Table.Meter == nil {
		r := g.Table.Shard(&g.Key).Get(c, g.Key.Full)
		return r, table.ReadUnits(r.Bytes(), consistent), nil
	}
	now := ex.Now()
	ds := []Demand{ReadDemand(g.Table, &g.Key, 0)}
	if refusals := RefusalsOf(now, ds); len(refusals) > 0 {
		return nil, 0, Throttled(refusals...)
	}
	r := g.Table.Shard(&g.Key).Get(c, g.Key.Full)
	ds[0].Units = table.ReadUnits(r.Bytes(), consistent)
	Charge(now, ds)
	return r, ds[0].Units, nil
}

// parseProjection parses a projection that is the request's only expression. Values are not allowed
// then: a projection can use none.
func parseProjection(projection *string, names map[string]string) (*expr.Projection, error) {
	env, err := NewEnv("", names, nil, projection)
	if err != nil || projection == nil {
		return nil, err
	}
	p, err := expr.ParseProjection(*projection, env)
	if err != nil {
		return nil, err
	}
	return p, Unused(env)
}

// Projected returns the part of a record that a projection selects. The caller may keep and change
// it.
func Projected(r *storage.Record, p *expr.Projection) value.Item {
	item := r.Item()
	if item == nil || p == nil {
		return item
	}
	return p.Apply(item)
}
