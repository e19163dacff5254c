package dynamolite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// The handler has every operation of the database.
func TestHandlerHasEveryOperation(t *testing.T) {
	t.Parallel()
	db := reflect.TypeFor[*dynamolite.DB]()
	count := 0
	for m := range db.Methods() {
		const receiverContextInputOptions = 4
		if !m.Type.IsVariadic() || m.Type.NumIn() != receiverContextInputOptions || m.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue
		}
		count++
		service := "DynamoDB_20120810."
		if strings.HasSuffix(m.Type.In(2).Elem().PkgPath(), "/dynamodbstreams") {
			service = "DynamoDBStreams_20120810."
		}
		got := post(t, dynamolite.NewHandler(dynamolite.New(dynamolite.Options{}), dynamolite.HandlerOptions{}), service+m.Name, `{"Unknown":{}}`)
		if strings.Contains(got.kind, "UnknownOperation") || strings.Contains(got.kind, "Serialization") {
			t.Errorf("%s is answered with %s: %s", m.Name, got.kind, got.body)
		}
	}
	if count < 26 {
		t.Errorf("the database has %d operations, want 26 at least", count)
	}
}

// outcome is the result of an operation, as it is on the wire.
type outcome struct {
	Output any
	Code   string // of an error
	Error  any
}

// perform calls the operation that the type of an input identifies.
func perform(t *testing.T, api, in any) outcome {
	t.Helper()
	name := operationOf(in)
	results := reflect.ValueOf(api).MethodByName(name).Call([]reflect.Value{reflect.ValueOf(context.WithoutCancel(t.Context())), reflect.ValueOf(in)})
	if err, _ := reflect.TypeAssert[error](results[1]); err != nil {
		failure, ok := errors.AsType[smithy.APIError](err)
		if !ok {
			t.Fatalf("%s: %v", name, err)
		}
		o := outcome{Code: failure.ErrorCode(), Error: failure.ErrorMessage()}
		if e, ok := errors.AsType[wire.ModeledError](err); ok {
			var encoder wire.Encoder
			encoder.WriteModeledError("", e)
			o.Error = parsed(t, encoder.Bytes())
		}
		return o
	}
	o := outcome{Output: parsed(t, wireForm(t, results[0].Interface()))}
	if m, ok := o.Output.(map[string]any); ok {
		for _, description := range []string{"Table", "TableDescription"} {
			if d, ok := m[description].(map[string]any); ok {
				delete(d, "TableId") // random
			}
		}
	}
	return o
}

// operationOf returns the operation that an input is for.
func operationOf(in any) string { return strings.TrimSuffix(reflect.TypeOf(in).Elem().Name(), "Input") }

// wireForm returns an input or an output as it is on the wire.
func wireForm(tb testing.TB, v any) []byte {
	tb.Helper()
	s, ok := v.(smithy.Serializable)
	if !ok {
		tb.Fatalf("%T does not describe itself", v)
	}
	var e wire.Encoder
	s.Serialize(&e)
	return e.Bytes()
}

