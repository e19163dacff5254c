package differential_test

import (
	"fmt"
	"strings"
)

// tableDeviations concern tables and their settings.
var tableDeviations = []deviation{
	{
		rule: `AWS: an index of an on-demand table has a throughput of zero, and no maximum unless it was given one. DynamoDB Local leaves out the former, and shows a maximum of -1 when UpdateTable made the index.`,
		everywhere: func(node map[string]any) (changed bool) {
			indexes, _ := node["GlobalSecondaryIndexes"].([]any)
			for _, x := range indexes {
				x, ok := x.(map[string]any)
				if !ok {
					continue
				}
				if x["ProvisionedThroughput"] == nil {
					x["ProvisionedThroughput"], changed = map[string]any{"ReadCapacityUnits": 0.0, "WriteCapacityUnits": 0.0}, true
				}
				if most, ok := x["OnDemandThroughput"].(map[string]any); ok && most["MaxReadRequestUnits"] == -1.0 {
					delete(x, "OnDemandThroughput")
					changed = true
				}
			}
			return changed
		},
	},
	{
		rule: `AWS: "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST". DynamoDB Local ignores them.`,
		cases: map[string]edits{
			"table/create on demand with throughput":       {"0": invalidRequest, "1": `{"error":"ResourceNotFoundException"}`},
			"updatetable/change on demand with throughput": {"1": invalidRequest, "3": invalidRequest},

			"updatetable/add an index with throughput on demand": {"1": invalidRequest},
		},
	},
	{
		rule: `AWS: an attribute is defined once, as CreateTable has it. DynamoDB Local lets UpdateTable define it twice.`,
		cases: map[string]edits{
			"updatetable/add an index of a definition twice": {"1": invalidRequest},
		},
	},
	{
		rule: `AWS: UpdateTable of "a nonexistent table or index" is a ResourceNotFoundException (API_UpdateTable; measured by the ACK project). DynamoDB Local says ValidationException of a throughput.`,
		cases: map[string]edits{
			"updatetable/change throughput of an unknown index": {"1": `{"error":"ResourceNotFoundException"}`},
		},
	},
	{
		rule: `AWS: a value that is not of the enumeration is a ValidationException. DynamoDB Local fails inside, or ignores it.`,
		cases: map[string]edits{
			"table/create with a bogus billing mode":    {"0": invalidRequest},
			"updatetable/change bogus billing mode":     {"1": invalidRequest},
			"settings/table class bogus":                {"0": invalidRequest},
			"transact/reason of a failed put, bogus":    {"0": invalidRequest},
			"transact/reason of a failed update, bogus": {"0": invalidRequest},
			"transact/reason of a failed delete, bogus": {"0": invalidRequest},
			"transact/reason of a failed check, bogus":  {"0": invalidRequest},
		},
	},
	{
		rule: `AWS: "ProvisionedThroughput is not specified for index" when the table is or becomes provisioned, and must not be when it is on demand. DynamoDB Local fails inside.`,
		cases: map[string]edits{
			"updatetable/change on demand to provisioned with an index": {"1": invalidRequest},
			"updatetable/add a provisioned index":                       {"1": invalidRequest},
			"updatetable/throughput of an index on demand":              {"1": invalidRequest},
		},
	},
	{
		rule: `AWS: a table that becomes on-demand has no throughput, nor have its indexes. DynamoDB Local leaves the indexes theirs.`,
		cases: map[string]edits{
			"updatetable/change provisioned to on demand with an index": {
				"1/TableDescription/GlobalSecondaryIndexes/0/ProvisionedThroughput": `{"ReadCapacityUnits":0,"WriteCapacityUnits":0}`,
				"2/Table/GlobalSecondaryIndexes/0/ProvisionedThroughput":            `{"ReadCapacityUnits":0,"WriteCapacityUnits":0}`,
			},
		},
	},
	{
		rule: `AWS: "At least one of ProvisionedThroughput, BillingMode, … is required" is checked before the table is looked for. DynamoDB Local looks first.`,
		cases: map[string]edits{
			"updatetable/change missing table and nothing": {"1": invalidRequest},
		},
	},
	{
		rule: `AWS: UpdateTable takes from AttributeDefinitions what a new index needs and ignores the rest. DynamoDB Local refuses some, and keeps some.`,
		cases: map[string]edits{
			"updatetable/add an index of a definition too many": {
				"1": changed("a:S h:S pk:S", "Has:h", "One:a"), "2": described("a:S h:S pk:S", "Has:h", "One:a"),
			},
			"updatetable/drop with a definition": {
				"1": changed("i:S pk:S", "Has:h", "Too:i"), "2": described("i:S pk:S", "Too:i"),
			},
			"updatetable/drop with a table key of another type": {
				"1": changed("i:S pk:S", "Has:h", "Too:i"), "2": described("i:S pk:S", "Too:i"),
			},
		},
	},
	{
		rule: `AWS: "Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object" is a ValidationException. DynamoDB Local counts two, which exceeds the limit of changes.`,
		cases: map[string]edits{
			"updatetable/add an index and drop it in one action": {"1": invalidRequest},
		},
	},
	{
		rule: `AWS: NonKeyAttributes has 20 members at most. DynamoDB Local does not check it in UpdateTable.`,
		cases: map[string]edits{
			"updatetable/add an index that includes too many": {"1": invalidRequest, "2": described("h:S pk:S", "Has:h")},
		},
	},
	{
		rule: `AWS: "List of GlobalSecondaryIndexUpdates is empty", whatever else changes. DynamoDB Local takes it for none.`,
		cases: map[string]edits{
			"updatetable/no index updates and another change": {"1": invalidRequest, "2/Table/DeletionProtectionEnabled": "false"},
		},
	},
	{
		rule: `AWS: UpdateTable leaves deletion protection as it is unless it says otherwise. DynamoDB Local drops it.`,
		cases: map[string]edits{
			"settings/protection does not hinder writes": {
				"3/TableDescription/DeletionProtectionEnabled": "true", "4/Table/DeletionProtectionEnabled": "true",
				"5/TableDescription/DeletionProtectionEnabled": "true", "6/Table/DeletionProtectionEnabled": "true",
			},
		},
	},
	{
		rule: `AWS: "DeletionProtection modification must be the only operation in the request". DynamoDB Local makes all of them.`,
		cases: map[string]edits{
			"updatetable/add an index and protect the table": {"1": invalidRequest},
			"settings/protection with another change": {
				"1": invalidRequest, "2/Table/DeletionProtectionEnabled": "false", "2/Table/ProvisionedThroughput": `{"ReadCapacityUnits":5,"WriteCapacityUnits":5}`,
			},
		},
	},
	{
		rule: `AWS has endpoints. DynamoDB Local knows no such operation.`,
		cases: map[string]edits{
			"settings/endpoints": {"0": `{"Endpoints":[{"Address":"present","CachePeriodInMinutes":1440}]}`},
		},
	},
	{
		rule:  `AWS has tags. DynamoDB Local knows no such operations, and ignores the tags of CreateTable.`,
		cases: tagAnswers(),
	},
}

