package dynamolite

// operation is one of the API's operations. Those that consume capacity come first, so that
// counters need no room for the others.
type operation int

const (
	opGetItem operation = iota
	opPutItem
	opUpdateItem
	opDeleteItem
	opQuery
	opScan
	opBatchGetItem
	opBatchWriteItem
	opTransactGetItems
	opTransactWriteItems
	operations // how many consume capacity
	opCreateTable
	opDescribeTable
	opDeleteTable
	opListTables
	opUpdateTable
	opUpdateTimeToLive
	opDescribeTimeToLive
	opTagResource
	opUntagResource
	opListTagsOfResource
	opDescribeLimits
	opDescribeEndpoints
	opListStreams
	opDescribeStream
	opGetShardIterator
	opGetRecords
)

// String is the operation's name in the API.
func (op operation) String() string {
	return [...]string{
		opGetItem:            "GetItem",
		opPutItem:            "PutItem",
		opUpdateItem:         "UpdateItem",
		opDeleteItem:         "DeleteItem",
		opQuery:              "Query",
		opScan:               "Scan",
		opBatchGetItem:       "BatchGetItem",
		opBatchWriteItem:     "BatchWriteItem",
		opTransactGetItems:   "TransactGetItems",
		opTransactWriteItems: "TransactWriteItems",
		opCreateTable:        "CreateTable",
		opDescribeTable:      "DescribeTable",
		opDeleteTable:        "DeleteTable",
		opListTables:         "ListTables",
		opUpdateTable:        "UpdateTable",
		opUpdateTimeToLive:   "UpdateTimeToLive",
		opDescribeTimeToLive: "DescribeTimeToLive",
		opTagResource:        "TagResource",
		opUntagResource:      "UntagResource",
		opListTagsOfResource: "ListTagsOfResource",
		opDescribeLimits:     "DescribeLimits",
		opDescribeEndpoints:  "DescribeEndpoints",
		opListStreams:        "ListStreams",
		opDescribeStream:     "DescribeStream",
		opGetShardIterator:   "GetShardIterator",
		opGetRecords:         "GetRecords",
	}[op]
}
