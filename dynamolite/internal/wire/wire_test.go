package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// operations are the operations that the handler serves, by client.
var (
	tableOperations = []string{
		"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "BatchGetItem", "BatchWriteItem",
		"TransactGetItems", "TransactWriteItems", "CreateTable", "DescribeTable", "DeleteTable", "ListTables", "UpdateTable",
		"UpdateTimeToLive", "DescribeTimeToLive", "TagResource", "UntagResource", "ListTagsOfResource", "DescribeLimits", "DescribeEndpoints",
	}
	streamOperations = []string{"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"}
)

// A recorder is an HTTP client that keeps the body of the request and gives a fixed answer.
type recorder struct {
	sent, answer []byte
	status       int
}

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	var err error
	if r.sent, err = io.ReadAll(request.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: r.status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(r.answer))}, nil
}

// clientsOf returns the real clients of tables and of streams. They send their requests to the
// recorder.
func clientsOf(r *recorder) (tables, streams reflect.Value) {
	key := credentials.NewStaticCredentialsProvider("key", "secret", "")
	url := aws.String("http://localhost")
	return reflect.ValueOf(dynamodb.New(dynamodb.Options{
			HTTPClient: r, Region: "us-east-1", Credentials: key, Retryer: aws.NopRetryer{}, BaseEndpoint: url, DisableValidateResponseChecksum: true,
		})), reflect.ValueOf(dynamodbstreams.New(dynamodbstreams.Options{
			HTTPClient: r, Region: "us-east-1", Credentials: key, Retryer: aws.NopRetryer{}, BaseEndpoint: url,
		}))
}

// eachOperation calls test with the method of a real client for each operation.
func eachOperation(t *testing.T, r *recorder, test func(t *testing.T, method reflect.Value)) {
	t.Helper()
	tables, streams := clientsOf(r)
	for _, name := range tableOperations {
		t.Run(name, func(t *testing.T) { test(t, tables.MethodByName(name)) })
	}
	for _, name := range streamOperations {
		t.Run(name, func(t *testing.T) { test(t, streams.MethodByName(name)) })
	}
}

// fill sets every part of v to a value other than its zero value, and counts these parts.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Type() == reflect.TypeFor[*time.Time]() {
			v.Elem().Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_000 + int64(*n)).UTC()))
			return
		}
		fill(v.Elem(), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("<é\"\\\n&%d>", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, 0xff, byte(*n)})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, n)
			fill(element, n)
			v.SetMapIndex(key, element)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "ResultMetadata" {
				fill(v.Field(i), n)
			}
		}
	case reflect.Interface:
		fillUnion(v)
	default:
		panic("no value for " + v.Type().String())
	}
}

func fillUnion(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[types.AttributeValue]():
		v.Set(reflect.ValueOf(everyType()))
	case reflect.TypeFor[streamtypes.AttributeValue]():
		v.Set(reflect.ValueOf(&streamtypes.AttributeValueMemberM{Value: map[string]streamtypes.AttributeValue{
			"s": &streamtypes.AttributeValueMemberS{Value: "s"}, "n": &streamtypes.AttributeValueMemberN{Value: "1"},
			"b": &streamtypes.AttributeValueMemberB{Value: []byte("b")}, "bool": &streamtypes.AttributeValueMemberBOOL{Value: true},
			"null": &streamtypes.AttributeValueMemberNULL{Value: true}, "ss": &streamtypes.AttributeValueMemberSS{Value: []string{"a"}},
			"ns": &streamtypes.AttributeValueMemberNS{Value: []string{"1", "2"}}, "bs": &streamtypes.AttributeValueMemberBS{Value: [][]byte{{1}}},
			"l": &streamtypes.AttributeValueMemberL{Value: []streamtypes.AttributeValue{&streamtypes.AttributeValueMemberS{Value: ""}}},
		}}))
	default:
		panic("no value for the union " + v.Type().String())
	}
}