func parsed(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// steps returns requests of every kind, successful and not.
func steps() []any {
	every := attrs{
		"pk": str("a"), "sk": str("é\"\\\u2028\n"), "n": num("-1.5e-3"), "b": bin("\x00\xff"), "t": &types.AttributeValueMemberBOOL{Value: true},
		"nil": &types.AttributeValueMemberNULL{Value: true}, "ss": strSet("x", "y"), "ns": &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}}, "m": doc(attrs{"": doc(attrs{})}),
		"l":   &types.AttributeValueMemberL{Value: []types.AttributeValue{str(""), &types.AttributeValueMemberL{Value: []types.AttributeValue{}}}},
		"fpk": str("f"), "fsk": num("7"), "kpk": str("k"),
	}
	indexes, all := types.ReturnConsumedCapacityIndexes, types.ReturnValueAllOld
	allOnFailure := types.ReturnValuesOnConditionCheckFailureAllOld
	condition := func(token string, reasons types.ReturnValuesOnConditionCheckFailure) *dynamodb.TransactWriteItemsInput {
		return &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token, ReturnConsumedCapacity: indexes,
			TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: ptr(otherName), Item: attrs{"id": str(token)}}},
				{ConditionCheck: &types.ConditionCheck{
					TableName: ptr(mainTable), Key: keyed("a", "1"), ConditionExpression: ptr("attribute_not_exists(pk)"),
					ReturnValuesOnConditionCheckFailure: reasons,
				}},
				{Delete: &types.Delete{TableName: ptr(otherName), Key: attrs{"id": str("gone")}}},
				{Update: &types.Update{
					TableName: ptr(mainTable), Key: keyed("u", "1"), UpdateExpression: ptr("ADD n :n"), ExpressionAttributeValues: attrs{":n": num("1")},
				}},
			},
		}
	}
	return []any{
		mainInput(), otherInput(), otherInput(),
		&dynamodb.DescribeTableInput{TableName: ptr(mainTable)},
		&dynamodb.DescribeTableInput{TableName: ptr("none")},
		&dynamodb.ListTablesInput{Limit: ptr(int32(1))},
		&dynamodb.ListTablesInput{ExclusiveStartTableName: ptr(mainTable)},
		condition("fine", ""), condition("fine", ""), condition("fine", allOnFailure),
		&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: every, ReturnConsumedCapacity: indexes},
		&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: with(every, keyed("a", "1")), ReturnValues: all},
		&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: keyed("a", "1"), ConditionExpression: ptr("attribute_not_exists(pk)")},
		&dynamodb.PutItemInput{
			TableName: ptr(mainTable), Item: keyed("a", "1"), ConditionExpression: ptr("n > :n"), ExpressionAttributeValues: attrs{":n": num("9")},
			ReturnValuesOnConditionCheckFailure: allOnFailure,
		},
		&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: keyed("", "")},
		&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: attrs{"pk": num("1"), "sk": str("1")}},
		condition("cancelled", ""), condition("with the item", allOnFailure),
		&dynamodb.GetItemInput{TableName: ptr(mainTable), Key: attrs{"pk": every["pk"], "sk": every["sk"]}, ConsistentRead: ptr(true), ReturnConsumedCapacity: indexes},
		&dynamodb.GetItemInput{TableName: ptr(mainTable), Key: keyed("no", "such")},
		&dynamodb.GetItemInput{
			TableName: ptr(mainTable), Key: keyed("a", "1"), ProjectionExpression: ptr("#l[1], b"), ExpressionAttributeNames: map[string]string{"#l": "l"},
		},
		&dynamodb.UpdateItemInput{
			TableName: ptr(mainTable), Key: keyed("a", "1"), UpdateExpression: ptr("SET n = n + :one REMOVE m DELETE ss :x"),
			ExpressionAttributeValues: attrs{":one": num("1"), ":x": strSet("x")}, ReturnValues: types.ReturnValueUpdatedNew, ReturnConsumedCapacity: indexes,
		},
		&dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: keyed("a", "1"), UpdateExpression: ptr("SET n = ")},
		&dynamodb.UpdateItemInput{TableName: ptr("none"), Key: keyed("a", "1")},
		&dynamodb.QueryInput{
			TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("a")}, Limit: ptr(int32(1)),
			ScanIndexForward: ptr(false),
		},
		&dynamodb.QueryInput{
			TableName: ptr(mainTable), IndexName: ptr(fullIndex), KeyConditionExpression: ptr("fpk = :p AND fsk < :n"), FilterExpression: ptr("size(b) = :s"),
			ExpressionAttributeValues: attrs{":p": str("f"), ":n": num("1e1"), ":s": num("2")}, ReturnConsumedCapacity: indexes,
		},
		&dynamodb.ScanInput{TableName: ptr(mainTable), ReturnConsumedCapacity: indexes},
		&dynamodb.BatchWriteItemInput{ReturnConsumedCapacity: indexes, RequestItems: map[string][]types.WriteRequest{
			otherName: {{PutRequest: &types.PutRequest{Item: attrs{"id": str("1")}}}, {DeleteRequest: &types.DeleteRequest{Key: attrs{"id": str("2")}}}},
		}},
		&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			otherName: {Keys: []attrs{{"id": str("1")}}}, mainTable: {Keys: []attrs{keyed("a", "1")}, ProjectionExpression: ptr("n")},
		}},
		&dynamodb.TransactGetItemsInput{ReturnConsumedCapacity: indexes, TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "1")}}, {Get: &types.Get{TableName: ptr(otherName), Key: attrs{"id": str("no")}}},
		}},
		&dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "1"), ReturnValues: all},
		&dynamodb.UpdateTableInput{TableName: ptr(mainTable), DeletionProtectionEnabled: ptr(true)},
		&dynamodb.DeleteTableInput{TableName: ptr(mainTable)},
		&dynamodb.UpdateTimeToLiveInput{TableName: ptr(mainTable), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: ptr("ttl"), Enabled: ptr(true)}},
		&dynamodb.DescribeTimeToLiveInput{TableName: ptr(mainTable)},
		&dynamodb.TagResourceInput{ResourceArn: ptr("arn:aws:dynamodb:us-east-1:000000000000:table/none"), Tags: []types.Tag{{Key: ptr("a"), Value: ptr("b")}}},
		&dynamodb.UntagResourceInput{ResourceArn: ptr("none"), TagKeys: []string{"a"}},
		&dynamodb.ListTagsOfResourceInput{ResourceArn: ptr("none")},
		&dynamodb.DescribeLimitsInput{},
		&dynamodb.DeleteTableInput{TableName: ptr(otherName)},
		&dynamodb.DeleteTableInput{TableName: ptr(otherName)},
		&dynamodbstreams.ListStreamsInput{},
		&dynamodbstreams.DescribeStreamInput{StreamArn: ptr("arn:aws:dynamodb:us-east-1:000000000000:table/none/stream/2026-01-01T00:00:00.000")},
		&dynamodbstreams.GetRecordsInput{ShardIterator: ptr("none")},
	}
}

