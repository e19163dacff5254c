package differential_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// ignored are fields that may differ between two engines, or two runs. The status of a table is
// one of them: AWS makes and drops tables in the background and reports it, while the engines
// here have finished when they answer.
var ignored = map[string]bool{
	"ResultMetadata": true, "Message": true, "TableStatus": true, "IndexStatus": true, "Backfilling": true,
	"ItemCount": true, "TableSizeBytes": true, "IndexSizeBytes": true, "WarmThroughput": true,
	"NumberOfDecreasesToday": true, "LastIncreaseDateTime": true, "LastDecreaseDateTime": true,
	"TableId": true, // DynamoDB Local has no such field
}

// present are fields that two engines, or two runs, must both have, with any value.
var present = map[string]bool{
	"CreationDateTime": true, "LastUpdateToPayPerRequestDateTime": true, "LastUpdateDateTime": true,
	"TableArn": true, "IndexArn": true, "LatestStreamArn": true, "LatestStreamLabel": true, "Address": true,
}

// unordered are lists that have no order.
var unordered = map[string]bool{
	"ConsumedCapacity": true, "AttributeDefinitions": true, "GlobalSecondaryIndexes": true, "LocalSecondaryIndexes": true, "Tags": true, "NonKeyAttributes": true,
}

// encode turns an SDK structure into maps, lists and scalars in one form: absent and empty are
// the same, and sets and lists without an order are sorted. Only an item without attributes stays
// distinct from a missing item.
func encode(v any) any { return encodeValue(reflect.ValueOf(v)) }

func encodeValue(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return encodeValue(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if av, ok := reflect.TypeAssert[types.AttributeValue](v); ok {
			return encodeAttribute(av)
		}
		return encodeValue(v.Elem())
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Map:
		return encodeMap(v)
	case reflect.Slice:
		if v.Len() == 0 {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = encodeValue(v.Index(i))
		}
		return list
	case reflect.String:
		if v.Len() == 0 {
			return nil
		}
		return v.String()
	default:
		return v.Interface()
	}
}

func encodeStruct(v reflect.Value) any {
	out := map[string]any{}
	for _, field := range reflect.VisibleFields(v.Type()) {
		if !field.IsExported() || ignored[field.Name] {
			continue
		}
		e := encodeValue(v.FieldByIndex(field.Index))
		if e == nil {
			continue
		}
		if list, ok := e.([]any); ok && unordered[field.Name] {
			sortByText(list)
		}
		if present[field.Name] {
			e = "present"
		}
		out[field.Name] = e
	}
	return out
}

func encodeMap(v reflect.Value) any {
	if item, ok := reflect.TypeAssert[map[string]types.AttributeValue](v); ok {
		if item == nil {
			return nil
		}
		return encodeItem(item)
	}
	if v.Len() == 0 {
		return nil
	}
	out := map[string]any{}
	for it := v.MapRange(); it.Next(); {
		e := encodeValue(it.Value())
		if items, ok := reflect.TypeAssert[[]map[string]types.AttributeValue](it.Value()); ok && len(items) > 0 {
			sortByText(e.([]any)) // the answers of a BatchGetItem have no order
		}
		if metrics, ok := reflect.TypeAssert[[]types.ItemCollectionMetrics](it.Value()); ok && len(metrics) > 0 {
			list := e.([]any) // the collections that a batch touched have no order either, and one may be named several times
			sortByText(list)
			e = slices.CompactFunc(list, func(a, b any) bool { return bytes.Equal(marshal(a), marshal(b)) })
		}
		out[it.Key().String()] = e
	}
	return out
}

func encodeItem(item map[string]types.AttributeValue) any {
	out := map[string]any{}
	for name, v := range item {
		out[shorten(name)] = encodeAttribute(v)
	}
	return out
}

// shorten keeps the golden files small: it shortens a long string to its start, its length and a
// checksum.
func shorten(s string) string {
	if len(s) <= 100 {
		return s
	}
	return fmt.Sprintf("%.5s… %d bytes, crc32 %x", s, len(s), crc32.ChecksumIEEE([]byte(s)))
}

// encodeAttribute follows DynamoDB's JSON, but writes scalars that JSON can distinguish without a
// type: a string is a string, a list a list.
func encodeAttribute(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return shorten(v.Value)
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": base64.StdEncoding.EncodeToString(v.Value)}
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, e := range v.Value {
			list[i] = encodeAttribute(e)
		}
		return list
	case *types.AttributeValueMemberM:
		return map[string]any{"M": encodeItem(v.Value)}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": sorted(v.Value)}
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": sorted(v.Value)}
	case *types.AttributeValueMemberBS:
		var all []string
		for _, b := range v.Value {
			all = append(all, base64.StdEncoding.EncodeToString(b))
		}
		return map[string]any{"BS": sorted(all)}
	default:
		return nil
	}
}

// encodeError keeps the parts of an error that a program may branch on.
func encodeError(err error) any {
	if e, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		out := map[string]any{"error": e.ErrorCode()}
		if e.Item != nil {
			out["Item"] = encodeItem(e.Item)
		}
		return out
	}
	if e, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return map[string]any{"error": e.ErrorCode(), "CancellationReasons": encode(e.CancellationReasons)}
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return map[string]any{"error": e.ErrorCode()}
	}
	return map[string]any{"error": "not an API error: " + err.Error()}
}

func sorted(s []string) []any {
	list := []any{}
	for _, e := range slices.Sorted(slices.Values(s)) {
		list = append(list, e)
	}
	return list
}

func sortByText(list []any) {
	slices.SortFunc(list, func(a, b any) int { return bytes.Compare(marshal(a), marshal(b)) })
}

// marshal writes canonical JSON: only the necessary escapes, and sorted keys.
func marshal(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // v is made of maps, lists and scalars
	}
	return bytes.TrimSpace(buf.Bytes())
}

// reread brings an outcome into the form that it has when read from a golden file, so that the
// two can be compared.
func reread(o outcome) (same outcome) {
	if err := json.Unmarshal(marshal(o), &same); err != nil {
		panic(err)
	}
	return same
}

// fields is an item, or the values of a request, as plain Go values; see attribute.
type fields map[string]any

// values returns the item in the SDK's types.
func (f fields) values() map[string]types.AttributeValue {
	if f == nil {
		return nil
	}
	out := make(map[string]types.AttributeValue, len(f))
	for name, v := range f {
		out[name] = attribute(v)
	}
	return out
}

// with returns a copy of f with the other's attributes added.
func (f fields) with(other fields) fields {
	out := maps.Clone(f)
	maps.Copy(out, other)
	return out
}
