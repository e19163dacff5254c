package fastclient

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/dynamo/fastclient/internal/codec"
)

// An operation is what a [Client] must know of one of DynamoDB's operations.
type operation[In, Out any] struct {
	name   string
	schema *smithy.OperationSchema
	// plain reports whether the SDK's checks accept an input and its table is a name. A
	// table that is an ARN has another endpoint.
	plain func(*In) bool
	// read reads an answer of DynamoDB's usual form; nil is no such answer. The body is valid
	// until read returns.
	read func(in *In, body []byte) *Out
	// readRefusal reads a failed condition of that form; nil: that is an error.
	readRefusal func(in *In, body []byte) *Out
	metadata    func(*Out) *middleware.Metadata
	sdk         func(*dynamodb.Client, context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)
}

func named(table *string) bool { return table != nil && !strings.HasPrefix(*table, "arn:") }

var getItem = operation[dynamodb.GetItemInput, dynamodb.GetItemOutput]{
	name:   "GetItem",
	schema: smithy.NewOperationSchema(schemas.GetItem, schemas.GetItemInput, schemas.GetItemOutput),
	plain:  func(in *dynamodb.GetItemInput) bool { return named(in.TableName) && in.Key != nil },
	read: func(_ *dynamodb.GetItemInput, body []byte) *dynamodb.GetItemOutput {
		it, plain := codec.ReadItem(string(body), "Item")
		if !plain {
			return nil
		}
		return &dynamodb.GetItemOutput{Item: it}
	},
	metadata: func(out *dynamodb.GetItemOutput) *middleware.Metadata { return &out.ResultMetadata },
	sdk:      (*dynamodb.Client).GetItem,
}

var putItem = operation[dynamodb.PutItemInput, dynamodb.PutItemOutput]{
	name:   "PutItem",
	schema: smithy.NewOperationSchema(schemas.PutItem, schemas.PutItemInput, schemas.PutItemOutput),
	plain:  func(in *dynamodb.PutItemInput) bool { return named(in.TableName) && in.Item != nil },
	read: func(_ *dynamodb.PutItemInput, body []byte) *dynamodb.PutItemOutput {
		it, plain := codec.ReadItem(string(body), "Attributes")
		if !plain {
			return nil
		}
		return &dynamodb.PutItemOutput{Attributes: it}
	},
	metadata: func(out *dynamodb.PutItemOutput) *middleware.Metadata { return &out.ResultMetadata },
	sdk:      (*dynamodb.Client).PutItem,
}

var updateItem = operation[dynamodb.UpdateItemInput, dynamodb.UpdateItemOutput]{
	name:   "UpdateItem",
	schema: smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput),
	plain:  func(in *dynamodb.UpdateItemInput) bool { return named(in.TableName) && in.Key != nil },
	read: func(_ *dynamodb.UpdateItemInput, body []byte) *dynamodb.UpdateItemOutput {
		it, plain := codec.ReadItem(string(body), "Attributes")
		if !plain {
			return nil
		}
		return &dynamodb.UpdateItemOutput{Attributes: it}
	},
	metadata: func(out *dynamodb.UpdateItemOutput) *middleware.Metadata { return &out.ResultMetadata },
	sdk:      (*dynamodb.Client).UpdateItem,
}

var batchGetItem = operation[dynamodb.BatchGetItemInput, dynamodb.BatchGetItemOutput]{
	name:   "BatchGetItem",
	schema: smithy.NewOperationSchema(schemas.BatchGetItem, schemas.BatchGetItemInput, schemas.BatchGetItemOutput),
	plain: func(in *dynamodb.BatchGetItemInput) bool {
		for table, of := range in.RequestItems {
			if !named(&table) || of.Keys == nil {
				return false
			}
		}
		return in.RequestItems != nil
	},
	read: func(in *dynamodb.BatchGetItemInput, body []byte) *dynamodb.BatchGetItemOutput {
		if len(in.RequestItems) != 1 {
			return nil
		}
		out := &dynamodb.BatchGetItemOutput{
			Responses:       make(map[string][]codec.Item, 1),
			UnprocessedKeys: make(map[string]types.KeysAndAttributes),
		}
		plain := false
		for table := range in.RequestItems {
			out.Responses[table], plain = codec.ReadItems(string(body), table)
		}
		if !plain {
			return nil
		}
		return out
	},
	metadata: func(out *dynamodb.BatchGetItemOutput) *middleware.Metadata { return &out.ResultMetadata },
	sdk:      (*dynamodb.Client).BatchGetItem,
}

var transactWriteItems = operation[dynamodb.TransactWriteItemsInput, dynamodb.TransactWriteItemsOutput]{
	name:   "TransactWriteItems",
	schema: smithy.NewOperationSchema(schemas.TransactWriteItems, schemas.TransactWriteItemsInput, schemas.TransactWriteItemsOutput),
	plain: func(in *dynamodb.TransactWriteItemsInput) bool {
		for _, w := range in.TransactItems {
			if p := w.Put; p != nil && (!named(p.TableName) || p.Item == nil) {
				return false
			}
			if u := w.Update; u != nil && (!named(u.TableName) || u.Key == nil || u.UpdateExpression == nil) {
				return false
			}
			if d := w.Delete; d != nil && (!named(d.TableName) || d.Key == nil) {
				return false
			}
			if c := w.ConditionCheck; c != nil && (!named(c.TableName) || c.Key == nil || c.ConditionExpression == nil) {
				return false
			}
		}
		// The client gives the token, so that all attempts have the same.
		return in.TransactItems != nil && in.ClientRequestToken != nil
	},
	read: func(_ *dynamodb.TransactWriteItemsInput, body []byte) *dynamodb.TransactWriteItemsOutput {
		if string(body) != "{}" {
			return nil
		}
		return new(dynamodb.TransactWriteItemsOutput)
	},
	metadata: func(out *dynamodb.TransactWriteItemsOutput) *middleware.Metadata { return &out.ResultMetadata },
	sdk:      (*dynamodb.Client).TransactWriteItems,
}
