package wire_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// fillElements replaces nil elements of lists and maps by empty ones, as the SDK writes them.
func fillElements(v reflect.Value) {
	filled := func(e reflect.Value) reflect.Value {
		switch {
		case e.Kind() == reflect.Slice && e.IsNil():
			return reflect.MakeSlice(e.Type(), 0, 0)
		case e.Kind() == reflect.Map && e.IsNil():
			return reflect.MakeMap(e.Type())
		}
		fillElements(e)
		return e
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fillElements(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fillElements(field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).Set(filled(v.Index(i)))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, filled(v.MapIndex(key)))
		}
	default:
	}
}

// FuzzDecode: nothing panics, and every error is an *Error. A decoded input encodes to a body
// that decodes to an equal input. There is one exception: the encoder writes a null element (a
// list or a map) of a list or a map as an empty one.
func FuzzDecode(f *testing.F) {
	inputs := []func() smithy.Serializable{
		func() smithy.Serializable { return new(dynamodb.PutItemInput) },
		func() smithy.Serializable { return new(dynamodb.UpdateItemInput) },
		func() smithy.Serializable { return new(dynamodb.QueryInput) },
		func() smithy.Serializable { return new(dynamodb.BatchGetItemInput) },
		func() smithy.Serializable { return new(dynamodb.BatchWriteItemInput) },
		func() smithy.Serializable { return new(dynamodb.TransactWriteItemsInput) },
		func() smithy.Serializable { return new(dynamodb.CreateTableInput) },
		func() smithy.Serializable { return new(dynamodb.UpdateTableInput) },
		func() smithy.Serializable { return new(dynamodbstreams.GetShardIteratorInput) },
	}
	for i, input := range inputs {
		in := input()
		n := 0
		fill(reflect.ValueOf(in).Elem(), &n)
		f.Add(uint8(i), encoded(f, in))
	}
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"Item":{"a":{"L":[{"M":{}},{"SS":[]},null]}}}`, `{"Item":{"a":{"B":"YR=="}}}`, `{"Item":{"\ud83d\ude00":{"NULL":false}}}`,
	} {
		f.Add(uint8(0), []byte(seed))
	}
	f.Add(uint8(4), []byte(`{"RequestItems":{"a":null,"b":[null,{"PutRequest":null}]}}`))
	f.Add(uint8(6), []byte(`{"KeySchema":[null],"ProvisionedThroughput":{"ReadCapacityUnits":-9223372036854775808}}`))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		input := inputs[int(kind)%len(inputs)]
		in := input()
		if err := wire.Decode(body, in); err != nil {
			if _, ok := errors.AsType[*wire.Error](err); !ok {
				t.Errorf("refused with a %T: %v", err, err)
			}
			return
		}
		fillElements(reflect.ValueOf(in))
		again := input()
		text := encoded(t, in)
		if err := wire.Decode(text, again); err != nil {
			t.Fatalf("%q encodes to %q: %v", body, text, err)
		}
		if !reflect.DeepEqual(in, again) {
			t.Errorf("%q decodes differently from its encoding %q", body, text)
		}
	})
}
