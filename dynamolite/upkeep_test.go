package dynamolite_test

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// warnings counts the warnings of a database.
type warnings struct {
	slog.Handler
	n *atomic.Int64
}

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(context.Context, slog.Record) error {
	w.n.Add(1)
	return nil
}

// A failed checkpoint is retried when the log has grown by as much again, not at every check.
func TestFailedCheckpointIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	const after, writers, each = 128 << 10, 32, 160
	var failed atomic.Int64
	db, err := dynamolite.Open(dynamolite.CheckpointAfter(dynamolite.Options{
		Dir: t.TempDir(), Logger: slog.New(warnings{slog.DiscardHandler, &failed}),
	}, after))
	if err != nil {
		t.Fatal(err)
	}
	f := fixtureIn(t, db)
	release, err := db.HoldCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for worker := range writers {
		wg.Go(func() {
			for range each {
				f.update(keyed("a", strconv.Itoa(worker)), "ADD n :one", attrs{":one": num("1")})
			}
		})
	}
	wg.Wait()
	logged := db.Logged()
	release()
	closeDB(t, db)
	if n := failed.Load(); n < 2 || n > logged/after {
		t.Errorf("%d checkpoints were tried while %d bytes were logged, want 2 to %d", n, logged, logged/after)
	}
}

// A stream with no readable records left is released when another stream begins, even if no
// client asks for streams.
func TestOldStreamsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	db := dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }})
	in := otherInput()
	in.StreamSpecification = streaming(types.StreamViewTypeNewImage)
	for range 3 {
		if _, err := db.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if n := db.KnownStreams(); n != 1 {
			t.Errorf("the database holds on to %d streams, want the last", n)
		}
		if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(otherName)}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(25 * time.Hour)
	}
}

// The image that an item had when the database was opened is released when it is overwritten,
// although its key is still in use. The same holds for the image of an item that was written in
// the same transaction.
//
// Not parallel: it measures the whole heap.
func TestOverwrittenItemsAreLetGo(t *testing.T) { //nolint:paralleltest // see above
	const items, size = 300, 100 << 10
	dir := t.TempDir()
	all := func(db *dynamolite.DB, write func(f *fixture, i int)) {
		t.Helper()
		f := &fixture{t, db}
		var wg sync.WaitGroup
		for worker := range 10 {
			wg.Go(func() {
				for i := worker; i < items; i += 10 {
					write(f, i)
				}
			})
		}
		wg.Wait()
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the contents of a pool survive one collection
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far less
	}
	before := heap()
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	fixtureIn(t, db)
	all(db, func(f *fixture, i int) {
		large, small := keyed("large", strconv.Itoa(i)), keyed("small", strconv.Itoa(i))
		if err := f.transact(t.Context(), transactPut(with(large, attrs{"v": blob(size)})), transactPut(small)); err != nil {
			t.Error(err)
		}
	})
	closeDB(t, db)
	if db, err = dynamolite.Open(dynamolite.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	all(db, func(f *fixture, i int) {
		f.update(keyed("large", strconv.Itoa(i)), "SET v = :v", attrs{":v": blob(1)}) // keeps the key that was read
	})
	if held := heap() - before; held > items*size/2 {
		t.Errorf("%d bytes are held on to after %d were overwritten", held, items*size)
	}
	closeDB(t, db)
}
