package dynamolite

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// CreateTable makes a table, which is ACTIVE at once. A name that is in use is a
// *types.ResourceInUseException.
func (db *DB) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return run(ctx, db, opCreateTable, in, (*DB).createTable)
}

func (db *DB) createTable(c *call, in *dynamodb.CreateTableInput) (*dynamodb.CreateTableOutput, error) {
	t, err := newTable(in, db.now(), db.streams.options)
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	c.sees(db.latest)
	if _, taken := db.tables[t.name]; taken {
		return nil, &types.ResourceInUseException{Message: aws.String("Table already exists: " + t.name)}
	}
	db.openLedgerLocked(t, t.schema())
	t.number = db.created + 1
	if stream := t.schema().stream; stream != nil {
		db.streams.add(stream)
	}
	pos, err := db.noteTable(t, t.schema())
	if err != nil {
		db.streams.remove(t.schema().stream)
		return nil, err
	}
	c.sees(pos)
	db.streams.publish(t.schema().stream, db.now())
	db.created, db.latest = t.number, max(db.latest, pos)
	db.tables[t.name] = t
	return &dynamodb.CreateTableOutput{TableDescription: t.describe(types.TableStatusActive)}, nil
}

// DescribeTable describes a table. Its item counts are exact, unlike those of AWS, which lag by hours.
func (db *DB) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return run(ctx, db, opDescribeTable, in, (*DB).describeTable)
}

func (db *DB) describeTable(c *call, in *dynamodb.DescribeTableInput) (*dynamodb.DescribeTableOutput, error) {
	defer c.seesAll(db)
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeTableOutput{Table: t.describe(types.TableStatusActive)}, nil
}

// DeleteTable drops a table, which is gone at once. While an index is being created, the deletion
// fails with a *types.ResourceInUseException. An operation that overlaps with the deletion may
// still succeed on the dropped table, as if it had come first.
func (db *DB) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	return run(ctx, db, opDeleteTable, in, (*DB).deleteTable)
}

func (db *DB) deleteTable(c *call, in *dynamodb.DeleteTableInput) (*dynamodb.DeleteTableOutput, error) {
	t, err := db.table(c, in.TableName)
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.tables[t.name] != t {
		c.sees(db.latest)
		return nil, notFound(c.op, t.name)
	}
	description := t.describe(types.TableStatusDeleting)
	if err := db.retire(c, t); err != nil {
		return nil, err
	}
	delete(db.tables, t.name)
	db.latest = max(db.latest, c.seen)
	return &dynamodb.DeleteTableOutput{TableDescription: description}, nil
}

// ListTables lists names in alphabetical order, at most 100 at a time.
func (db *DB) ListTables(ctx context.Context, in *dynamodb.ListTablesInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	return run(ctx, db, opListTables, in, (*DB).listTables)
}

func (db *DB) listTables(c *call, in *dynamodb.ListTablesInput) (*dynamodb.ListTablesOutput, error) {
	defer c.seesAll(db)
	limit := 100
	if in.Limit != nil {
		limit = int(*in.Limit)
		if limit < 1 || limit > 100 {
			return nil, validationf("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 100", limit)
		}
	}
	after := ""
	if in.ExclusiveStartTableName != nil {
		after = *in.ExclusiveStartTableName
		if err := checkTableName(after); err != nil {
			return nil, err
		}
	}
	db.mu.RLock()
	closed := db.closed
	names := slices.Sorted(maps.Keys(db.tables))
	db.mu.RUnlock()
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
