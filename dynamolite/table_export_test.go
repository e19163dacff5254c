package dynamolite

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/sweep"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/transact"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// Backfill is the filling of an index, under the control of a test.
type Backfill struct {
	db   *DB
	fill *catalog.Backfill
}

// AddIndex executes an UpdateTable that creates an index, and leaves the filling to the test.
func (db *DB) AddIndex(in *dynamodb.UpdateTableInput) (*Backfill, error) {
	u, err := db.tables.ChangeTable(&api.Call{Op: api.UpdateTable}, in)
	if err != nil {
		return nil, err
	}
	return &Backfill{db, &catalog.Backfill{Table: u.Table, Index: u.Added}}, nil
}

// Step enters some items, and reports whether there may be more.
func (b *Backfill) Step() bool {
	b.fill.Step()
	return !b.fill.Done()
}

// Run continues to the end, and reports whether the index can be read.
func (b *Backfill) Run() bool {
	b.db.tables.Fill(b.fill)
	return !b.fill.Index.Filling.Load()
}

// IndexProblem compares an index with the contents expected from the items of its table. No other
// operation may be in progress.
func (db *DB) IndexProblem(tableName, indexName string) error {
	t := db.tableNamed(tableName)
	x, err := t.Schema().Index(indexName)
	if err != nil {
		return err
	}
	type at struct {
		shard int
		key   string
	}
	want := map[at]*storage.Record{}
	for i := range t.Shards {
		for _, r := range recordsOf(&t.Shards[i]) {
			item := r.Item()
			if shard, key, ok := x.EntryKey(r, item); ok {
				want[at{shard, key}] = x.Entry(key, r, item)
			}
		}
	}
	for i := range x.Shards {
		bytes := int64(0)
		for _, r := range recordsOf(&x.Shards[i]) {
			w, ok := want[at{i, r.Key}]
			switch {
			case !ok:
				return fmt.Errorf("the entry %v belongs to no item", r.Item())
			case !value.EqualItems(w.Item(), r.Item()) || w.Size != r.Size:
				return fmt.Errorf("the entry is %v of %d bytes, want %v of %d", r.Item(), r.Size, w.Item(), w.Size)
			}
			delete(want, at{i, r.Key})
			bytes += int64(r.Size)
		}
		if got := x.Shards[i].Bytes; got != bytes {
			return fmt.Errorf("shard %d counts %d bytes, want %d", i, got, bytes)
		}
	}
	for _, w := range want {
		return fmt.Errorf("there is no entry of %v, and of %d others", w.Item(), len(want)-1)
	}
	return nil
}

func recordsOf(s *storage.Shard) (records []*storage.Record) {
	s.AscendLocked(storage.Range{}, func(r *storage.Record) bool {
		records = append(records, r)
		return true
	})
	return records
}

// Prepare executes the first step of a transaction and returns the second.
func (db *DB) Prepare(items []types.TransactWriteItem) (commit func() error, err error) {
	c := &api.Call{Op: api.TransactWriteItems}
	writes, err := db.transactions.NewTransactWrite(c, items)
	if err != nil {
		return nil, err
	}
	tx := transact.NewTransaction(writes)
	if _, err := tx.Prepare(db.transactions, c); err != nil {
		return nil, err
	}
	return func() error {
		_, err := tx.Commit(db.transactions, c, nil)
		return err
	}, nil
}

// Sweep deletes what has expired by now.
func (db *DB) Sweep() error { return db.sweeper.Sweep() }

// FindExpired does the first half of a sweep of a table and returns the second, and how many items it is about.
func (db *DB) FindExpired(tableName string) (found int, expire func() error) {
	t, p := db.tableNamed(tableName), table.PastOf(db.log.Now())
	var keys []storage.ItemKey
	for shard := range t.Shards {
		full, _, _ := sweep.ExpiredIn(t, shard, "", p)
		for _, key := range full {
			keys = append(keys, storage.ItemKey{Shard: shard, Full: key})
		}
	}
	return len(keys), func() error {
		for _, key := range keys {
			if err := db.sweeper.Expire(t, key, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// LookForExpired looks through the first part of a shard, as a sweep does under one lock.
func (db *DB) LookForExpired(tableName string, shard int) int {
	keys, _, _ := sweep.ExpiredIn(db.tableNamed(tableName), shard, "", table.PastOf(db.log.Now()))
	return len(keys)
}

// NextSweep is when the next sweep begins after the last one ended at swept, if the first item expires at an instant in
// seconds since 1970.
func NextSweep(every time.Duration, start, swept, now time.Time, at int64) time.Time {
	plan := sweep.Plan{Every: every, Start: start}
	plan.Swept(swept)
	return now.Add(plan.Sleep(now, at))
}

func (db *DB) tableNamed(name string) *table.Table {
	t, err := db.tables.Find(&api.Call{}, &name)
	if err != nil {
		panic(err)
	}
	return t
}
