package dynamolite

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// Backfill is the filling of an index, under the control of a test.
type Backfill struct {
	db   *DB
	fill *backfill
}

// AddIndex executes an UpdateTable that creates an index, and leaves the filling to the test.
func (db *DB) AddIndex(in *dynamodb.UpdateTableInput) (*Backfill, error) {
	u, err := db.changeTable(&call{op: opUpdateTable}, in)
	if err != nil {
		return nil, err
	}
	return &Backfill{db, &backfill{table: u.table, index: u.added}}, nil
}

// Step enters some items, and reports whether there may be more.
func (b *Backfill) Step() bool {
	b.fill.step()
	return !b.fill.done()
}

// Run continues to the end, and reports whether the index can be read.
func (b *Backfill) Run() bool {
	b.db.fill(b.fill)
	return !b.fill.index.filling.Load()
}

// IndexProblem compares an index with the contents expected from the items of its table. No other
// operation may be in progress.
func (db *DB) IndexProblem(tableName, indexName string) error {
	t := db.tables[tableName]
	x, err := t.schema().index(indexName)
	if err != nil {
		return err
	}
	type at struct {
		shard int
		key   string
	}
	want := map[at]*record{}
	for i := range t.shards {
		for _, r := range t.shards[i].all() {
			item := r.item()
			if shard, key, ok := x.entryKey(r, item); ok {
				want[at{shard, key}] = x.entry(key, r, item)
			}
		}
	}
	for i := range x.shards {
		bytes := int64(0)
		for _, r := range x.shards[i].all() {
			w, ok := want[at{i, r.key}]
			switch {
			case !ok:
				return fmt.Errorf("the entry %v belongs to no item", r.item())
			case !value.EqualItems(w.item(), r.item()) || w.size != r.size:
				return fmt.Errorf("the entry is %v of %d bytes, want %v of %d", r.item(), r.size, w.item(), w.size)
			}
			delete(want, at{i, r.key})
			bytes += int64(r.size)
		}
		if got := x.shards[i].bytes; got != bytes {
			return fmt.Errorf("shard %d counts %d bytes, want %d", i, got, bytes)
		}
	}
	for _, w := range want {
		return fmt.Errorf("there is no entry of %v, and of %d others", w.item(), len(want)-1)
	}
	return nil
}

func (s *shard) all() (records []*record) {
	s.ascendLocked(keyRange{}, func(r *record) bool {
		records = append(records, r)
		return true
	})
	return records
}

// Prepare executes the first step of a transaction and returns the second.
func (db *DB) Prepare(items []types.TransactWriteItem) (commit func() error, err error) {
	c := &call{op: opTransactWriteItems}
	writes, err := db.newTransactWrite(c, items)
	if err != nil {
		return nil, err
	}
	tx := transaction{writes: writes, effects: make([]effect, len(writes))}
	tx.locks = lockSet(len(writes), func(i int) (*table, *itemKey) { return writes[i].table, &writes[i].key })
	if _, err := tx.prepare(db, c); err != nil {
		return nil, err
	}
	return func() error {
		_, err := tx.commit(db, c, nil)
		return err
	}, nil
}

// Sweep deletes what has expired by now.
func (db *DB) Sweep() error { return db.sweep() }

// FindExpired does the first half of a sweep of a table and returns the second, and how many items it is about.
func (db *DB) FindExpired(tableName string) (found int, expire func() error) {
	t, p := db.tables[tableName], pastOf(db.now())
	var keys []itemKey
	for shard := range t.shards {
		full, _, _ := t.expired(shard, "", p)
		for _, key := range full {
			keys = append(keys, itemKey{shard: shard, full: key})
		}
	}
	return len(keys), func() error {
		for _, key := range keys {
			if err := db.expire(t, key, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// LookForExpired looks through the first part of a shard, as a sweep does under one lock.
func (db *DB) LookForExpired(tableName string, shard int) int {
	keys, _, _ := db.tables[tableName].expired(shard, "", pastOf(db.now()))
	return len(keys)
}

// NextSweep is when the next sweep begins after the last one ended at swept, if the first item expires at an instant in
// seconds since 1970.
func NextSweep(every time.Duration, start, swept, now time.Time, at int64) time.Time {
	plan := sweepPlan{every: every, start: start}
	plan.swept(swept)
	return now.Add(plan.sleep(now, at))
}