// described returns the answer to DescribeTable for the on-demand table that cases make. It has
// these definitions and global indexes that project everything, written as name:key.
func described(definitions string, indexes ...string) string {
	return `{"Table":` + description(definitions, indexes...) + `}`
}

// changed returns the answer to an UpdateTable of that table.
func changed(definitions string, indexes ...string) string {
	return `{"TableDescription":` + description(definitions, indexes...) + `}`
}

func description(definitions string, indexes ...string) string {
	var attributes, globals []string
	for d := range strings.FieldsSeq(definitions) {
		name, kind, _ := strings.Cut(d, ":")
		attributes = append(attributes, fmt.Sprintf(`{"AttributeName":%q,"AttributeType":%q}`, name, kind))
	}
	for _, x := range indexes {
		name, key, _ := strings.Cut(x, ":")
		globals = append(globals, fmt.Sprintf(`{"IndexArn":"present","IndexName":%q,"KeySchema":[{"AttributeName":%q,"KeyType":"HASH"}],`+
			`"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":0}}`, name, key))
	}
	return fmt.Sprintf(`{"AttributeDefinitions":[%s],"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":"present"},`+
		`"CreationDateTime":"present","DeletionProtectionEnabled":false,"GlobalSecondaryIndexes":[%s],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],`+
		`"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":0},"TableArn":"present","TableName":"Made"}`,
		strings.Join(attributes, ","), strings.Join(globals, ","))
}
