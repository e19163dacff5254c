package benchmarks_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// TestEngineStart measures Open, each time in its own process: in memory, in a new
// directory, and in directories with items of 10 attributes and 400 bytes. These have a
// checkpoint, or a log and no checkpoint.
func TestEngineStart(t *testing.T) {
	const starts = 5
	full, logged := t.TempDir(), t.TempDir()
	filled := prepare(t, full, logged)
	s := newSheet("start", "on disk", "Open", "aim", "until an item is read", "until another process has the answer", "resident")
	for _, c := range []struct {
		name string
		dir  func() string
		aim  time.Duration
	}{
		{"in memory", func() string { return "" }, 50 * time.Millisecond},
		{"fresh directory", t.TempDir, 50 * time.Millisecond},
		{perSecond(float64(*manyItems)) + " items, checkpoint", func() string { return full }, 10 * time.Second},
		{perSecond(float64(*manyItems)) + " items, log alone", func() string { return logged }, 10 * time.Second},
	} {
		var opens, reads, answers, resident []float64
		var dir string
		for range starts {
			dir = c.dir()
			begun := time.Now()
			p := startProcess(t, "start")
			o := ask[opened](t, p, orders{Open: &openOrder{Dir: dir}})
			answers = append(answers, float64(time.Since(begun)))
			opens, reads = append(opens, float64(o.Open)), append(reads, float64(o.FirstRead))
			resident = append(resident, ask[usage](t, p, orders{Usage: true}).Resident)
			p.end()
		}
		s.row(c.name, megabytes(onDisk(t, dir)), latency(estimateOf(opens).median), "≤ "+c.aim.String(), latency(estimateOf(reads).median), latency(estimateOf(answers).median), megabytes(estimateOf(resident).median))
	}
	s.print(t, fmt.Sprintf("medians of %d starts; %s", starts, filled))
}

// prepare creates two directories with the same items. full has a checkpoint and the little
// that was logged while it was written. logged has the log of all writes and no checkpoint.
// prepare returns how it created full.
func prepare(t *testing.T, full, logged string) string {
	t.Helper()
	ctx := t.Context()
	db, err := dynamolite.Open(dynamolite.Options{Dir: full})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	// A checkpoint removes the segments it replaces, but not a second link to them.
	stop := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				if err := keep(full, logged); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	err = fill(ctx, db, medium, *manyItems, false)
	close(stop)
	keeping.Wait()
	filled := time.Since(begun)
	if err := errors.Join(err, db.Close(), keep(full, logged), detach(full, logged)); err != nil {
		t.Fatal(err)
	}
	writes := overwrite(t, full)
	for _, dir := range []string{full, logged} {
		if n := count(t, dir); n != *manyItems {
			t.Fatalf("%s has %d items, want %d", filepath.Base(dir), n, *manyItems)
		}
	}
	return perSecond(float64(*manyItems)) + " items were written in " + latency(float64(filled)) +
		", then " + perSecond(float64(writes)) + " overwritten until there was a checkpoint"
}

// keep links the segments of one directory into another.
func keep(from, to string) error {
	segments, err := filepath.Glob(filepath.Join(from, "*.log"))
	for _, s := range segments {
		if lost := os.Link(s, filepath.Join(to, filepath.Base(s))); lost != nil && !errors.Is(lost, os.ErrExist) && !errors.Is(lost, os.ErrNotExist) {
			return lost
		}
	}
	return err
}

// detach copies the segments that a directory still uses, so that the other directory's
// stay unchanged.
func detach(from, to string) error {
	segments, err := filepath.Glob(filepath.Join(from, "*.log"))
	for _, s := range segments {
		name := filepath.Join(to, filepath.Base(s))
		data, lost := os.ReadFile(s)
		if err := errors.Join(lost, os.Remove(name), os.WriteFile(name, data, 0o600)); err != nil {
			return err
		}
	}
	return err
}

// overwrite updates items at random until a checkpoint has replaced the log, and returns
// the number of updates.
func overwrite(t *testing.T, dir string) int64 {
	t.Helper()
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	before := checkpointsIn(t, dir)
	var writes atomic.Int64
	for fresh := false; !fresh; {
		if _, err := drive(256, 20*time.Millisecond, func(random *rand.Rand) error {
			writes.Add(1)
			_, err := db.UpdateItem(t.Context(), hotUpdate(random.IntN(*manyItems)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		now := checkpointsIn(t, dir)
		fresh = len(now) == 1 && !slices.Equal(now, before)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return writes.Load()
}

func checkpointsIn(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// count is the number of items in a directory.
func count(t *testing.T, dir string) int {
	t.Helper()
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n := 0
	var from map[string]types.AttributeValue
	for {
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), Select: types.SelectCount, ExclusiveStartKey: from})
		if err != nil {
			t.Fatal(err)
		}
		n += int(out.Count)
		if from = out.LastEvaluatedKey; from == nil {
			return n
		}
	}
}

// onDisk is the disk space of a directory's files, in bytes; 0 without a directory.
func onDisk(t *testing.T, dir string) (bytes float64) {
	t.Helper()
	if dir == "" {
		return 0
	}
	if err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += float64(s.Blocks) * 512
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}
