package transact

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// FingerprintOf digests the work of a transaction, independent of the order of its maps. Options
// of the response (ReturnConsumedCapacity) are not part of it.
func FingerprintOf(items []types.TransactWriteItem) history.Fingerprint {
	d := digest{sha256.New()}
	for i := range items {
		switch it := &items[i]; {
		case it.Put != nil:
			d.operation("put", it.Put.TableName, it.Put.Item, it.Put.ConditionExpression, nil,
				it.Put.ExpressionAttributeNames, it.Put.ExpressionAttributeValues)
		case it.Update != nil:
			d.operation("update", it.Update.TableName, it.Update.Key, it.Update.ConditionExpression, it.Update.UpdateExpression,
				it.Update.ExpressionAttributeNames, it.Update.ExpressionAttributeValues)
		case it.Delete != nil:
			d.operation("delete", it.Delete.TableName, it.Delete.Key, it.Delete.ConditionExpression, nil,
				it.Delete.ExpressionAttributeNames, it.Delete.ExpressionAttributeValues)
		case it.ConditionCheck != nil:
			d.operation("check", it.ConditionCheck.TableName, it.ConditionCheck.Key, it.ConditionCheck.ConditionExpression, nil,
				it.ConditionCheck.ExpressionAttributeNames, it.ConditionCheck.ExpressionAttributeValues)
		}
	}
	return history.Fingerprint(d.Sum(nil))
}

// digest writes values so that different values never read the same: every string with its
// length, every collection with its count, every value with its type.
type digest struct{ hash.Hash }

func (d digest) operation(kind string, table *string, item value.Item, condition, update *string, names map[string]string, values value.Item) {
	d.text(kind)
	d.text(aws.ToString(table))
	d.item(item)
	d.text(aws.ToString(condition))
	d.text(aws.ToString(update))
	d.count(len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.text(name)
		d.text(names[name])
	}
	d.item(values)
}

func (d digest) count(n int) {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], uint64(n))
	d.Write(buf[:])
}

func (d digest) text(s string) {
	d.count(len(s))
	d.Write([]byte(s))
}

func (d digest) item(item value.Item) {
	d.count(len(item))
	for _, name := range slices.Sorted(maps.Keys(item)) {
		d.text(name)
		d.value(item[name])
	}
}

func (d digest) value(v value.AV) {
	d.text(value.TypeName(v))
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		d.text(v.Value)
	case *types.AttributeValueMemberN:
		d.text(v.Value)
	case *types.AttributeValueMemberB:
		d.text(string(v.Value))
	case *types.AttributeValueMemberBOOL:
		d.flag(v.Value)
	case *types.AttributeValueMemberNULL:
		d.flag(v.Value)
	case *types.AttributeValueMemberSS:
		d.set(v.Value)
	case *types.AttributeValueMemberNS:
		d.set(v.Value)
	case *types.AttributeValueMemberBS:
		elements := make([]string, len(v.Value))
		for i, b := range v.Value {
			elements[i] = string(b)
		}
		d.set(elements)
	case *types.AttributeValueMemberL:
		d.count(len(v.Value))
		for _, e := range v.Value {
			d.value(e)
		}
	case *types.AttributeValueMemberM:
		d.item(v.Value)
	}
}

func (d digest) flag(b bool) {
	if b {
		d.count(1)
	} else {
		d.count(0)
	}
}

func (d digest) set(elements []string) {
	d.count(len(elements))
	for _, e := range slices.Sorted(slices.Values(elements)) {
		d.text(e)
	}
}
