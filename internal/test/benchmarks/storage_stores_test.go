package benchmarks_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/bbolt"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// valueBytes is the size of the values in stores; a value begins with a counter.
const valueBytes = 200

// A keptStore keeps values in a directory.
type keptStore interface {
	// count adds one to the counter of a value, and returns once it is on disk.
	count(key int) error
	// load creates or replaces values, from one number up to another; close puts them on
	// disk at the latest.
	load(from, to int) error
	// read returns the counter of a value.
	read(key int) (uint64, error)
	close() error
}

// A storage is a way to keep values.
type storage struct {
	name string
	open func(dir string) (keptStore, error)
	// imported and use are the code that a program needs for the storage, see
	// TestStorageFootprint.
	imported, use string
}

var storages = []storage{
	{"dynamolite", openDynamolite, "github.com/zeroae/zae-limiter-go/dynamolite/internal/journal", `
		s, _ := storage.Open("dir", storage.Options{}, func(storage.Entry) error { return nil })
		p, _ := s.Append([]byte("data"), nil)
		_ = s.Wait(p)
		c, _ := s.BeginCheckpoint()
		_ = c.Put([]byte("data"))
		_ = c.Commit()
		_ = s.Close()`},
	{"pebble", openPebble, "github.com/cockroachdb/pebble/v2", `
		s, _ := storage.Open("dir", &storage.Options{})
		_ = s.Set([]byte("key"), []byte("data"), storage.Sync)
		_, c, _ := s.Get([]byte("key"))
		_ = c.Close()
		_ = s.Close()`},
	{"bbolt Batch", openBolt, "go.etcd.io/bbolt", `
		s, _ := storage.Open("file", 0o600, nil)
		_ = s.Batch(func(tx *storage.Tx) error {
			b, _ := tx.CreateBucketIfNotExists([]byte("bucket"))
			_ = b.Get([]byte("key"))
			return b.Put([]byte("key"), []byte("data"))
		})
		_ = s.Close()`},
}

func storedKey(i int) string { return fmt.Sprintf("ENTITY#%08d", i) }

// noise is incompressible data.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}()

// filler is n bytes, different for each key.
func filler(key, n int) []byte {
	from := key * 197 % (len(noise) - n)
	return noise[from : from+n]
}

// storedValue has the counter n and a filler.
func storedValue(key int, n uint64) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, valueBytes), n), filler(key, valueBytes-8)...)
}

// dynamoliteStore is the engine: a value is an item with a number and a binary. So its
// updates are also parsed, checked and indexed.
type dynamoliteStore struct{ db *dynamolite.DB }

func openDynamolite(dir string) (keptStore, error) {
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	_, err = db.CreateTable(context.Background(), &dynamodb.CreateTableInput{
		TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            keySchema("PK", "SK")[:1],
		AttributeDefinitions: []types.AttributeDefinition{stringNamed("PK")},
	})
	if err != nil && !strings.Contains(err.Error(), "ResourceInUseException") {
		return nil, err
	}
	return &dynamoliteStore{db}, nil
}

func (s *dynamoliteStore) count(key int) error {
	_, err := s.db.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: attributes{"PK": text(storedKey(key))},
		UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: attributes{":one": number("1")},
	})
	return err
}

func (s *dynamoliteStore) load(from, to int) error {
	const batch = 25
	for ; from < to; from += batch {
		var requests []types.WriteRequest
		for i := from; i < min(from+batch, to); i++ {
			item := attributes{"PK": text(storedKey(i)), "n": number("0"), "v": &types.AttributeValueMemberB{Value: filler(i, valueBytes-8)}}
			requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: item}})
		}
		if _, err := s.db.BatchWriteItem(context.Background(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{table: requests},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *dynamoliteStore) read(key int) (n uint64, err error) {
	out, err := s.db.GetItem(context.Background(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: attributes{"PK": text(storedKey(key))}})
	if err != nil {
		return 0, err
	}
	counter, ok := out.Item["n"].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("there is no value %d", key)
	}
	_, err = fmt.Sscan(counter.Value, &n)
	return n, err
}

func (s *dynamoliteStore) close() error { return s.db.Close() }

// pebbleStore is Pebble with its defaults. Values are locked while they change, not while
// they are synced.
type pebbleStore struct {
	db    *pebble.DB
	locks [256]sync.Mutex
}

