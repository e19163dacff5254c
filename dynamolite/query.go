package dynamolite

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
)

// Query reads a range of one partition of a table or of a secondary index, in order of the sort
// key. A page ends after Limit items or 1 MB, before the filter. It then has a LastEvaluatedKey,
// even if nothing follows. Items with equal keys in an index are ordered by the keys of the
// table.
//
// If a ProjectionExpression or ALL_ATTRIBUTES asks for attributes that a local secondary index
// does not hold, Query fetches the items from the table. Each fetched item is billed to the
// table, separately and whole, and its whole size counts for the 1 MB. A partition of a local
// index and its items are read as of one instant.
func (db *DB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return run(ctx, db, opQuery, in, (*DB).query)
}

func (db *DB) query(c *call, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	q, err := t.newQuery(c, in)
	if err != nil {
		return nil, err
	}
	a, err := q.perform(db, c)
	if err != nil {
		return nil, err
	}
	return &dynamodb.QueryOutput{
		Items: a.items, Count: a.count, ScannedCount: a.scanned, LastEvaluatedKey: a.last, ConsumedCapacity: a.consumed,
	}, nil
}

// query is a validated Query: a reading of a range of one shard.
type query struct{ reading }

func (t *table) newQuery(c *call, in *dynamodb.QueryInput) (*query, error) {
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
	r, err := t.newReading(c, &common)
	if err != nil {
		return nil, err
	}
	q := &query{r}
	q.backward = in.ScanIndexForward != nil && !*in.ScanIndexForward
	env, err := newEnv("FilterExpression and KeyConditionExpression are null", in.ExpressionAttributeNames, in.ExpressionAttributeValues,
		in.KeyConditionExpression, in.FilterExpression, in.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	condition, err := expr.ParseKeyCondition(*in.KeyConditionExpression, env, q.key.hash.name, q.key.rng.name)
	if err != nil {
		return nil, err
	}
	if err := q.parse(&common, env); err != nil {
		return nil, err
	}
	if err := q.checkFilter(); err != nil {
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
		return validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
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
		if q.key.has(name) {
			return validationf("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
		}
	}
	if lacks := q.unprojected(attributes); lacks != nil {
		return invalid("Secondary index %s does not project one or more filter attributes: [%s]", q.index.name, strings.Join(lacks, ", "))
	}
	return nil
}