// The same requests have the same outcome and the same bill, called directly and over HTTP.
func TestDirectAndHTTP(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	options := dynamolite.Options{Now: func() time.Time { return start }}
	direct, behind := dynamolite.New(options), dynamolite.New(options)
	url := listen(t, dynamolite.NewHandler(behind, dynamolite.HandlerOptions{}))
	clients := map[bool]any{false: clientOf(url), true: streamsClientOf(url)}
	for i, in := range steps() {
		want := perform(t, direct, in)
		streams := strings.HasSuffix(reflect.TypeOf(in).Elem().PkgPath(), "/dynamodbstreams")
		if got := perform(t, clients[streams], in); !reflect.DeepEqual(want, got) {
			t.Errorf("step %d, %T:\ndirect %v\nHTTP   %v", i, in, want, got)
		}
	}
	if want, got := direct.Ledger(), behind.Ledger(); !maps.Equal(want, got) {
		t.Errorf("the direct bill is %v, over HTTP %v", want, got)
	}
}

// A stream read directly and over HTTP holds the same records.
func TestStreamsOverHTTP(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC) // stands still, because iterators contain the time
	db := dynamolite.New(dynamolite.Options{Now: func() time.Time { return start }})
	streams := streamsClientOf(listen(t, dynamolite.NewHandler(db, dynamolite.HandlerOptions{})))
	ctx := t.Context()
	table := otherInput()
	table.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
	if _, err := db.CreateTable(ctx, table); err != nil {
		t.Fatal(err)
	}
	item := attrs{"id": str("1"), "b": bin("\x00\xff"), "l": &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1"), doc(attrs{})}}}
	for _, in := range []attrs{item, with(item, attrs{"n": num("2")})} {
		if _, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: ptr(otherName), Item: in}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := streams.ListStreams(ctx, &dynamodbstreams.ListStreamsInput{TableName: ptr(otherName)})
	if err != nil || len(list.Streams) != 1 {
		t.Fatalf("%v, streams %v", err, list)
	}
	describe := &dynamodbstreams.DescribeStreamInput{StreamArn: list.Streams[0].StreamArn}
	if want, got := perform(t, db, describe), perform(t, streams, describe); !reflect.DeepEqual(want, got) {
		t.Errorf("direct %v\nHTTP   %v", want, got)
	}
	described, err := streams.DescribeStream(ctx, describe)
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	for _, shard := range described.StreamDescription.Shards {
		iterator, err := streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: describe.StreamArn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		get := &dynamodbstreams.GetRecordsInput{ShardIterator: iterator.ShardIterator}
		if want, got := perform(t, db, get), perform(t, streams, get); !reflect.DeepEqual(want, got) {
			t.Errorf("direct %v\nHTTP   %v", want, got)
		}
		out, err := streams.GetRecords(ctx, get)
		if err != nil {
			t.Fatal(err)
		}
		records += len(out.Records)
	}
	if records != 2 {
		t.Errorf("the stream has %d records, want 2", records)
	}
}