func openPebble(dir string) (keptStore, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: mute{}})
	if err != nil {
		return nil, err
	}
	return &pebbleStore{db: db}, nil
}

// mute is a logger without output.
type mute struct{}

func (mute) Infof(string, ...any)  {}
func (mute) Errorf(string, ...any) {}
func (mute) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func (s *pebbleStore) count(key int) error {
	b := s.db.NewBatch()
	err := func() error {
		lock := &s.locks[key%len(s.locks)]
		lock.Lock()
		defer lock.Unlock()
		n, err := s.read(key)
		if err != nil {
			return err
		}
		if err := b.Set([]byte(storedKey(key)), storedValue(key, n+1), nil); err != nil {
			return err
		}
		return s.db.ApplyNoSyncWait(b, pebble.Sync)
	}()
	if err != nil {
		return err
	}
	if err := b.SyncWait(); err != nil {
		return err
	}
	return b.Close()
}

func (s *pebbleStore) load(from, to int) error {
	const batch = 1_000
	for ; from < to; from += batch {
		b := s.db.NewBatch()
		for i := from; i < min(from+batch, to); i++ {
			if err := b.Set([]byte(storedKey(i)), storedValue(i, 0), nil); err != nil {
				return err
			}
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return err
		}
	}
	return nil
}

func (s *pebbleStore) read(key int) (uint64, error) {
	value, closer, err := s.db.Get([]byte(storedKey(key)))
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	return binary.BigEndian.Uint64(value), nil
}

func (s *pebbleStore) close() error { return s.db.Close() }

// boltStore is bbolt with batches that wait a millisecond for other writers.
type boltStore struct{ db *bbolt.DB }

var boltBucket = []byte(table)

func openBolt(dir string) (keptStore, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = time.Millisecond
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(boltBucket)
		return err
	}); err != nil {
		return nil, err
	}
	return &boltStore{db}, nil
}

func (s *boltStore) count(key int) error {
	return s.db.Batch(func(tx *bbolt.Tx) error {
		b := tx.Bucket(boltBucket)
		k := []byte(storedKey(key))
		return b.Put(k, storedValue(key, binary.BigEndian.Uint64(b.Get(k))+1))
	})
}

func (s *boltStore) load(from, to int) error {
	const batch = 10_000
	for ; from < to; from += batch {
		if err := s.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(boltBucket)
			for i := from; i < min(from+batch, to); i++ {
				if err := b.Put([]byte(storedKey(i)), storedValue(i, 0)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *boltStore) read(key int) (n uint64, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		value := tx.Bucket(boltBucket).Get([]byte(storedKey(key)))
		if value == nil {
			return fmt.Errorf("there is no value %d", key)
		}
		n = binary.BigEndian.Uint64(value)
		return nil
	})
	return n, err
}

func (s *boltStore) close() error { return s.db.Close() }

// boltUpdate is bbolt with a transaction for each count.
type boltUpdate struct{ boltStore }

func openBoltUpdate(dir string) (keptStore, error) {
	s, err := openBolt(dir)
	if err != nil {
		return nil, err
	}
	bolt, _ := s.(*boltStore)
	return &boltUpdate{*bolt}, nil
}

func (s *boltUpdate) count(key int) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(boltBucket)
		k := []byte(storedKey(key))
		return b.Put(k, storedValue(key, binary.BigEndian.Uint64(b.Get(k))+1))
	})
}

// TestStorageCounts checks that every store counts correctly with many writers, and keeps
// the counts when it is opened again.
func TestStorageCounts(t *testing.T) {
	t.Parallel()
	const writers, each, keys = 16, 25, 3
	for _, s := range append(storages, storage{name: "bbolt Update", open: openBoltUpdate}) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store, err := s.open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.load(0, keys); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						if err := store.count((w + i) % keys); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if err := store.close(); err != nil {
				t.Fatal(err)
			}
			if store, err = s.open(dir); err != nil {
				t.Fatal(err)
			}
			defer store.close()
			var sum uint64
			for key := range keys {
				n, err := store.read(key)
				if err != nil {
					t.Error(err)
				}
				sum += n
			}
			if sum != writers*each {
				t.Errorf("counted to %d, want %d", sum, writers*each)
			}
		})
	}
}
