package request

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Query executes the operation of that name.
func (ex *Executor) Query(c *api.Call, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	t, err := ex.Tables.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	q, err := newQuery(t, c, in)
	if err != nil {
		return nil, err
	}
	a, err := q.perform(ex, c)
	if err != nil {
		return nil, err
	}
	return &dynamodb.QueryOutput{
		Items: a.items, Count: a.count, ScannedCount: a.scanned, LastEvaluatedKey: a.last, ConsumedCapacity: a.consumed,
	}, nil
}

// query is a validated Query: a reading of a range of one shard. All items with a partition key are
// in one shard of the table, and all entries with one in one shard of the index.
type query struct{ reading }

// newQuery validates a Query. The key condition is parsed first and bound to keys last. An invalid
// filter is therefore reported before a value that cannot be a key.
func newQuery(t *table.Table, c *api.Call, in *dynamodb.QueryInput) (*query, error) {
	common := readRequest{
		query: true,
		index: in.IndexName, consistent: in.ConsistentRead, limit: in.Limit,
		filter: in.FilterExpression, projection: in.ProjectionExpression, selects: in.Select,
		capacity: in.ReturnConsumedCapacity,
	}
	if err := common.check(); err != nil {
		return nil, err
	}
	if err := checkQuery(in); err != nil {
		return nil, err
	}
	r, err := newReading(t, c, &common)
	if err != nil {
		return nil, err
	}
	q := &query{r}
	q.backward = in.ScanIndexForward != nil && !*in.ScanIndexForward
	env, err := NewEnv("FilterExpression and KeyConditionExpression are null", in.ExpressionAttributeNames, in.ExpressionAttributeValues,
		in.KeyConditionExpression, in.FilterExpression, in.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	condition, err := expr.ParseKeyCondition(*in.KeyConditionExpression, env, q.key.Hash.Name, q.key.Rng.Name)
	if err != nil {
		return nil, err
	}
	if err := q.parse(&common, env); err != nil {
		return nil, err
	}
	if err := q.checkFilter(); err != nil {
		return nil, err
	}
	if err := Unused(env); err != nil {
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

// checkQuery validates the parameters that only a Query has. KeyConditions has AWS's error of mixed
// parameters only beside a KeyConditionExpression.
func checkQuery(in *dynamodb.QueryInput) error {
	texts := parameters{
		{"ProjectionExpression", in.ProjectionExpression != nil},
		{"FilterExpression", in.FilterExpression != nil},
		{"KeyConditionExpression", in.KeyConditionExpression != nil},
	}
	err := refuseLegacy(parameters{
		{"AttributesToGet", in.AttributesToGet != nil},
		{"QueryFilter", in.QueryFilter != nil},
		{"ConditionalOperator", in.ConditionalOperator != ""},
		{"KeyConditions", in.KeyConditions != nil && in.KeyConditionExpression != nil}, // AWS lets it stand beside the other expressions
	}, texts)
	switch {
	case err != nil:
		return err
	case in.KeyConditions != nil:
		return refuseLegacy(parameters{{"KeyConditions", true}}, nil)
	case in.KeyConditionExpression == nil:
		return api.Validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	return nil
}

// checkFilter returns an error for a filter that uses the keys of the query, or attributes that the
// index does not hold. This applies even if a local index would fetch the attributes. The filter
// sees the entry alone, never the fetched item.
func (q *query) checkFilter() error {
	if q.filter == nil {
		return nil
	}
	attributes := q.filter.Attributes()
	for _, name := range attributes {
		if q.key.Has(name) {
			return api.Validationf("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
		}
	}
	if lacks := q.unprojected(attributes); lacks != nil {
		return api.Invalid("Secondary index %s does not project one or more filter attributes: [%s]", q.index.Name, strings.Join(lacks, ", "))
	}
	return nil
}

// bound turns the key condition into a shard and a range of keys in it.
//
// The shard of the table is held for a local index. Both have the same partition key, so one lock
// covers the items of all entries.
func (q *query) bound(c *expr.KeyCondition) error {
	hash, err := conditionValue(&q.key.Hash, c.Hash)
	if err != nil {
		return err
	}
	prefix := value.AppendKey(nil, hash)
	n := storage.ShardOf(prefix)
	q.shards, q.partition = q.shards[n:n+1], wall.PartitionOf(prefix)
	if q.index != nil && q.index.Local {
		q.held = &q.table.Shards[storage.ShardOf(prefix)]
	}
	partition := string(prefix)
	if c.Range == nil {
		q.keys = storage.Range{Low: partition, High: storage.PrefixEnd(partition)}
		return nil
	}
	q.keys, err = q.rangeOf(partition, c.Range)
	return err
}

// rangeOf returns the keys of a partition that satisfy a condition on the sort key. The key of an
// index entry continues after the sort key. Therefore "equal" is itself a range, and so is every
// bound. No encoding of a value is a prefix of another. All keys that begin with the encoded sort
// key therefore have just this sort key, and [storage.PrefixEnd] is the first key after them.
func (q *query) rangeOf(partition string, c *expr.RangeCondition) (r storage.Range, err error) {
	low, err := conditionValue(&q.key.Rng, c.Low)
	if err != nil {
		return r, err
	}
	at := partition + string(value.AppendKey(nil, low))
	end := storage.PrefixEnd(partition)
	switch c.Op {
	case expr.Eq:
		return storage.Range{Low: at, High: storage.PrefixEnd(at)}, nil
	case expr.Lt:
		return storage.Range{Low: partition, High: at}, nil
	case expr.Le:
		return storage.Range{Low: partition, High: storage.PrefixEnd(at)}, nil
	case expr.Gt:
		return storage.Range{Low: storage.PrefixEnd(at), High: end}, nil
	case expr.Ge:
		return storage.Range{Low: at, High: end}, nil
	case expr.Between:
		high, err := conditionValue(&q.key.Rng, c.High)
		if err != nil {
			return r, err
		}
		if order, ok := value.Compare(low, high); ok && order > 0 {
			return r, api.Validation("Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
		}
		return storage.Range{Low: at, High: storage.PrefixEnd(partition + string(value.AppendKey(nil, high)))}, nil
	default: // expr.BeginsWith
		if q.key.Rng.Kind == types.ScalarAttributeTypeN {
			return r, api.Validation("Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N")
		}
		at = partition + string(value.AppendKeyPrefix(nil, low))
		return storage.Range{Low: at, High: storage.PrefixEnd(at)}, nil
	}
}

// conditionValue checks a value that the condition compares with a key. The problems are those of a
// key in an item, but AWS has other texts for some of them here.
func conditionValue(a *storage.KeyAttribute, v value.AV) (value.AV, error) {
	checked, problem, err := a.Check(v)
	switch {
	case err != nil:
		return nil, err
	case problem == storage.KeyMistyped:
		return nil, api.Invalid("Condition parameter type does not match schema type")
	case problem == storage.KeyEmpty:
		return nil, api.Validationf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", a.Name)
	case problem == storage.KeyTooLong:
		return nil, api.Invalid("Size of %s has exceeded the maximum size limit of %d bytes", storage.KeyRole(a), a.Max)
	}
	return checked, nil
}

// resume lets the range begin after an ExclusiveStartKey, which need not exist any more. A position
// is a key and not a count. Items that come or go between two pages neither repeat nor hide others.
func (q *query) resume(start value.Item) error {
	_, at, err := q.startKey(start)
	if err != nil {
		return err
	}
	if !q.keys.Contains(at) {
		return api.Validation("The provided starting key is outside query boundaries based on provided conditions")
	}
	q.keys = q.keys.After(at, q.backward)
	return nil
}