// The details that the limiter reads from errors are in them over HTTP too.
func TestTypedErrorsOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(with(keyed("a", "1"), attrs{"n": num("1")}))
	client := clientOf(listen(t, dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{})))
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: ptr(mainTable), Item: keyed("a", "1"), ConditionExpression: ptr("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		t.Fatalf("got %v, want a ConditionalCheckFailedException", err)
	}
	mustEqual(t, "the old item", with(keyed("a", "1"), attrs{"n": num("1")}), failed.Item)
	_, err = client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: ptr(otherName), Item: attrs{"id": str("1")}}},
		{Delete: &types.Delete{
			TableName: ptr(mainTable), Key: keyed("a", "1"), ConditionExpression: ptr("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
	}})
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || len(cancelled.CancellationReasons) != 2 {
		t.Fatalf("got %v, want a TransactionCanceledException for two reasons", err)
	}
	if r := cancelled.CancellationReasons; *r[0].Code != "None" || *r[1].Code != "ConditionalCheckFailed" || r[1].Message == nil || len(r[1].Item) != 3 {
		t.Errorf("the reasons are %s and %s %v with %v", *r[0].Code, *r[1].Code, r[1].Message, r[1].Item)
	}
	_, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: ptr("none"), Key: keyed("a", "1")})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("got %v, want a ResourceNotFoundException", err)
	}
	_, err = client.CreateTable(t.Context(), mainInput())
	if _, ok := errors.AsType[*types.ResourceInUseException](err); !ok {
		t.Errorf("got %v, want a ResourceInUseException", err)
	}
	_, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: attrs{"pk": str("a")}})
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "ValidationException" || e.ErrorMessage() == "" {
		t.Errorf("got %v, want a ValidationException", err)
	}
	_, err = client.ExecuteStatement(t.Context(), &dynamodb.ExecuteStatementInput{Statement: ptr("SELECT * FROM main")})
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "UnknownOperationException" {
		t.Errorf("got %v, want an UnknownOperationException", err)
	}
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: keyed("a", "1")})
	if e, ok := errors.AsType[*types.InternalServerError](err); !ok || !strings.Contains(e.ErrorMessage(), dynamolite.ErrClosed.Error()) {
		t.Errorf("got %v, want an InternalServerError that mentions %q", err, dynamolite.ErrClosed)
	}
}

// A throttled client learns which limit throttles it.
func TestThrottledOverHTTP(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	db := dynamolite.New(dynamolite.Options{Now: func() time.Time { return start }, Limits: dynamolite.Limits{PartitionWriteUnits: 1}})
	client := clientOf(listen(t, dynamolite.NewHandler(fixtureIn(t, db).db, dynamolite.HandlerOptions{})))
	put := &dynamodb.PutItemInput{TableName: ptr(otherName), Item: attrs{"id": str("1")}}
	if _, err := client.PutItem(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	_, err := client.PutItem(t.Context(), put)
	throttled, ok := errors.AsType[*types.ThrottlingException](err)
	if !ok || len(throttled.ThrottlingReasons) != 1 {
		t.Fatalf("got %v, want a ThrottlingException for one reason", err)
	}
	if r := throttled.ThrottlingReasons[0]; r.Reason == nil || r.Resource == nil || !strings.HasSuffix(*r.Resource, "table/"+otherName) {
		t.Errorf("the reason is %v of %v", r.Reason, r.Resource)
	}
}

// Sixty-four clients at the same time lose no request.
func TestConcurrentClients(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const clients, calls = 64, 20
	url := listen(t, dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{}))
	client := clientOf(url)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range calls {
				out, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: ptr(mainTable), Key: keyed("a", "1"), UpdateExpression: ptr("ADD n :one, #mine :one"),
					ExpressionAttributeNames:  map[string]string{"#mine": fmt.Sprint("of", i)},
					ExpressionAttributeValues: attrs{":one": num("1")}, ReturnValues: types.ReturnValueUpdatedNew,
				})
				if err != nil {
					t.Error(err)
					return
				}
				if len(out.Attributes) != 2 || out.Attributes[fmt.Sprint("of", i)] == nil {
					t.Errorf("client %d was answered %v", i, out.Attributes)
				}
			}
		})
	}
	wg.Wait()
	item := f.get(keyed("a", "1"))
	for name, v := range item {
		want := num(strconv.Itoa(calls))
		switch name {
		case "pk", "sk":
			continue
		case "n":
			want = num(strconv.Itoa(clients * calls))
		}
		mustEqual(t, name, want, v)
	}
	if len(item) != clients+3 {
		t.Errorf("the item has %d attributes, want %d", len(item), clients+3)
	}
}

