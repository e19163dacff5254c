//go:build conformance

package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// A boto is a running boto.py. The peer has no part in its requests.
type boto struct{ *python }

const botoTable = "boto"

// startBoto connects boto3 with an access key and its secret; without keys, its requests
// are not signed.
func startBoto(t *testing.T, local *peers.Served, keys ...string) boto {
	t.Helper()
	b := boto{startScript(t, &local.Local, "python/boto.py")}
	b.connect(keys...)
	return b
}

func (b boto) connect(keys ...string) {
	b.Helper()
	to := args{"endpoint": b.local.Endpoint}
	if len(keys) > 0 {
		to["access_key"], to["secret_key"] = keys[0], keys[1]
	}
	b.do("connect", to, nil)
}

// request sends a request that must succeed, and returns its answer.
func (b boto) request(method string, with args) map[string]any {
	b.Helper()
	request := args{"method": method}
	maps.Copy(request, with)
	var answer map[string]any
	b.do("call", request, &answer)
	return answer
}

// refused sends a request that must fail with a code, and returns its answer.
func (b boto) refused(method, code string, with args) map[string]any {
	b.Helper()
	request := args{"method": method}
	maps.Copy(request, with)
	var response map[string]any
	err := b.try("call", request, nil)
	thrown, ok := errors.AsType[*pythonError](err)
	if !ok || thrown.Class != code || json.Unmarshal([]byte(thrown.Message), &response) != nil {
		b.Fatalf("%s %v: %v, want %s", method, with, err, code)
	}
	return response
}

