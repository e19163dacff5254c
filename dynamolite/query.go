package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// maxPage is how many bytes of items a Query reads before it ends its page. The item that crosses
// the limit is still part of the page.
const maxPage = 1024 * 1024

// Query reads a range of one partition of a table or of a global secondary index, in order of the
// sort key. A page ends after Limit items or 1 MB, before the filter, and a LastEvaluatedKey says so even if
// nothing follows. Items that tie on the keys of an index are ordered by the keys of the table.
func (db *DB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return run(ctx, db, opQuery, in, (*DB).query)
}

func (db *DB) query(c *call, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	t, err := db.table(in.TableName)
	if err != nil {
		return nil, err
	}
	q, err := t.newQuery(in)
	if err != nil {
		return nil, err
	}
	records, bytes, more := q.shard.page(c, q.keys, q.backward, q.limit, maxPage)
	b := q.bill(bytes)
	b.enter(c.op)
	out := &dynamodb.QueryOutput{
		ScannedCount:     int32(len(records)), //nolint:gosec // a page of 1 MB holds far fewer
		ConsumedCapacity: b.report(in.ReturnConsumedCapacity),
	}
	if !q.countOnly {
		out.Items = []map[string]types.AttributeValue{}
	}
	for _, r := range records {
		if q.filter == nil && q.countOnly {
			out.Count++
			continue
		}
		item := r.item()
		if q.filter != nil {
			if ok, err := q.filter.Eval(item); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		out.Count++
		if !q.countOnly {
			if q.projection != nil {
				item = q.projection.Apply(item)
			}
			out.Items = append(out.Items, item)
		}
	}
	if more {
		out.LastEvaluatedKey = q.position(records[len(records)-1])
	}
	return out, nil
}

// query is a validated Query.
type query struct {
	table      *table
	index      *index     // nil: the table itself
	key        *keySchema // of the index or the table
	shard      *shard
	keys       keyRange
	backward   bool
	consistent bool
	limit      int // 0: none
	filter     *expr.Condition
	projection *expr.Projection
	countOnly  bool
}

func (t *table) newQuery(in *dynamodb.QueryInput) (*query, error) {
	if err := checkQuery(in); err != nil {
		return nil, err
	}
	q := &query{
		table:      t,
		key:        &t.key,
		backward:   in.ScanIndexForward != nil && !*in.ScanIndexForward,
		consistent: aws.ToBool(in.ConsistentRead),
		limit:      int(aws.ToInt32(in.Limit)),
	}
	if in.IndexName != nil {
		x, err := t.schema().index(*in.IndexName)
		if err != nil {
			return nil, err
		}
		if q.consistent {
			return nil, validation("Consistent reads are not supported on global secondary indexes")
		}
		q.index, q.key = x, &x.key
	}
	env, err := newEnv(in.ExpressionAttributeNames, in.ExpressionAttributeValues,
		in.KeyConditionExpression, in.FilterExpression, in.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	condition, err := expr.ParseKeyCondition(*in.KeyConditionExpression, env, q.key.hash.name, q.key.rng.name)
	if err != nil {
		return nil, err
	}
	if err := q.parseFilter(in.FilterExpression, env); err != nil {
		return nil, err
	}
	if err := q.parseSelect(in.Select, in.ProjectionExpression, env); err != nil {
		return nil, err
	}
	if err := unused(env); err != nil {
		return nil, err
	}
	if err := q.bound(condition); err != nil {
		return nil, err
	}
	if in.ExclusiveStartKey != nil {
		return q, q.resume(in.ExclusiveStartKey)
	}
	return q, nil
}

// checkQuery validates what needs no table.
func checkQuery(in *dynamodb.QueryInput) error {
	if err := checkConsumedCapacity(in.ReturnConsumedCapacity); err != nil {
		return err
	}
	err := refuseLegacy(legacy{"KeyConditions", in.KeyConditions != nil}, legacy{"QueryFilter", in.QueryFilter != nil},
		legacy{"ConditionalOperator", in.ConditionalOperator != ""}, legacy{"AttributesToGet", in.AttributesToGet != nil})
	switch {
	case err != nil:
		return err
	case in.KeyConditionExpression == nil:
		return validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	case in.Limit != nil && *in.Limit < 1:
		return validationf("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *in.Limit)
	}
	return nil
}

// parseFilter parses the filter, which may not look at the keys queried by, nor at what an index does not hold.
func (q *query) parseFilter(text *string, env *expr.Env) (err error) {
	if text == nil {
		return nil
	}
	if q.filter, err = expr.ParseCondition(*text, env); err != nil {
		return err
	}
	for _, name := range q.filter.Attributes() {
		if q.key.has(name) {
			return validationf("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
		}
		if q.index != nil && !q.index.projects(name) {
			return invalid("Global secondary index %s does not project %s", q.index.name, name)
		}
	}
	return nil
}

// parseSelect works out what is returned of each item.
func (q *query) parseSelect(what types.Select, projection *string, env *expr.Env) (err error) {
	if projection != nil && what != "" && what != types.SelectSpecificAttributes {
		return validationf("Cannot specify the ProjectionExpression when choosing to get %s", what)
	}
	switch what {
	case "":
	case types.SelectCount:
		q.countOnly = true
	case types.SelectSpecificAttributes:
		if projection == nil {
			return validation("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
		}
	case types.SelectAllAttributes:
		if q.index != nil && q.index.projected != nil {
			return invalid("Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", q.index.name)
		}
	case types.SelectAllProjectedAttributes:
		if q.index == nil {
			return validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
		}
	default:
		return badEnum("select", string(what), "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES")
	}
	if projection == nil {
		return nil
	}
	if q.projection, err = expr.ParseProjection(*projection, env); err != nil {
		return err
	}
	if q.index == nil {
		return nil
	}
	for _, name := range q.projection.TopLevel() {
		if !q.index.projects(name) {
			return invalid("Global secondary index %s does not project %s", q.index.name, name)
		}
	}
	return nil
}

// bill prices the sum of what was read, rounded up once. An index is billed to itself, and
// the table then appears with 0.
func (q *query) bill(bytes int) bill {
	b := bill{table: q.table, reads: true}
	u := readUnits(bytes, q.consistent)
	if q.index == nil {
		b.units = u
	} else {
		b.addIndex(q.index, u)
	}
	return b
}

// position is the LastEvaluatedKey of a page that ends with a record: the keys of the table and of
// the index.
func (q *query) position(r *record) value.Item {
	item := r.item()
	key := make(value.Item, 2*q.key.attributes())
	for _, s := range []*keySchema{q.key, &q.table.key} {
		for _, a := range []*keyAttribute{&s.hash, &s.rng} {
			if a.name != "" {
				key[a.name] = item[a.name]
			}
		}
	}
	return key
}