// Empty members are present: callers in languages other than Go read them without a check.
func TestZerosOverHTTP(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	h := dynamolite.NewHandler(db, dynamolite.HandlerOptions{})
	list := post(t, h, "DynamoDB_20120810.ListTables", `{}`)
	if _, err := db.CreateTable(t.Context(), otherInput()); err != nil {
		t.Fatal(err)
	}
	scan := post(t, h, "DynamoDB_20120810.Scan", `{"TableName":"other"}`)
	count := post(t, h, "DynamoDB_20120810.Scan", `{"TableName":"other","Select":"COUNT"}`)
	query := post(t, h, "DynamoDB_20120810.Query",
		`{"TableName":"other","KeyConditionExpression":"id = :i","ExpressionAttributeValues":{":i":{"S":"x"}}}`)
	get := post(t, h, "DynamoDB_20120810.GetItem", `{"TableName":"other","Key":{"id":{"S":"x"}}}`)
	for _, tt := range []struct {
		name, want string
		got        reply
	}{
		{"ListTables", `{"TableNames":[]}`, list},
		{"Scan", `{"Items":[],"Count":0,"ScannedCount":0}`, scan},
		{"Scan that counts", `{"Count":0,"ScannedCount":0}`, count},
		{"Query", `{"Items":[],"Count":0,"ScannedCount":0}`, query},
		{"GetItem", `{}`, get},
	} {
		if string(tt.got.body) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got.body, tt.want)
		}
	}
}

// A request of a client that has gone is not applied.
func TestCanceledRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newPost(t, "DynamoDB_20120810.PutItem", `{"TableName":"main","Item":{"pk":{"S":"a"},"sk":{"S":"b"}}}`)
	w := httptest.NewRecorder()
	dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{}).ServeHTTP(w, r.WithContext(ctx))
	if w.Code != http.StatusInternalServerError || f.get(keyed("a", "b")) != nil {
		t.Errorf("answered %d %s and stored %v", w.Code, w.Body, f.get(keyed("a", "b")))
	}
}

func TestLedgerOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := dynamolite.NewHandler(f.db, dynamolite.HandlerOptions{})
	ledger := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8000/_dynamolite/ledger", http.NoBody))
		if got := w.Header().Get("Content-Type"); got != "application/json" || w.Code != http.StatusOK {
			t.Errorf("answered %d with %s", w.Code, got)
		}
		return w.Body.String()
	}
	if got, want := ledger(), `{"rows":[],"total":{"requests":0,"read_units":0,"write_units":0}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.put(with(keyed("a", "1"), attrs{"fpk": str("f"), "fsk": num("1")}))
	f.get(keyed("a", "1"))
	if _, err := f.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: keyed("a", "1")}); err != nil {
		t.Fatal(err)
	}
	want := `{"rows":[` +
		`{"table":"main","index":"","operation":"GetItem","requests":2,"read_units":1.5,"write_units":0},` +
		`{"table":"main","index":"","operation":"PutItem","requests":1,"read_units":0,"write_units":1},` +
		`{"table":"main","index":"full","operation":"PutItem","requests":1,"read_units":0,"write_units":1}` +
		`],"total":{"requests":3,"read_units":1.5,"write_units":2}}`
	if got := ledger(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Not parallel: the allocations of other tests would be counted.
func TestHandlerAllocationBudget(t *testing.T) {
	const budget = 73 // in addition to those of the engine
	db, in := warmUpdate(t)
	direct := testing.AllocsPerRun(100, func() {
		if _, err := db.UpdateItem(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
	h := dynamolite.NewHandler(db, dynamolite.HandlerOptions{})
	body := string(wireForm(t, in))
	w := &sink{header: http.Header{}}
	request := testing.AllocsPerRun(100, func() { newPost(t, "DynamoDB_20120810.UpdateItem", body) })
	served := math.Inf(1)
	for range 5 { // the race detector makes pools forget at random
		served = min(served, testing.AllocsPerRun(100, func() { h.ServeHTTP(w, newPost(t, "DynamoDB_20120810.UpdateItem", body)) }))
	}
	if got := served - request - direct; got > budget || w.status != http.StatusOK {
		t.Errorf("the protocol makes %v allocations (status %d), more than its budget of %d", got, w.status, budget)
	}
}