// everyType returns a value with one of each data type, and the empty ones.
func everyType() types.AttributeValue {
	return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"s": &types.AttributeValueMemberS{Value: "\u2028 \x00 😀"}, "": &types.AttributeValueMemberS{Value: ""},
		"n": &types.AttributeValueMemberN{Value: "1.50"}, "b": &types.AttributeValueMemberB{Value: []byte{0, 1, 0xff}},
		"empty b": &types.AttributeValueMemberB{Value: []byte{}},
		"bool":    &types.AttributeValueMemberBOOL{Value: true}, "not": &types.AttributeValueMemberBOOL{Value: false},
		"null": &types.AttributeValueMemberNULL{Value: true}, "ss": &types.AttributeValueMemberSS{Value: []string{"a", "b"}},
		"ns": &types.AttributeValueMemberNS{Value: []string{"1", "2"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}},
		"empty ss": &types.AttributeValueMemberSS{Value: []string{}},
		"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberL{Value: []types.AttributeValue{}},
			&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}},
		}},
	}}
}

// A request of the SDK's client, with every member of the input set, decodes to the input of the
// call: the fields have the names of the wire, and none is lost.
func TestInputsAsTheClientSendsThem(t *testing.T) {
	t.Parallel()
	r := &recorder{status: http.StatusOK}
	eachOperation(t, r, func(t *testing.T, method reflect.Value) {
		t.Helper()
		in := reflect.New(method.Type().In(1).Elem())
		n := 0
		fill(in.Elem(), &n)
		r.answer = []byte("{}")
		if err := call(t, method, in).err; err != nil {
			t.Fatal(err)
		}
		got := reflect.New(in.Type().Elem())
		if err := wire.Decode(r.sent, got.Interface()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in.Interface(), got.Interface()) {
			t.Errorf("the client sent\n%s\nwhich decodes differently:\n%s", r.sent, encoded(t, got.Interface()))
		}
	})
}

// An encoded output, with every member set, is the output that the SDK's client returns.
func TestOutputsAsTheClientReadsThem(t *testing.T) {
	t.Parallel()
	r := &recorder{status: http.StatusOK}
	eachOperation(t, r, func(t *testing.T, method reflect.Value) {
		t.Helper()
		in := reflect.New(method.Type().In(1).Elem())
		out := reflect.New(method.Type().Out(0).Elem())
		n := 0
		fill(in.Elem(), &n)
		fill(out.Elem(), &n)
		r.answer = encoded(t, out.Interface())
		answer := call(t, method, in)
		if answer.err != nil {
			t.Fatalf("%v of %s", answer.err, r.answer)
		}
		metadata := answer.out.Elem().FieldByName("ResultMetadata")
		metadata.SetZero()
		if !reflect.DeepEqual(out.Interface(), answer.out.Interface()) {
			t.Errorf("the answer\n%s\nis read as\n%s", r.answer, encoded(t, answer.out.Interface()))
		}
	})
}

type answer struct {
	out reflect.Value
	err error
}

func call(t *testing.T, method, in reflect.Value) answer {
	t.Helper()
	results := method.Call([]reflect.Value{reflect.ValueOf(context.WithoutCancel(t.Context())), in})
	err, _ := reflect.TypeAssert[error](results[1])
	return answer{results[0], err}
}

func encoded(tb testing.TB, v any) []byte {
	tb.Helper()
	s, ok := v.(smithy.Serializable)
	if !ok {
		tb.Fatalf("%T does not describe itself", v)
	}
	var e wire.Encoder
	s.Serialize(&e)
	return e.Bytes()
}

