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
	opBatchGetItem
	opBatchWriteItem
	opTransactGetItems
	opTransactWriteItems
	operations // how many consume capacity
	opCreateTable
	opDescribeTable
	opDeleteTable
	opListTables
)

// String is the operation's name in the API.
func (op operation) String() string {
	return [...]string{
		opGetItem:            "GetItem",
		opPutItem:            "PutItem",
		opUpdateItem:         "UpdateItem",
		opDeleteItem:         "DeleteItem",
		opQuery:              "Query",
		opBatchGetItem:       "BatchGetItem",
		opBatchWriteItem:     "BatchWriteItem",
		opTransactGetItems:   "TransactGetItems",
		opTransactWriteItems: "TransactWriteItems",
		opCreateTable:        "CreateTable",
		opDescribeTable:      "DescribeTable",
		opDeleteTable:        "DeleteTable",
		opListTables:         "ListTables",
	}[op]
}
