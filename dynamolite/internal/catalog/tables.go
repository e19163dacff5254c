package catalog

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// CreateTable executes the operation of that name.
//
// AWS creates in the background. The engine is done when it answers, so the status is ACTIVE at
// once, and a program that waits for it goes on immediately.
//
// The order of the steps: the stream is registered first, because its label is made unique there
// and is part of the entry. The note comes before the name is known, so no request can write to a
// table that the log does not have.
func (ts *Tables) CreateTable(c *api.Call, in *dynamodb.CreateTableInput) (*dynamodb.CreateTableOutput, error) {
	t, err := table.New(in, ts.Log.Now(), ts.Streams.Options)
	if err != nil {
		return nil, err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, ErrClosed
	}
	c.See(ts.latest)
	if _, taken := ts.byName[t.Name]; taken {
		return nil, &types.ResourceInUseException{Message: aws.String("Table already exists: " + t.Name)}
	}
	ts.openLedgerLocked(t, t.Schema())
	t.Number = ts.created + 1
	if stream := t.Schema().Stream; stream != nil {
		ts.Streams.Add(stream)
	}
	pos, err := ts.Log.NoteTable(t, t.Schema())
	if err != nil {
		ts.Streams.Remove(t.Schema().Stream)
		return nil, err
	}
	c.See(pos)
	ts.Streams.Publish(t.Schema().Stream, ts.Log.Now())
	ts.created, ts.latest = t.Number, max(ts.latest, pos)
	ts.byName[t.Name] = t
	return &dynamodb.CreateTableOutput{TableDescription: t.Describe(types.TableStatusActive)}, nil
}

// DescribeTable executes the operation of that name.
//
// It waits for the whole log, because its counts depend on every write of the table.
func (ts *Tables) DescribeTable(c *api.Call, in *dynamodb.DescribeTableInput) (*dynamodb.DescribeTableOutput, error) {
	defer ts.Log.ShowAll(c)
	t, err := ts.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeTableOutput{Table: t.Describe(types.TableStatusActive)}, nil
}

// DeleteTable executes the operation of that name.
//
// The table is looked for twice: the first time validates the name without the lock. In between,
// another caller may have deleted it, or created another one:
//
//	caller A   find 1 ······························ lock · the name has 2: not found
//	caller B            delete 1 · create 2
func (ts *Tables) DeleteTable(c *api.Call, in *dynamodb.DeleteTableInput) (*dynamodb.DeleteTableOutput, error) {
	t, err := ts.Find(c, in.TableName)
	if err != nil {
		return nil, err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byName[t.Name] != t {
		c.See(ts.latest)
		return nil, api.NotFound(c.Op, t.Name)
	}
	description := t.Describe(types.TableStatusDeleting)
	if err := ts.retire(c, t); err != nil {
		return nil, err
	}
	delete(ts.byName, t.Name)
	ts.latest = max(ts.latest, c.Seen)
	return &dynamodb.DeleteTableOutput{TableDescription: description}, nil
}

// ListTables executes the operation of that name.
//
// A page continues after a name, which need not exist any more. At most 100 names are on a page
// (Limit, API reference).
func (ts *Tables) ListTables(c *api.Call, in *dynamodb.ListTablesInput) (*dynamodb.ListTablesOutput, error) {
	defer ts.Log.ShowAll(c)
	limit := 100
	if in.Limit != nil {
		limit = int(*in.Limit)
		if limit < 1 || limit > 100 {
			return nil, api.Validationf("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 100", limit)
		}
	}
	after := ""
	if in.ExclusiveStartTableName != nil {
		after = *in.ExclusiveStartTableName
		if err := api.CheckTableName(after); err != nil {
			return nil, err
		}
	}
	ts.mu.RLock()
	closed := ts.closed
	names := slices.Sorted(maps.Keys(ts.byName))
	ts.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	names = names[from:]
	out := &dynamodb.ListTablesOutput{TableNames: names}
	if len(names) > limit {
		out.TableNames = names[:limit:limit]
		out.LastEvaluatedTableName = aws.String(names[limit-1])
	}
	return out, nil
}
