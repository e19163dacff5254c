package differential_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// settingsCases test the settings of a table.
func settingsCases() []testCase {
	all := append(ttlCases(), tagCases()...)
	all = append(all, protectionCases()...)
	all = append(all, specificationCases()...)
	return append(all, listCases()...)
}

func ttl(attribute string, enabled bool) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{TableName: new("Made"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &enabled}}
}

func ttlCases() []testCase {
	made := table("Made", "pk:S sk:S")
	describe := &dynamodb.DescribeTimeToLiveInput{TableName: new("Made")}
	of := func(name string, in *dynamodb.UpdateTimeToLiveInput) *dynamodb.UpdateTimeToLiveInput {
		in.TableName = &name
		return in
	}
	var cases []testCase
	for _, c := range []struct {
		name     string
		requests []any
	}{
		{"never set", []any{describe}},
		{"on", []any{ttl("expires", true), describe}},
		{"on twice", []any{ttl("expires", true), ttl("expires", true), describe}},
		{"on for another attribute", []any{ttl("expires", true), ttl("other", true), describe}},
		{"off", []any{ttl("expires", true), ttl("expires", false), describe}},
		{"off twice", []any{ttl("expires", true), ttl("expires", false), ttl("expires", false), describe}},
		{"off for another attribute", []any{ttl("expires", true), ttl("other", false), describe}},
		{"off when never on", []any{ttl("expires", false), describe}},
		{"on again", []any{ttl("expires", true), ttl("expires", false), ttl("other", true), describe}},
		{"on a key", []any{ttl("pk", true), describe}},
		{"on a sort key", []any{ttl("sk", true), describe}},
		{"on an empty name", []any{ttl("", true), describe}},
		{"on a long name", []any{ttl(strings.Repeat("a", 255), true), describe}},
		{"on too long a name", []any{ttl(strings.Repeat("a", 256), true), describe}},
		{"on a path", []any{ttl("a.b[0]", true), describe}},
		{"of a missing table", []any{of("Nowhere", ttl("expires", true)), &dynamodb.DescribeTimeToLiveInput{TableName: new("Nowhere")}}},
		{"of a bad name", []any{of("no/name", ttl("expires", true)), &dynamodb.DescribeTimeToLiveInput{TableName: new("no/name")}}},
		{"and items", []any{ttl("expires", true), put("Made", fields{"pk": "p", "sk": "s", "expires": "text"}), put("Made", fields{"pk": "p", "sk": "t", "expires": num("99999999999")}), scan("Made")}},
		{"after the table is made again", []any{ttl("expires", true), &dynamodb.DeleteTableInput{TableName: new("Made")}, made, describe}},
	} {
		cases = append(cases, testCase{"settings/ttl " + c.name, nil, append([]any{made}, c.requests...)})
	}
	return cases
}

func protectionCases() []testCase {
	protect := func(on bool) any {
		return changeTable(func(in *dynamodb.UpdateTableInput) { in.DeletionProtectionEnabled = &on })
	}
	made := func(on bool) any {
		return tweak(table("Made", "pk:S"), func(in *dynamodb.CreateTableInput) { in.DeletionProtectionEnabled = &on })
	}
	describe, drop := &dynamodb.DescribeTableInput{TableName: new("Made")}, &dynamodb.DeleteTableInput{TableName: new("Made")}
	return []testCase{
		{"settings/protection of a new table", nil, []any{made(true), drop, describe, protect(false), madeSettled, drop, describe}},
		{"settings/protection off from the start", nil, []any{made(false), drop, describe}},
		{"settings/protection on and off", nil, []any{table("Made", "pk:S"), protect(true), madeSettled, drop, protect(false), madeSettled, drop}},
		{"settings/protection to the same", nil, []any{table("Made", "pk:S"), protect(false), madeSettled, protect(true), madeSettled, protect(true), madeSettled}},
		{"settings/protection does not hinder writes", nil, []any{made(true), put("Made", key), remove("Made", key), addIndex(index("One", types.ProjectionTypeAll, "a:S")), madeSettled, dropIndex("One"), madeSettled}},
		{"settings/protection with another change", nil, []any{
			tweak(table("Made", "pk:S"), provision(5, 5)),
			changeTable(func(in *dynamodb.UpdateTableInput) {
				in.DeletionProtectionEnabled, in.ProvisionedThroughput = new(true), throughput(6, 6)
			}), madeSettled,
		}},
	}
}

