package benchmarks_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// TestEngineDurable measures updates that are on disk when they are acknowledged, with
// different numbers of writers. It compares them with the disk's own speed for as many
// bytes. "each synced" is one writer that writes a record and syncs, again and again.
// "ceiling" writes the records of all writers at once, then syncs, and counts as that many.
// All files are extended with zeros before they are written, like the engine's; in
// "appended" they are not.
//
// Not parallel: other work would be measured too.
func TestEngineDurable(t *testing.T) {
	const keys = 1_000
	dir := t.TempDir()
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	if err := fill(ctx, db, small, keys, false); err != nil {
		t.Fatal(err)
	}
	size := recordSize(t)
	appended := newRaw(t, "appended", 1, size, false)
	synced := newRaw(t, "each synced", 1, size, true)
	s := newSheet("durable updates", "writers", "acknowledged/s", "p50", "p99", "of the ceiling", "aim")
	for i, writers := range []int{1, 8, 64, 256} {
		engine := &side{name: "dynamolite", work: func() (burst, error) {
			return drive(writers, *sliceTime, func(random *rand.Rand) error {
				_, err := db.UpdateItem(ctx, hotUpdate(random.IntN(keys)))
				return err
			})
		}}
		ceiling := newRaw(t, "ceiling", writers, size, true)
		sides := []*side{engine, ceiling}
		if i == 0 {
			sides = append(sides, synced, appended)
		}
		alternate(t, sides...)
		for _, side := range sides {
			records := 1.0
			share, aim := "", ""
			switch side {
			case engine:
				share = engine.to(ceiling, burst.rate).times(1 / float64(writers)).String()
				if writers == 64 {
					aim = "≥ 40000"
				}
			case ceiling:
				records = float64(writers)
			}
			s.row(side.name, strconv.Itoa(writers), perSecond(records*side.median(burst.rate)), latency(side.median(burst.p50)), latency(side.median(burst.p99)), share, aim)
		}
	}
	s.print(t, inSlices())
	t.Logf("a record has %d bytes; its directory is %s", size, filepath.Dir(dir))
}

// newRaw is one writer that writes records at once and then syncs.
func newRaw(tb testing.TB, name string, records, size int, extended bool) *side {
	tb.Helper()
	const extension = 1 << 20
	f, err := os.Create(filepath.Join(tb.TempDir(), "raw"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	data, zeros := bytes.Repeat([]byte{7}, records*size), make([]byte, extension)
	end, ready := int64(0), int64(0)
	write := func(*rand.Rand) error {
		if _, err := f.WriteAt(data, end); err != nil {
			return err
		}
		end += int64(len(data))
		if extended && end > ready {
			if _, err := f.WriteAt(zeros, end); err != nil {
				return err
			}
			ready = end + extension
		}
		return syncData(f)
	}
	return &side{name: name, work: func() (burst, error) { return drive(1, *sliceTime, write) }}
}

// recordSize is the number of log bytes of an update: the log's files end in zeros.
func recordSize(t *testing.T) int {
	t.Helper()
	const updates = 1_000
	dir := t.TempDir()
	db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := fill(t.Context(), db, small, 1, false); err != nil {
		t.Fatal(err)
	}
	logged := func() int {
		segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil || len(segments) != 1 {
			t.Fatalf("%d segments, %v; want 1", len(segments), err)
		}
		data, err := os.ReadFile(segments[0])
		if err != nil {
			t.Fatal(err)
		}
		return len(bytes.TrimRight(data, "\x00"))
	}
	before := logged()
	for range updates {
		if _, err := db.UpdateItem(t.Context(), hotUpdate(0)); err != nil {
			t.Fatal(err)
		}
	}
	return (logged() - before) / updates
}
