package request

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// bound turns the key condition into a shard and a range of keys in it.
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
// bound.
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

// conditionValue checks a value that the condition compares with a key.
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

// resume lets the range begin after an ExclusiveStartKey, which need not exist any more.
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
