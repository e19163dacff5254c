package differential_test

import "fmt"

// indexDeviations concern reads of indexes, and features of local indexes only.
var indexDeviations = []deviation{
	{
		rule: `AWS: "If you query or scan a local secondary index and request only attributes that are projected into that index, the operation reads only the index". DynamoDB Local reads the table for any projection expression.`,
		cases: map[string]edits{
			"local/query projection of keys":                      fetched(0, byText, 0),
			"local/query projection of a projected attribute":     fetched(0, bySome, 0),
			"local/query projection within a projected attribute": fetched(0, bySome, 0),
			"local/bill: fetching five of 100 bytes":              fetched(4, bySome, 0),
			"local/bill: fetching five of 4000 bytes":             fetched(4, bySome, 0),
			"local/bill: fetching five of 5000 bytes":             fetched(4, bySome, 0),
			"local/bill: fetching five of 9000 bytes":             fetched(4, bySome, 0),
			"local/page of a megabyte of which the index holds what is wanted": {
				"0/ConsumedCapacity": localBill(byText, 0), "0/Count": "12", "0/ScannedCount": "12", "0/LastEvaluatedKey": "",
				"0/Items": `[{"sk":"00"},{"sk":"01"},{"sk":"02"},{"sk":"03"},{"sk":"04"},{"sk":"05"},{"sk":"06"},{"sk":"07"},{"sk":"08"},{"sk":"09"},{"sk":"10"},{"sk":"11"}]`,
				"1":       "",
			},
		},
	},
	{
		rule: `AWS: a Query of an index "reads up to 1 MB of data", which is that of the index. DynamoDB Local counts the size of the table's items.`,
		cases: map[string]edits{
			"local/page of a megabyte of which the index holds little": {
				"0/Count": "12", "0/ScannedCount": "12", "0/LastEvaluatedKey": "", "1": "",
			},
		},
	},
	{
		rule: `AWS: a Scan of a local index that asks for other attributes fetches each item from the table, and "this extra fetching incurs additional throughput cost". DynamoDB Local fetches and bills nothing.`,
		cases: map[string]edits{
			"local/scan ByText: all attributes":                         fetched(0, byText, 2),
			"local/scan BySome: all attributes":                         fetched(0, bySome, 1.5),
			"local/scan ByText: projection of an unprojected attribute": fetched(0, byText, 2),
			"local/scan BySome: projection of an unprojected attribute": fetched(0, bySome, 1.5),
		},
	},
	{
		rule: `AWS: the filter of a Scan sees what the index holds, and an attribute that is not projected is absent. DynamoDB Local looks it up in the table.`,
		cases: map[string]edits{
			"scan/index Keys: filter on an attribute of one":        {"0/Count": "0", "0/Items": ""},
			"scan/index Some: filter on an attribute of one":        {"0/Count": "0", "0/Items": ""},
			"local/scan ByText: filter on an unprojected attribute": {"0/Count": "0", "0/Items": ""},
			"local/scan BySome: filter on an unprojected attribute": {"0/Count": "0", "0/Items": ""},
			"local/scan BySome: filter on keys":                     {"0/Count": "0", "0/Items": ""}, // tsk is the key of another index
		},
	},
	{
		rule: `AWS: writes to a table with local secondary indexes return ItemCollectionMetrics when asked. DynamoDB Local returns none, and takes any value for the question.`,
		cases: map[string]edits{
			"local/metrics of a put":             {"0/ItemCollectionMetrics": metricsOf("p"), "2": invalidRequest},
			"local/metrics of a put to no index": {"0/ItemCollectionMetrics": metricsOf("p")},
			"local/metrics of an update":         {"0/ItemCollectionMetrics": metricsOf("p"), "1/ItemCollectionMetrics": metricsOf("p")},
			"local/metrics of a delete":          {"0/ItemCollectionMetrics": metricsOf("p")},
			"local/metrics of a batch":           {"0/ItemCollectionMetrics": `{"Local":[` + metricsOf("p") + `,` + metricsOf("q") + `]}`},
			"local/metrics of a transaction":     {"0/ItemCollectionMetrics": `{"Local":[` + metricsOf("p") + `,` + metricsOf("q") + `]}`},
		},
	},
	{
		rule: `AWS: a write that "does not change" an index is not billed there. DynamoDB Local bills one unit when a write brings one key of a global index and takes the other away, so that the item is in the index neither before nor after.`,
		cases: map[string]edits{
			"local/bill: update of one key and removal of the other": {"1/ConsumedCapacity": `{"CapacityUnits":2,"LocalSecondaryIndexes":{"ByNumber":{"CapacityUnits":1}},"Table":{"CapacityUnits":1},"TableName":"Local"}`},
		},
	},
	{
		rule: `AWS: a read of an index consumes units by "the size of the index entries, rather than the size of the item in the base table". DynamoDB Local scans an index by the latter.`,
		cases: map[string]edits{
			"scan/bill of what the index does not hold": {
				"1/ConsumedCapacity": `{"CapacityUnits":0.5,"GlobalSecondaryIndexes":{"Keys":{"CapacityUnits":0.5}},"Table":{"CapacityUnits":0},"TableName":"Indexed"}`,
				"2/ConsumedCapacity": `{"CapacityUnits":0.5,"GlobalSecondaryIndexes":{"Some":{"CapacityUnits":0.5}},"Table":{"CapacityUnits":0},"TableName":"Indexed"}`,
			},
			"scan/bill of what the local index does not hold": fetched(1, byText, 0),
		},
	},
	{
		rule: `AWS: "List of LocalSecondaryIndexes is empty". DynamoDB Local takes it for none.`,
		cases: map[string]edits{
			"local/create with an empty list": {"0": invalidRequest, "1": tagsGone},
		},
	},
	{
		rule: `AWS: an item whose attribute violates the type or the size of an index's key is left out when the index is made. DynamoDB Local takes it in.`,
		cases: map[string]edits{
			"updatetable/backfill of key violations": {
				"12/Items":                `[{"gpk":"g","gsk":{"N":"1"},"pk":"a","sk":"2","x":{"N":"2"}},{"gpk":"g","gsk":{"N":"2"},"pk":"a","sk":"1","w":{"N":"1"},"x":{"N":"1"}},{"gpk":"h","gsk":{"N":"3"},"pk":"b","sk":"1"}]`,
				"12/Pages/0/Count":        "3",
				"12/Pages/0/ScannedCount": "3",
				"13/Items":                `[{"gpk":"g","gsk":{"N":"1"},"pk":"a","sk":"2","x":{"N":"2"}},{"gpk":"g","gsk":{"N":"2"},"pk":"a","sk":"1","w":{"N":"1"},"x":{"N":"1"}}]`,
				"13/Count":                "2",
				"13/ScannedCount":         "2",
			},
		},
	},
}

// localBill returns the bill of the smallest read of a local index, with the given units of the
// table.
func localBill(index string, table float64) string {
	const units = 0.5
	return fmt.Sprintf(`{"CapacityUnits":%v,"LocalSecondaryIndexes":{"%s":{"CapacityUnits":%v}},"Table":{"CapacityUnits":%v},"TableName":"Local"}`, units+table, index, units, table)
}

// fetched replaces the bill of an answer by localBill.
func fetched(answer int, index string, table float64) edits {
	return edits{fmt.Sprintf("%d/ConsumedCapacity", answer): localBill(index, table)}
}

// metricsOf returns the metrics of a small item collection.
func metricsOf(pk string) string {
	return `{"ItemCollectionKey":{"pk":"` + pk + `"},"SizeEstimateRangeGB":[0,1]}`
}
