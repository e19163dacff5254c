package admin

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Permission is the result of a trial of one IAM action.
type Permission struct {
	Action   string // "dynamodb:GetItem" for instance
	Resource string // "table", "index/GSI1" or "stream"
	// Use is the kind of program that needs it.
	Use Use
	// Err is nil if the action is allowed, a [store.ErrAccessDenied] if it is refused, and
	// another error if the trial does not tell, or was not made.
	Err error
}

// Denied reports whether the action was refused.
func (p *Permission) Denied() bool { return errors.Is(p.Err, store.ErrAccessDenied) }

// A Use is a kind of program that needs a permission.
type Use string

// The values of [Use].
const (
	// UseApplication: limiters and the commands that change limits.
	UseApplication Use = "application"
	// UseAdministration: commands that look at or change the table itself.
	UseAdministration Use = "administration"
	// UseAggregation: zae-limiter aggregate and zae-limiter redrive.
	UseAggregation Use = "aggregation"
)

// A trial sends one request that changes nothing.
type trial struct {
	action, resource string
	use              Use
	send             func(context.Context) error
}

// try makes the trials of a table. Reads ask for keys that do not exist. Conditional
// writes name such a key, too, under the condition that it exists. BatchWriteItem has no
// conditions: its trial deletes a key that does not exist. The keys begin with ns, so that
// a policy for one namespace allows what it allows for that namespace.
func (t *Table) try(ctx context.Context, ns string) []Permission {
	key := schema.Key{PK: ns + "/CHECK#" + rand.Text(), SK: "#CHECK"}
	trials := append(t.reads(key, ns), t.writes(key)...)
	permissions := make([]Permission, len(trials))
	for i, trial := range trials {
		err := trial.send(ctx)
		if _, refused := conn.ConditionFailed(err); refused {
			err = nil // the condition was judged, so the action is allowed
		}
		permissions[i] = Permission{trial.action, trial.resource, trial.use, err}
	}
	return permissions
}

const ofTable = "table"

func (t *Table) reads(key schema.Key, ns string) []trial {
	trials := []trial{
		{"dynamodb:GetItem", ofTable, UseApplication, func(ctx context.Context) error {
			_, err := t.conn.GetItem(ctx, "check GetItem", key)
			return err
		}},
		{"dynamodb:BatchGetItem", ofTable, UseApplication, func(ctx context.Context) error {
			_, err := t.conn.BatchGet(ctx, "check BatchGetItem", []schema.Key{key}, true)
			return err
		}},
		{"dynamodb:Query", ofTable, UseApplication, func(ctx context.Context) error {
			return t.conn.Query(ctx, "check Query", &dynamodb.QueryInput{
				KeyConditionExpression: aws.String("PK = :pk"), ExpressionAttributeValues: schema.Item{":pk": schema.S(key.PK)},
			}, nothing)
		}},
		{"dynamodb:Scan", ofTable, UseAdministration, t.tryScan},
	}
	for _, index := range []string{schema.GSI1, schema.GSI2, schema.GSI3} {
		trials = append(trials, t.query(index, key.PK, UseApplication))
	}
	return append(trials, t.query(schema.GSI4, ns, UseAdministration))
}

func nothing(schema.Item) error { return nil }

// query tries one page of an index.
func (t *Table) query(index, pk string, use Use) trial {
	return trial{"dynamodb:Query", "index/" + index, use, func(ctx context.Context) error {
		in := conn.IndexQuery(index, pk, "")
		in.TableName, in.Limit = t.conn.Table, aws.Int32(1)
		_, err := conn.Call(ctx, t.conn, "check Query of "+index, t.api.Query, in)
		return err
	}}
}

// tryScan reads one item.
func (t *Table) tryScan(ctx context.Context) error {
	_, err := conn.Call(ctx, t.conn, "check Scan", t.api.Scan, &dynamodb.ScanInput{TableName: t.conn.Table, Limit: aws.Int32(1), ProjectionExpression: aws.String("PK")})
	return err
}

func (t *Table) writes(key schema.Key) []trial {
	exists := aws.String("attribute_exists(PK)")
	transact := func(op string, part types.TransactWriteItem) func(context.Context) error {
		return func(ctx context.Context) error {
			return t.conn.Transact(ctx, "check "+op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{part}})
		}
	}
	return []trial{
		{"dynamodb:PutItem", ofTable, UseApplication, func(ctx context.Context) error {
			return t.conn.PutItem(ctx, "check PutItem", &dynamodb.PutItemInput{Item: key.Item(), ConditionExpression: exists})
		}},
		{"dynamodb:UpdateItem", ofTable, UseApplication, func(ctx context.Context) error {
			return t.conn.UpdateItem(ctx, "check UpdateItem", &dynamodb.UpdateItemInput{
				Key: key.Item(), UpdateExpression: aws.String("SET checked = :true"), ConditionExpression: exists,
				ExpressionAttributeValues: schema.Item{":true": schema.Bool(true)},
			})
		}},
		{"dynamodb:DeleteItem", ofTable, UseApplication, transact("DeleteItem", types.TransactWriteItem{
			Delete: &types.Delete{TableName: t.conn.Table, Key: key.Item(), ConditionExpression: exists},
		})},
		{"dynamodb:ConditionCheckItem", ofTable, UseApplication, transact("ConditionCheckItem", types.TransactWriteItem{
			ConditionCheck: &types.ConditionCheck{TableName: t.conn.Table, Key: key.Item(), ConditionExpression: exists},
		})},
		{"dynamodb:BatchWriteItem", ofTable, UseApplication, func(ctx context.Context) error {
			return t.conn.BatchDelete(ctx, "check BatchWriteItem", []schema.Key{key})
		}},
	}
}