// specificationCases request streams, encryption and table classes. Each makes a table with its
// own name, because DynamoDB Local shows the stream of a dropped table at the next one of that
// name.
func specificationCases() []testCase {
	streaming := func(view types.StreamViewType) *types.StreamSpecification {
		return &types.StreamSpecification{StreamEnabled: new(true), StreamViewType: view}
	}
	off := &types.StreamSpecification{StreamEnabled: new(false)}
	var all []testCase
	add := func(name string, specification *types.StreamSpecification, changes ...*types.StreamSpecification) {
		table := fmt.Sprintf("Streamed%d", len(all))
		requests := []any{
			tweak(tableOf(table), func(in *dynamodb.CreateTableInput) { in.StreamSpecification = specification }),
			&dynamodb.DescribeTableInput{TableName: &table},
		}
		for _, change := range changes {
			requests = append(requests, &dynamodb.UpdateTableInput{TableName: &table, StreamSpecification: change}, settle{table})
		}
		requests = append(requests, put(table, key), put(table, key.with(fields{"a": 1})), remove(table, key), &dynamodb.DeleteTableInput{TableName: &table})
		all = append(all, testCase{"settings/stream " + name, nil, requests})
	}
	images := streaming(types.StreamViewTypeNewAndOldImages)
	for _, view := range []types.StreamViewType{types.StreamViewTypeKeysOnly, types.StreamViewTypeNewImage, types.StreamViewTypeOldImage, types.StreamViewTypeNewAndOldImages, "", "BOGUS"} {
		add("of a new table: "+string(view), streaming(view))
	}
	add("off with a view", &types.StreamSpecification{StreamEnabled: new(false), StreamViewType: types.StreamViewTypeNewImage})
	add("off from the start", off)
	add("on", nil, images)
	add("on twice", images, images)
	add("to another view", images, streaming(types.StreamViewTypeKeysOnly))
	add("off", images, off)
	add("off when off", nil, off)
	add("off twice", images, off, off)
	add("on again", images, off, streaming(types.StreamViewTypeOldImage))
	add("without a view", nil, streaming(""))
	add("of a bogus view", nil, streaming("BOGUS"))
	add("off with a view later", images, &types.StreamSpecification{StreamEnabled: new(false), StreamViewType: types.StreamViewTypeNewAndOldImages})
	return append(all,
		testCase{"settings/encryption off", nil, []any{tweak(table("Made", "pk:S"), func(in *dynamodb.CreateTableInput) {
			in.SSESpecification = &types.SSESpecification{Enabled: new(false)}
		})}},
		testCase{"settings/table class bogus", nil, []any{tweak(table("Made", "pk:S"), func(in *dynamodb.CreateTableInput) { in.TableClass = "BOGUS" })}},
	)
}

func tableOf(name string) *dynamodb.CreateTableInput { return table(name, "pk:S") }

func listCases() []testCase {
	list := func(change func(*dynamodb.ListTablesInput)) any { return tweak(&dynamodb.ListTablesInput{}, change) }
	limited := func(n int32) any { return list(func(in *dynamodb.ListTablesInput) { in.Limit = &n }) }
	after := func(name string) any {
		return list(func(in *dynamodb.ListTablesInput) { in.ExclusiveStartTableName = &name })
	}
	return []testCase{
		{"settings/list", nil, []any{list(func(*dynamodb.ListTablesInput) {})}},
		{"settings/list limited", nil, []any{limited(1), limited(3), limited(6), limited(7), limited(100)}},
		{"settings/list of a bad limit", nil, []any{limited(0), limited(-1), limited(101)}},
		{"settings/list after", nil, []any{after(hashTable), after("Hasi"), after(rangeTable), after("Zoo"), after("no/name"), after("x")}},
		{"settings/list after, limited", nil, []any{list(func(in *dynamodb.ListTablesInput) {
			in.ExclusiveStartTableName, in.Limit = new(hashTable), new(int32(2))
		})}},
		{"settings/list with another", nil, []any{table("Made", "pk:S"), list(func(*dynamodb.ListTablesInput) {}), &dynamodb.DeleteTableInput{TableName: new("Made")}, list(func(*dynamodb.ListTablesInput) {})}},
		{"settings/list in the order of letters", nil, []any{table("abc", "pk:S"), table("a-c", "pk:S"), table("a_c", "pk:S"), table("a.c", "pk:S"), table("a1c", "pk:S"), list(func(*dynamodb.ListTablesInput) {})}},
		{"settings/limits", nil, []any{&dynamodb.DescribeLimitsInput{}}},
		{"settings/endpoints", nil, []any{&dynamodb.DescribeEndpointsInput{}}},
	}
}
