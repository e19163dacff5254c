package dynamolite

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// bound turns the key condition into a shard and a range of keys in it.
func (q *query) bound(c *expr.KeyCondition) error {
	hash, err := conditionValue(&q.key.hash, c.Hash)
	if err != nil {
		return err
	}
	prefix := value.AppendKey(nil, hash)
	n := shardOf(prefix, len(q.shards))
	q.shards, q.partition = q.shards[n:n+1], wall.PartitionOf(prefix)
	if q.index != nil && q.index.local {
		q.held = &q.table.shards[shardOf(prefix, len(q.table.shards))]
	}
	partition := string(prefix)
	if c.Range == nil {
		q.keys = keyRange{partition, prefixEnd(partition)}
		return nil
	}
	q.keys, err = q.rangeOf(partition, c.Range)
	return err
}

// rangeOf returns the keys of a partition that satisfy a condition on the sort key. The key of an
// index entry continues after the sort key. Therefore "equal" is itself a range, and so is every
// bound.
func (q *query) rangeOf(partition string, c *expr.RangeCondition) (r keyRange, err error) {
	low, err := conditionValue(&q.key.rng, c.Low)
	if err != nil {
		return r, err
	}
	at := partition + string(value.AppendKey(nil, low))
	end := prefixEnd(partition)
	switch c.Op {
	case expr.Eq:
		return keyRange{at, prefixEnd(at)}, nil
	case expr.Lt:
		return keyRange{partition, at}, nil
	case expr.Le:
		return keyRange{partition, prefixEnd(at)}, nil
	case expr.Gt:
		return keyRange{prefixEnd(at), end}, nil
	case expr.Ge:
		return keyRange{at, end}, nil
	case expr.Between:
		high, err := conditionValue(&q.key.rng, c.High)
		if err != nil {
			return r, err
		}
		if order, ok := value.Compare(low, high); ok && order > 0 {
			return r, validation("Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
		}
		return keyRange{at, prefixEnd(partition + string(value.AppendKey(nil, high)))}, nil
	default: // expr.BeginsWith
		if q.key.rng.kind == types.ScalarAttributeTypeN {
			return r, validation("Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N")
		}
		at = partition + string(value.AppendKeyPrefix(nil, low))
		return keyRange{at, prefixEnd(at)}, nil
	}
}

// conditionValue checks a value that the condition compares with a key.
func conditionValue(a *keyAttribute, v value.AV) (value.AV, error) {
	checked, problem, err := a.check(v)
	switch {
	case err != nil:
		return nil, err
	case problem == keyMistyped:
		return nil, invalid("Condition parameter type does not match schema type")
	case problem == keyEmpty:
		return nil, validationf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", a.name)
	case problem == keyTooLong:
		return nil, invalid("Size of %s has exceeded the maximum size limit of %d bytes", keyRole(a), a.max)
	}
	return checked, nil
}

// resume lets the range begin after an ExclusiveStartKey, which need not exist any more.
func (q *query) resume(start value.Item) error {
	_, at, err := q.startKey(start)
	if err != nil {
		return err
	}
	if !q.keys.contains(at) {
		return validation("The provided starting key is outside query boundaries based on provided conditions")
	}
	q.keys = q.keys.after(at, q.backward)
	return nil
}

// after returns the rest of a range after a key has been read.
func (r keyRange) after(key string, backward bool) keyRange {
	if backward {
		r.high = key
	} else {
		r.low = key + "\x00" // the next string in order
	}
	return r
}

// everyKey is the range of all keys. No key begins with that many bytes 0xFF: a partition key is
// shorter, and the end mark after it sorts lower.
var everyKey = keyRange{"", strings.Repeat("\xFF", maxHashKey+1)}
