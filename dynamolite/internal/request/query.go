package request

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
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

// query is a validated Query: a reading of a range of one shard.
type query struct{ reading }

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

// checkQuery validates the parameters that only a Query has.
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

// checkFilter returns an error for a filter that uses the keys of the query, or attributes that
// the index does not hold. This applies even if a local index would fetch the attributes.
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
