// Package api holds what the API of DynamoDB fixes: the names of its operations, ARNs and names, and
// errors in the words of AWS. Every error that a caller gets is made here or in a type of the SDK, so
// that wording has one place.
package api

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// Operation is one of the API's operations. Those that consume capacity come first, so counters
// need no room for the others.
type Operation int

// The operations of the API.
const (
	GetItem Operation = iota
	PutItem
	UpdateItem
	DeleteItem
	Query
	Scan
	BatchGetItem
	BatchWriteItem
	TransactGetItems
	TransactWriteItems
	BilledOperations // how many operations consume capacity
	CreateTable
	DescribeTable
	DeleteTable
	ListTables
	UpdateTable
	UpdateTimeToLive
	DescribeTimeToLive
	TagResource
	UntagResource
	ListTagsOfResource
	DescribeLimits
	DescribeEndpoints
	ListStreams // this and the following belong to the streams API
	DescribeStream
	GetShardIterator
	GetRecords
)

// String returns the operation's name in the API.
func (op Operation) String() string {
	return [...]string{
		GetItem:            "GetItem",
		PutItem:            "PutItem",
		UpdateItem:         "UpdateItem",
		DeleteItem:         "DeleteItem",
		Query:              "Query",
		Scan:               "Scan",
		BatchGetItem:       "BatchGetItem",
		BatchWriteItem:     "BatchWriteItem",
		TransactGetItems:   "TransactGetItems",
		TransactWriteItems: "TransactWriteItems",
		CreateTable:        "CreateTable",
		DescribeTable:      "DescribeTable",
		DeleteTable:        "DeleteTable",
		ListTables:         "ListTables",
		UpdateTable:        "UpdateTable",
		UpdateTimeToLive:   "UpdateTimeToLive",
		DescribeTimeToLive: "DescribeTimeToLive",
		TagResource:        "TagResource",
		UntagResource:      "UntagResource",
		ListTagsOfResource: "ListTagsOfResource",
		DescribeLimits:     "DescribeLimits",
		DescribeEndpoints:  "DescribeEndpoints",
		ListStreams:        "ListStreams",
		DescribeStream:     "DescribeStream",
		GetShardIterator:   "GetShardIterator",
		GetRecords:         "GetRecords",
	}[op]
}

// service returns the id of the API that has the operation.
func (op Operation) service() string {
	if op >= ListStreams {
		return dynamodbstreams.ServiceID
	}
	return dynamodb.ServiceID
}
