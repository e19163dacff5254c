package iamtrace

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Of returns the accesses of a request, given the input of an operation of the SDK such as
// a *dynamodb.UpdateItemInput. It reports false for an input that it does not know.
func Of(input any) ([]Access, bool) {
	if one, ok := ofItem(input); ok {
		return []Access{one}, true
	}
	if all := withoutKeys(input); len(all) > 0 {
		return all, true
	}
	switch in := input.(type) {
	case *dynamodb.BatchGetItemInput:
		return ofBatch("dynamodb:BatchGetItem", in.RequestItems, func(of types.KeysAndAttributes) []schema.Item { return of.Keys }), true
	case *dynamodb.BatchWriteItemInput:
		return ofBatch("dynamodb:BatchWriteItem", in.RequestItems, written), true
	case *dynamodb.TransactWriteItemsInput:
		return ofTransaction(in.TransactItems), true
	}
	return nil, false
}

// ofItem returns the access of a request for one item or one partition.
func ofItem(input any) (Access, bool) {
	switch in := input.(type) {
	case *dynamodb.GetItemInput:
		return on("dynamodb:GetItem", in.TableName, in.Key), true
	case *dynamodb.PutItemInput:
		return on("dynamodb:PutItem", in.TableName, in.Item), true
	case *dynamodb.UpdateItemInput:
		return on("dynamodb:UpdateItem", in.TableName, in.Key), true
	case *dynamodb.DeleteItemInput:
		return on("dynamodb:DeleteItem", in.TableName, in.Key), true
	case *dynamodb.QueryInput:
		return ofQuery(in), true
	case *dynamodb.ScanInput:
		// A scan names no keys, so its request carries none.
		return Access{Action: "dynamodb:Scan", Resource: tableOrIndex(in.TableName, in.IndexName)}, true
	}
	return Access{}, false
}

// on is the access of an action on a table that names some items, by their keys or whole.
func on(action string, table *string, items ...schema.Item) Access {
	a := Access{Action: action, Resource: tableOrIndex(table, nil)}
	for _, item := range items {
		a.LeadingKeys = append(a.LeadingKeys, schema.KeyOf(item).PK)
	}
	slices.Sort(a.LeadingKeys)
	a.LeadingKeys = slices.Compact(a.LeadingKeys)
	return a
}

// tableOrIndex is the resource of a request to a table or, unless nil, to one of its
// indexes. A query of an index needs the index's ARN, not the table's ("Using global
// secondary indexes in DynamoDB", and the resource types of the reference).
func tableOrIndex(table, index *string) string {
	resource := "table/" + aws.ToString(table)
	if index != nil {
		resource += "/index/" + *index
	}
	return resource
}

// ofQuery takes the partition key from the condition, which always compares it with =. On
// an index, dynamodb:LeadingKeys has the partition key of the index ("Using IAM policy
// conditions for fine-grained access control").
func ofQuery(in *dynamodb.QueryInput) Access {
	a := Access{Action: "dynamodb:Query", Resource: tableOrIndex(in.TableName, in.IndexName)}
	for part := range strings.SplitSeq(aws.ToString(in.KeyConditionExpression), " AND ") {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if alias, aliased := in.ExpressionAttributeNames[name]; aliased {
			name = alias
		}
		if key, isText := in.ExpressionAttributeValues[value].(*types.AttributeValueMemberS); ok && isText && isPartitionKey(name) {
			a.LeadingKeys = append(a.LeadingKeys, key.Value)
		}
	}
	return a
}

// isPartitionKey reports whether an attribute is the partition key of the table or of one
// of its indexes.
func isPartitionKey(name string) bool { return strings.HasSuffix(name, schema.PK) }

// ofBatch returns one access for each table of a batch: a batch is an action of its own, and
// dynamodb:LeadingKeys has the keys of all its items.
func ofBatch[R any](action string, tables map[string]R, items func(R) []schema.Item) []Access {
	var all []Access
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		all = append(all, on(action, &table, items(tables[table])...))
	}
	return all
}

func written(requests []types.WriteRequest) []schema.Item {
	var items []schema.Item
	for _, r := range requests {
		if r.PutRequest != nil {
			items = append(items, r.PutRequest.Item)
		} else {
			items = append(items, r.DeleteRequest.Key)
		}
	}
	return items
}

// A part is what one part of a transaction does to one item.
type part struct {
	action string
	table  *string
	item   schema.Item
}

// ofTransaction returns the accesses of a transaction's parts: dynamodb:TransactWriteItems
// is no action of IAM ("Using IAM with DynamoDB transactions").
//
// The guide does not say whether conditions see the keys of each part alone, or together
// those of all parts with one action. The access has them together. That is the stricter
// reading: statements that allow all keys together allow each of them alone.
func ofTransaction(writes []types.TransactWriteItem) []Access {
	type at struct{ action, table string }
	items := map[at][]schema.Item{}
	var order []at
	for _, w := range writes {
		p := partOf(w)
		to := at{p.action, aws.ToString(p.table)}
		if items[to] == nil {
			order = append(order, to)
		}
		items[to] = append(items[to], p.item)
	}
	var all []Access
	for _, to := range order {
		a := on(to.action, &to.table, items[to]...)
		a.Transaction = true
		all = append(all, a)
	}
	return all
}

func partOf(w types.TransactWriteItem) part {
	switch {
	case w.Put != nil:
		return part{"dynamodb:PutItem", w.Put.TableName, w.Put.Item}
	case w.Update != nil:
		return part{"dynamodb:UpdateItem", w.Update.TableName, w.Update.Key}
	case w.Delete != nil:
		return part{"dynamodb:DeleteItem", w.Delete.TableName, w.Delete.Key}
	default:
		return part{"dynamodb:ConditionCheckItem", w.ConditionCheck.TableName, w.ConditionCheck.Key}
	}
}