// same compares values that came through JSON.
func (b boto) same(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(decoded(b.T, want), decoded(b.T, got)); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// decoded converts a value to the types of JSON.
func decoded(t *testing.T, v any) (plain any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func s(v string) args            { return args{"S": v} }
func n(v string) args            { return args{"N": v} }
func botoKey(pk, sk string) args { return args{"pk": s(pk), "sk": s(sk)} }

func hashRange(hash, sort string) []args {
	schema := []args{{"AttributeName": hash, "KeyType": "HASH"}}
	if sort != "" {
		schema = append(schema, args{"AttributeName": sort, "KeyType": "RANGE"})
	}
	return schema
}

// TestBoto3 tests Python's SDK as a client of a zae-limiter local that verifies signatures
// and keeps its data on disk.
func TestBoto3(t *testing.T) {
	t.Parallel()
	local := serve(t, "--data", t.TempDir(), "--access-key", "AKID", "--secret-key", "sesame")
	b := startBoto(t, local, "AKID", "sesame")
	var definitions []args
	for _, name := range []string{"pk", "sk", "of", "at"} {
		definitions = append(definitions, args{"AttributeName": name, "AttributeType": "S"})
	}
	made := b.request("create_table", args{
		"TableName": botoTable, "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": definitions, "KeySchema": hashRange("pk", "sk"),
		"GlobalSecondaryIndexes": []args{{"IndexName": "by-of", "KeySchema": hashRange("of", ""), "Projection": args{"ProjectionType": "ALL"}}},
		"LocalSecondaryIndexes":  []args{{"IndexName": "by-at", "KeySchema": hashRange("pk", "at"), "Projection": args{"ProjectionType": "KEYS_ONLY"}}},
		"StreamSpecification":    args{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
		"Tags":                   []args{{"Key": "team", "Value": "red"}},
	})
	b.do("wait", args{"waiter": "table_exists", "TableName": botoTable}, nil)
	table, _ := made["TableDescription"].(map[string]any)
	arn, _ := table["TableArn"].(string)
	for _, c := range []struct {
		name string
		run  func(boto)
	}{
		{"items", boto.items},
		{"conditions", boto.conditions},
		{"updates", boto.updates},
		{"pages", boto.paging},
		{"batches", boto.batches},
		{"transactions", boto.transactions},
		{"expiry", boto.expiry},
		{"tags", func(b boto) { b.tags(arn) }},
		{"streams", boto.streams},
		{"tables", boto.tables},
		{"what is not there", boto.unknown},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(boto{&python{t, b.pythonProcess}}) })
	}
}

func (b boto) items() {
	item := args{
		"pk": s("items"), "sk": s("héllo \"&<>\\\u2028"), "of": s("x"), "at": s("y"),
		"number": n("-12345678901234567890.123456789012345678"), "binary": args{"B": args{"bytes": "AP+A"}},
		"numbers": args{"NS": []string{"1", "2.5"}}, "strings": args{"SS": []string{"a", "b"}}, "binaries": args{"BS": []args{{"bytes": "AQ=="}}},
		"map": args{"M": args{"list": args{"L": []args{{"NULL": true}, {"BOOL": false}, {"M": args{}}, {"L": []args{}}, s("")}}}},
	}
	key := args{"pk": item["pk"], "sk": item["sk"]}
	put := b.request("put_item", args{"TableName": botoTable, "Item": item, "ReturnConsumedCapacity": "INDEXES"})
	units := func(n float64) args { return args{"CapacityUnits": n} }
	b.same("the bill of a put", put, args{"ConsumedCapacity": args{
		"TableName": botoTable, "CapacityUnits": 3, "Table": units(1),
		"GlobalSecondaryIndexes": args{"by-of": units(1)}, "LocalSecondaryIndexes": args{"by-at": units(1)},
	}})
	got := b.request("get_item", args{"TableName": botoTable, "Key": key, "ReturnConsumedCapacity": "TOTAL"})
	b.same("an item", got, args{"Item": item, "ConsumedCapacity": args{"TableName": botoTable, "CapacityUnits": 0.5}})
	b.same("no item", b.request("get_item", args{"TableName": botoTable, "Key": botoKey("items", "no")}), args{})
	for _, index := range []struct {
		name, condition string
		values          args
	}{
		{"by-of", "#of = :of", args{":of": s("x")}},
		{"by-at", "pk = :pk AND #at > :at", args{":pk": s("items"), ":at": s("a")}},
	} {
		names := args{"#of": "of"}
		if index.name == "by-at" {
			names = args{"#at": "at"}
		}
		found := b.request("query", args{
			"TableName": botoTable, "IndexName": index.name, "KeyConditionExpression": index.condition,
			"ExpressionAttributeNames": names, "ExpressionAttributeValues": index.values, "Select": "COUNT",
		})
		b.same("what index "+index.name+" has", found, args{"Count": 1, "ScannedCount": 1})
	}
	old := b.request("delete_item", args{"TableName": botoTable, "Key": key, "ReturnValues": "ALL_OLD"})
	b.same("a deleted item", old, args{"Attributes": item})
}

func (b boto) conditions() {
	item := botoKey("conditions", "1")
	put := args{"TableName": botoTable, "Item": item, "ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
	b.request("put_item", put)
	response := b.refused("put_item", "ConditionalCheckFailedException", put)
	b.same("the item in the way", response["Item"], item)
	b.same("its message", response["Error"], args{"Code": "ConditionalCheckFailedException", "Message": "The conditional request failed"})
}

func (b boto) updates() {
	update := func(returns string) map[string]any {
		return b.request("update_item", args{
			"TableName": botoTable, "Key": botoKey("updates", "1"), "ReturnValues": returns,
			"UpdateExpression":          "SET #c = if_not_exists(#c, :start) + :step ADD seen :who REMOVE gone",
			"ExpressionAttributeNames":  args{"#c": "count"},
			"ExpressionAttributeValues": args{":start": n("99999999999999999999999999999999999990"), ":step": n("1"), ":who": args{"SS": []string{"a"}}},
		})
	}
	b.same("a new item", update("UPDATED_NEW"), args{"Attributes": args{"count": n("99999999999999999999999999999999999991"), "seen": args{"SS": []string{"a"}}}})
	b.same("what it was", update("UPDATED_OLD"), args{"Attributes": args{"count": n("99999999999999999999999999999999999991"), "seen": args{"SS": []string{"a"}}}})
	b.same("nothing asked for", update("NONE"), args{})
}

func (b boto) paging() {
	for i := range 25 {
		b.request("put_item", args{"TableName": botoTable, "Item": botoKey("pages", fmt.Sprintf("%02d", i))})
	}
	query := args{
		"method": "query", "TableName": botoTable, "KeyConditionExpression": "pk = :pk", "ScanIndexForward": false,
		"ExpressionAttributeValues": args{":pk": s("pages")}, "PaginationConfig": args{"PageSize": 10},
	}
	scan := args{
		"method": "scan", "TableName": botoTable, "FilterExpression": "pk = :pk",
		"ExpressionAttributeValues": args{":pk": s("pages")}, "PaginationConfig": args{"PageSize": 7},
	}
	for _, request := range []args{query, scan} {
		var pages []struct {
			Items            []args
			Count            int
			LastEvaluatedKey args
		}
		b.do("pages", request, &pages)
		seen := map[string]bool{}
		var order []string
		for i, page := range pages {
			if page.Count != len(page.Items) || (page.LastEvaluatedKey == nil) != (i == len(pages)-1) {
				b.Errorf("%v: page %d of %d: %+v", request["method"], i, len(pages), page)
			}
			for _, item := range page.Items {
				text := fmt.Sprint(item["sk"])
				seen[text] = true
				order = append(order, text)
			}
		}
		if len(seen) != 25 || len(order) != 25 || len(pages) < 3 {
			b.Errorf("%v: %d items, %d of them different, on %d pages", request["method"], len(order), len(seen), len(pages))
		}
		if slices.Reverse(order); request["method"] == "query" && !slices.IsSorted(order) {
			b.Errorf("a backward query has the order %v", order)
		}
	}
	var pages []struct{ TableNames []string }
	b.do("pages", args{"method": "list_tables"}, &pages)
	b.same("the tables", pages, []args{{"TableNames": []string{botoTable}}})
}

func (b boto) batches() {
	var writes []args
	keys := []args{botoKey("batches", "none")}
	for i := range 25 {
		key := botoKey("batches", strconv.Itoa(i))
		writes, keys = append(writes, args{"PutRequest": args{"Item": key}}), append(keys, key)
	}
	wrote := b.request("batch_write_item", args{"RequestItems": args{botoTable: writes}, "ReturnConsumedCapacity": "TOTAL"})
	b.same("a batch of writes", wrote, args{"UnprocessedItems": args{}, "ConsumedCapacity": []args{{"TableName": botoTable, "CapacityUnits": 25}}})
	read := b.request("batch_get_item", args{"RequestItems": args{botoTable: args{"Keys": keys, "ConsistentRead": true}}, "ReturnConsumedCapacity": "TOTAL"})
	responses, _ := read["Responses"].(map[string]any)
	if found, _ := responses[botoTable].([]any); len(found) != 25 {
		b.Errorf("a batch of reads found %d of 25 items", len(found))
	}
	delete(read, "Responses")
	b.same("its bill", read, args{"UnprocessedKeys": args{}, "ConsumedCapacity": []args{{"TableName": botoTable, "CapacityUnits": 26}}})
	b.refused("batch_write_item", "ValidationException", args{"RequestItems": args{botoTable: append(writes, writes[0])}})
}

func (b boto) transactions() {
	item := botoKey("transactions", "1")
	item["n"] = n("5")
	transact := func(token, amount string) args {
		return args{"ClientRequestToken": token, "ReturnConsumedCapacity": "TOTAL", "TransactItems": []args{
			{"Put": args{"TableName": botoTable, "Item": item}},
			{"Update": args{
				"TableName": botoTable, "Key": botoKey("transactions", "2"), "UpdateExpression": "ADD n :n",
				"ExpressionAttributeValues": args{":n": n(amount)},
			}},
		}}
	}
	bill := func(units int, kind string) args {
		return args{"ConsumedCapacity": []args{{"TableName": botoTable, "CapacityUnits": units, kind: units}}}
	}
	b.same("a transaction", b.request("transact_write_items", transact("once", "1")), bill(4, "WriteCapacityUnits"))
	b.same("its repetition", b.request("transact_write_items", transact("once", "1")), bill(4, "ReadCapacityUnits"))
	b.refused("transact_write_items", "IdempotentParameterMismatchException", transact("once", "2"))
	read := b.request("transact_get_items", args{"TransactItems": []args{
		{"Get": args{"TableName": botoTable, "Key": botoKey("transactions", "2"), "ProjectionExpression": "n"}},
		{"Get": args{"TableName": botoTable, "Key": botoKey("transactions", "3")}},
	}})
	b.same("what it left", read, args{"Responses": []args{{"Item": args{"n": n("1")}}, {}}})

	cancelled := b.refused("transact_write_items", "TransactionCanceledException", args{"TransactItems": []args{
		{"Put": args{"TableName": botoTable, "Item": botoKey("transactions", "4")}},
		{"ConditionCheck": args{
			"TableName": botoTable, "Key": botoKey("transactions", "1"), "ConditionExpression": "n > :n",
			"ExpressionAttributeValues": args{":n": n("5")}, "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
		}},
	}})
	b.same("why it was cancelled", cancelled["CancellationReasons"], []args{
		{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed", "Item": item},
	})
	b.same("what was cancelled", b.request("get_item", args{"TableName": botoTable, "Key": botoKey("transactions", "4")}), args{})
}

func (b boto) expiry() {
	settings := args{"Enabled": true, "AttributeName": "ttl"}
	set := b.request("update_time_to_live", args{"TableName": botoTable, "TimeToLiveSpecification": settings})
	b.same("expiry set", set, args{"TimeToLiveSpecification": settings})
	described := b.request("describe_time_to_live", args{"TableName": botoTable})
	b.same("expiry", described, args{"TimeToLiveDescription": args{"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}})
	b.refused("update_time_to_live", "ValidationException", args{"TableName": botoTable, "TimeToLiveSpecification": settings})
}

func (b boto) tags(arn string) {
	b.request("tag_resource", args{"ResourceArn": arn, "Tags": []args{{"Key": "plan", "Value": "gold"}}})
	b.request("untag_resource", args{"ResourceArn": arn, "TagKeys": []string{"team"}})
	b.same("tags", b.request("list_tags_of_resource", args{"ResourceArn": arn}), args{"Tags": []args{{"Key": "plan", "Value": "gold"}}})
}

func (b boto) streams() {
	key := botoKey("streams", "1")
	after := maps.Clone(key)
	after["v"] = args{"B": args{"bytes": "AQI="}}
	b.request("put_item", args{"TableName": botoTable, "Item": key})
	b.request("put_item", args{"TableName": botoTable, "Item": after})
	b.request("put_item", args{"TableName": botoTable, "Item": after}) // changes nothing
	b.request("delete_item", args{"TableName": botoTable, "Key": key})

	var listed struct {
		Streams []struct{ StreamArn, TableName string }
	}
	b.do("call", args{"service": "dynamodbstreams", "method": "list_streams", "TableName": botoTable}, &listed)
	if len(listed.Streams) != 1 || listed.Streams[0].TableName != botoTable {
		b.Fatalf("streams %+v", listed)
	}
	arn := listed.Streams[0].StreamArn
	var stream struct {
		StreamDescription struct {
			StreamStatus, StreamViewType string
			KeySchema                    []args
			Shards                       []struct{ ShardID string }
		}
	}
	b.do("call", args{"service": "dynamodbstreams", "method": "describe_stream", "StreamArn": arn}, &stream)
	if d := stream.StreamDescription; d.StreamStatus != "ENABLED" || d.StreamViewType != "NEW_AND_OLD_IMAGES" || len(d.KeySchema) != 2 || len(d.Shards) == 0 {
		b.Errorf("stream %+v", d)
	}
	type record struct {
		Event string                                 `json:"eventName"`
		Data  struct{ Keys, NewImage, OldImage any } `json:"dynamodb"`
	}
	var ours []record
	for _, shard := range stream.StreamDescription.Shards {
		iterator := b.request("get_shard_iterator", args{
			"service": "dynamodbstreams", "StreamArn": arn, "ShardId": shard.ShardID, "ShardIteratorType": "TRIM_HORIZON",
		})["ShardIterator"]
		for {
			var page struct {
				Records           []record
				NextShardIterator string
			}
			b.do("call", args{"service": "dynamodbstreams", "method": "get_records", "ShardIterator": iterator, "Limit": 5}, &page)
			if len(page.Records) == 0 {
				break
			}
			for _, r := range page.Records {
				if cmp.Equal(decoded(b.T, r.Data.Keys), decoded(b.T, key)) {
					ours = append(ours, r)
				}
			}
			iterator = page.NextShardIterator
		}
	}
	images := func(event string, old, image any) args {
		return args{"eventName": event, "dynamodb": args{"Keys": key, "OldImage": old, "NewImage": image}}
	}
	b.same("the records", ours, []args{images("INSERT", nil, key), images("MODIFY", key, after), images("REMOVE", after, nil)})
	b.refused("describe_stream", "ResourceNotFoundException", args{"service": "dynamodbstreams", "StreamArn": arn + "0"})
}

func (b boto) tables() {
	create := args{
		"TableName": "another", "BillingMode": "PROVISIONED", "ProvisionedThroughput": args{"ReadCapacityUnits": 3, "WriteCapacityUnits": 2},
		"AttributeDefinitions": []args{{"AttributeName": "id", "AttributeType": "N"}}, "KeySchema": hashRange("id", ""),
		"DeletionProtectionEnabled": true,
	}
	b.request("create_table", create)
	b.do("wait", args{"waiter": "table_exists", "TableName": "another"}, nil)
	b.refused("create_table", "ResourceInUseException", create)
	b.refused("delete_table", "ValidationException", args{"TableName": "another"})
	b.request("update_table", args{"TableName": "another", "DeletionProtectionEnabled": false})
	b.request("delete_table", args{"TableName": "another"})
	b.do("wait", args{"waiter": "table_not_exists", "TableName": "another"}, nil)
	b.refused("describe_table", "ResourceNotFoundException", args{"TableName": "another"})
}

func (b boto) unknown() {
	response := b.refused("execute_statement", "UnknownOperationException", args{"Statement": "SELECT * FROM " + botoTable})
	if text := fmt.Sprint(response["Error"]); !strings.Contains(text, "dynamolite") {
		b.Errorf("it does not say who lacks the operation: %s", text)
	}
	b.refused("get_item", "ResourceNotFoundException", args{"TableName": "missing", "Key": botoKey("a", "b")})
	b.refused("get_item", "ValidationException", args{"TableName": botoTable, "Key": args{"pk": s("a")}})
}

// TestBoto3Signatures tests how servers with and without keys treat boto3's signatures.
func TestBoto3Signatures(t *testing.T) {
	t.Parallel()
	locked, open := serve(t, "--access-key", "AKID", "--secret-key", "sesame"), serve(t)
	for _, tt := range []struct {
		name  string
		local *peers.Served
		keys  []string
		code  string // of the error, "" if there is none
	}{
		{"right", locked, []string{"AKID", "sesame"}, ""},
		{"wrong secret", locked, []string{"AKID", "open"}, "InvalidSignatureException"},
		{"unknown key", locked, []string{"OTHER", "sesame"}, "UnrecognizedClientException"},
		{"none", locked, nil, "MissingAuthenticationTokenException"},
		{"any", open, []string{"OTHER", "open"}, ""},
		{"none, of an open server", open, nil, "MissingAuthenticationTokenException"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := startBoto(t, tt.local, tt.keys...)
			for service, method := range map[string]string{"dynamodb": "list_tables", "dynamodbstreams": "list_streams"} {
				if tt.code == "" {
					b.request(method, args{"service": service})
				} else {
					b.refused(method, tt.code, args{"service": service})
				}
			}
		})
	}
}
