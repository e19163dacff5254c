package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// operation is one of the API's operations. Those that consume capacity come first, so counters
// need no room for the others.
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
	operations // how many operations consume capacity
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
	opListStreams // this and the following belong to the streams API
	opDescribeStream
	opGetShardIterator
	opGetRecords
)

// String returns the operation's name in the API.
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

// service returns the id of the API that has the operation.
func (op operation) service() string {
	if op >= opListStreams {
		return dynamodbstreams.ServiceID
	}
	return dynamodb.ServiceID
}