func TestDecodeItem(t *testing.T) {
	t.Parallel()
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	type item = map[string]types.AttributeValue
	for _, tt := range []struct {
		body string
		want item
	}{
		{`{}`, nil},
		{`{"Item":null}`, nil},
		{`{"Item":{}}`, item{}},
		{`{"item":{"a":{"S":"b"}}}`, nil}, // names are case sensitive
		{" {\r\n\t\"Item\" : { \"a\" : { \"S\" : \"b\" } } } \n", item{"a": str("b")}},
		{`{"Item":{"\u0061":{"\u0053":"\u0062\ud83d\ude00\n"}}}`, item{"a": str("b😀\n")}},
		{`{"Item":{"a":{"S":"b","N":null,"unknown":[{"deep":1}]}},"Unknown":{"S":1,"N":2}}`, item{"a": str("b")}},
		{`{"Item":{"a":{"NULL":true},"b":{"NULL":false},"c":{"BOOL":false}}}`, item{
			"a": &types.AttributeValueMemberNULL{Value: true}, "b": &types.AttributeValueMemberNULL{}, "c": &types.AttributeValueMemberBOOL{},
		}},
		{`{"Item":{"a":{"M":{}},"b":{"L":[]},"c":{"SS":[]},"d":{"B":""}}}`, item{
			"a": &types.AttributeValueMemberM{Value: item{}}, "b": &types.AttributeValueMemberL{Value: []types.AttributeValue{}},
			"c": &types.AttributeValueMemberSS{Value: []string{}}, "d": &types.AttributeValueMemberB{Value: []byte{}},
		}},
	} {
		var in dynamodb.PutItemInput
		if err := wire.Decode([]byte(tt.body), &in); err != nil {
			t.Errorf("%s: %v", tt.body, err)
		} else if !reflect.DeepEqual(in.Item, tt.want) {
			t.Errorf("%s decodes to %#v, want %#v", tt.body, in.Item, tt.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"Item":{"a":` + strings.Repeat(`{"L":[`, levels) + `{"S":""}` + strings.Repeat(`]}`, levels) + `}}`
	}
	const serialization, validation = wire.SerializationException, wire.ValidationException
	for _, tt := range []struct{ body, code, mention string }{
		{``, serialization, "not valid JSON"},
		{`{`, serialization, "not valid JSON"},
		{`{}{}`, serialization, "not valid JSON"},
		{`{"Item":{"a":{"S":"b"}}`, serialization, "not valid JSON"},
		{`{"TableName":"a",}`, serialization, "not valid JSON"},
		{`{'TableName':'a'}`, serialization, "not valid JSON"},
		{"{\"TableName\":\"\xff\"}", serialization, "UTF-8"},
		{`{"TableName":"\ud800"}`, serialization, "not valid JSON"},
		{`{"TableName":"a","TableName":"b"}`, serialization, "duplicate"},
		{`{"Item":{"a":{"S":"b"},"a":{"S":"c"}}}`, serialization, "duplicate"},
		{`{"Item":{"a":{"S":"b","S":"c"}}}`, serialization, "duplicate"},
		{`[]`, serialization, "cannot be converted"},
		{`"{}"`, serialization, "cannot be converted"},
		{`{"TableName":1}`, serialization, "/TableName"},
		{`{"Item":"a"}`, serialization, "/Item"},
		{`{"Item":[]}`, serialization, "/Item"},
		{`{"Item":{"a":"b"}}`, serialization, "/Item/a"},
		{`{"Item":{"a":{"S":1}}}`, serialization, "/Item/a/S"},
		{`{"Item":{"a":{"N":1}}}`, serialization, "/Item/a/N"},
		{`{"Item":{"a":{"B":true}}}`, serialization, "/Item/a/B"},
		{`{"Item":{"a":{"BOOL":"true"}}}`, serialization, "/Item/a/BOOL"},
		{`{"Item":{"a":{"SS":"b"}}}`, serialization, "/Item/a/SS"},
		{`{"Item":{"a":{"SS":[1]}}}`, serialization, "/Item/a/SS/0"},
		{`{"Item":{"a":{"L":{}}}}`, serialization, "/Item/a/L"},
		{`{"Item":{"a":{"M":[]}}}`, serialization, "/Item/a/M"},
		{`{"ExpressionAttributeNames":{"#a":1}}`, serialization, "/ExpressionAttributeNames/#a"},
		{`{"Item":{"a":{"B":"YQ"}}}`, serialization, "base64"},
		{`{"Item":{"a":{"B":"YR=="}}}`, serialization, "base64"},
		{`{"Item":{"a":{"B":"YQ==\n"}}}`, serialization, "base64"},
		{`{"Item":{"a":{"B":"_w=="}}}`, serialization, "base64"},
		{`{"Item":{"a":{}}}`, validation, "is empty"},
		{`{"Item":{"a":null}}`, validation, "is empty"},
		{`{"Item":{"a":{"S":null}}}`, validation, "is empty"},
		{`{"Item":{"a":{"s":"b"}}}`, validation, "is empty"},
		{`{"Item":{"a":{"L":[{"S":"b"},null]}}}`, validation, "is empty"},
		{`{"Item":{"a":{"L":[{}]}}}`, validation, "is empty"},
		{`{"Item":{"a":{"S":"b","N":"1"}}}`, validation, "more than one"},
		{`{"Item":{"a":{"M":{"c":{"SS":[],"BOOL":false}}}}}`, validation, "more than one"},
		{`{"Item":{"a":{"NS":["1",null]}}}`, validation, "null"},
		{`{"Item":{"a":{}}`, serialization, "not valid JSON"}, // invalid JSON is reported before any other fault
		{nested(1000), validation, "Nesting Levels"},
		{nested(100_000), serialization, "depth"},
		{`{"Unknown":` + strings.Repeat("[", 100_000), serialization, "depth"},
	} {
		var in dynamodb.PutItemInput
		err := wire.Decode([]byte(tt.body), &in)
		shown := tt.body[:min(len(tt.body), 80)]
		if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Code != tt.code || !strings.Contains(err.Error(), tt.mention) {
			t.Errorf("%s: got %v, want %s that mentions %q", shown, err, tt.code, tt.mention)
		}
	}
	for _, body := range []string{`{"Limit":"5"}`, `{"Limit":5.5}`, `{"Limit":3000000000}`, `{"ConsistentRead":"true"}`, `{"Select":1}`} {
		err := wire.Decode([]byte(body), &dynamodb.QueryInput{})
		if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Code != serialization {
			t.Errorf("%s: got %v, want a SerializationException", body, err)
		}
	}
}

// The engine allows 31 nested lists in an attribute. The decoder must let one more through, so
// that the engine can reject it.
func TestDecodeReachesTheEnginesLimit(t *testing.T) {
	t.Parallel()
	body := `{"Item":{"a":` + strings.Repeat(`{"M":{"a":`, 33) + `{"S":""}` + strings.Repeat(`}}`, 33) + `}}`
	if err := wire.Decode([]byte(body), &dynamodb.PutItemInput{}); err != nil {
		t.Error(err)
	}
}

func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	var e wire.Encoder
	e.WriteError("a#B", "say \"what\"\n")
	if got, want := string(e.Bytes()), `{"__type":"a#B","message":"say \"what\"\n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	e.Reset()
	e.WriteModeledError("a#C", &types.ConditionalCheckFailedException{
		Message: aws.String("no"), Item: map[string]types.AttributeValue{"a": &types.AttributeValueMemberS{Value: "b"}},
	})
	if got, want := string(e.Bytes()), `{"__type":"a#C","Item":{"a":{"S":"b"}},"message":"no"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A string that is not UTF-8 must not make the answer invalid JSON.
func TestEncodeInvalidUTF8(t *testing.T) {
	t.Parallel()
	got := encoded(t, &dynamodb.GetItemOutput{Item: map[string]types.AttributeValue{"\xff": &types.AttributeValueMemberS{Value: "a\xc3"}}})
	if want := `{"Item":{"�":{"S":"a�"}}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Every error of the API, encoded with every member set, is the error that the SDK's client
// returns.
func TestErrorsAsTheClientReadsThem(t *testing.T) {
	t.Parallel()
	r := &recorder{status: http.StatusBadRequest}
	tables, streams := clientsOf(r)
	read := 0
	for _, tt := range []struct {
		errors *smithy.TypeRegistry
		method reflect.Value
	}{
		{dynamodb.TypeRegistry, tables.MethodByName("DescribeLimits")},
		{dynamodbstreams.TypeRegistry, streams.MethodByName("ListStreams")},
	} {
		for name, entry := range tt.errors.Entries {
			want, ok := entry.New().(wire.ModeledError)
			if !ok {
				continue
			}
			read++
			n := 0
			fill(reflect.ValueOf(want).Elem(), &n)
			reflect.ValueOf(want).Elem().FieldByName("ErrorCodeOverride").SetZero() // not on the wire
			var e wire.Encoder
			e.WriteModeledError("com.amazonaws.dynamodb.v20120810#"+want.ErrorCode(), want)
			r.answer = e.Bytes()
			err := call(t, tt.method, reflect.New(tt.method.Type().In(1).Elem())).err
			for err != nil && reflect.TypeOf(err) != reflect.TypeOf(want) {
				err = errors.Unwrap(err)
			}
			if got := any(err); !reflect.DeepEqual(got, any(want)) {
				t.Errorf("%s: the answer %s is read as %v", name, r.answer, err)
			}
		}
	}
	if read < 30 {
		t.Errorf("the API describes %d errors, want 30 at least", read)
	}
}
