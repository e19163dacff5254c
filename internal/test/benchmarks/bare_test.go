package benchmarks_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A bareUpdate sends the limiter's update like a program written by hand for this one
// update. It makes expressions, names and constant values once. For each request it makes
// the key and every value that depends on the request or the clock. It is derived from
// requests that the limiter sent, so that it always matches them.
type bareUpdate struct {
	api            dynamo.API
	request        dynamodb.UpdateItemInput
	prefix, suffix string // of the partition key, around the entity
	values         []bareValue
}

// sequenceNumber is the alias of a write's number at its position.
const sequenceNumber = ":q"

// lastNumber is the last number that a bareUpdate has used.
var lastNumber atomic.Int64

// A bareValue is one value of the expressions.
type bareValue struct {
	alias    string
	constant types.AttributeValue // if nil, number is formatted for each request
	number   int64
	unit     int64 // if not 0, number is the instant in this many milliseconds
}

// newBareUpdate derives the update from two requests for the same entity at nearly the same
// instant with different amounts. Values that are equal in both, and are not instants, are
// constants.
func newBareUpdate(api dynamo.API, entity string, sent, other *dynamodb.UpdateItemInput, now time.Time) (*bareUpdate, error) {
	if *sent.UpdateExpression != *other.UpdateExpression || *sent.ConditionExpression != *other.ConditionExpression {
		return nil, fmt.Errorf("two acquires differ in shape: %q, %q", *sent.UpdateExpression, *other.UpdateExpression)
	}
	// Several goroutines send the update to several items: its numbers may overtake each other, and the
	// items were made at different instants.
	condition := strings.NewReplacer(" < "+sequenceNumber, " <> "+sequenceNumber, "=:born", "<=:born").Replace(*sent.ConditionExpression)
	b := &bareUpdate{api: api, request: *sent}
	b.request.ConditionExpression = &condition
	var ok bool
	if b.prefix, b.suffix, ok = strings.Cut(schema.KeyOf(sent.Key).PK, entity); !ok {
		return nil, fmt.Errorf("the key %v does not name %s", schema.KeyOf(sent.Key), entity)
	}
	for alias, v := range sent.ExpressionAttributeValues {
		n, isNumber := v.(*types.AttributeValueMemberN)
		o, same := other.ExpressionAttributeValues[alias].(*types.AttributeValueMemberN)
		if !isNumber || !same {
			return nil, fmt.Errorf("the value %s is no number", alias)
		}
		number, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil {
			return nil, err
		}
		bv := bareValue{alias: alias, number: number}
		switch {
		case alias == sequenceNumber:
			lastNumber.Store(max(number, lastNumber.Load()))
		case closeTo(number, now.UnixMilli(), 60_000):
			bv.unit = 1
		case closeTo(number, now.Unix(), 60):
			bv.unit = 1000
		case n.Value == o.Value:
			bv.constant = v
		}
		b.values = append(b.values, bv)
	}
	return b, nil
}

func closeTo(a, b, by int64) bool { return max(a-b, b-a) <= by }

func (b *bareUpdate) do(ctx context.Context, entity string) error {
	now := time.Now().UnixMilli()
	values := make(map[string]types.AttributeValue, len(b.values))
	for i := range b.values {
		v := &b.values[i]
		switch {
		case v.alias == sequenceNumber:
			values[v.alias] = schema.N(lastNumber.Add(1))
		case v.constant != nil:
			values[v.alias] = v.constant
		case v.unit != 0:
			values[v.alias] = schema.N(now / v.unit)
		default:
			values[v.alias] = schema.N(v.number)
		}
	}
	out, err := b.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: b.request.TableName,
		Key: map[string]types.AttributeValue{
			schema.PK: schema.S(b.prefix + entity + b.suffix),
			schema.SK: schema.S(schema.StateSK),
		},
		UpdateExpression:                    b.request.UpdateExpression,
		ConditionExpression:                 b.request.ConditionExpression,
		ExpressionAttributeNames:            b.request.ExpressionAttributeNames,
		ExpressionAttributeValues:           values,
		ReturnValues:                        b.request.ReturnValues,
		ReturnValuesOnConditionCheckFailure: b.request.ReturnValuesOnConditionCheckFailure,
	})
	if err == nil && len(out.Attributes) == 0 {
		return errors.New("the answer carries no image")
	}
	return err
}

// fund gives an item more writes than a run uses, since nothing refills its hidden write
// limit.
func (b *bareUpdate) fund(ctx context.Context, entity string) error {
	expression := "SET #w = :plenty"
	_, err := b.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: b.request.TableName,
		Key: map[string]types.AttributeValue{
			schema.PK: schema.S(b.prefix + entity + b.suffix),
			schema.SK: schema.S(schema.StateSK),
		},
		UpdateExpression:          &expression,
		ExpressionAttributeNames:  map[string]string{"#w": schema.WCUTokens},
		ExpressionAttributeValues: map[string]types.AttributeValue{":plenty": schema.N(capacity)},
	})
	return err
}
