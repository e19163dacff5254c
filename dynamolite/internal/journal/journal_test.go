package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// replayed holds everything that Open loads: the position of the checkpoint, its entries, and
// those logged after it.
type replayed struct {
	Checkpoint journal.Position
	Image      []string
	Log        []string
}

// load checks that positions are dense and collects the data.
func (r *replayed) load(e journal.Entry) error {
	data := string(e.Data)
	if e.Checkpoint {
		r.Checkpoint = e.Position
		r.Image = append(r.Image, data)
		return nil
	}
	r.Log = append(r.Log, data)
	if r.Checkpoint == 0 && len(r.Log) == 1 {
		r.Checkpoint = e.Position - 1 // an empty image
	}
	if want := r.Checkpoint + journal.Position(len(r.Log)); e.Position != want {
		return fmt.Errorf("entry %d comes where %d should", e.Position, want)
	}
	return nil
}

// small returns options for segments of one sector.
func small(d journal.FS) journal.Options {
	return journal.Options{SegmentBytes: journal.SectorBytes}.On(d)
}

// open opens the journal in "dir".
func open(tb testing.TB, o journal.Options) (*journal.Journal, replayed) {
	tb.Helper()
	var r replayed
	j, err := journal.Open("dir", o, r.load)
	if err != nil {
		tb.Fatal(err)
	}
	return j, r
}

// replay opens the journal on a disk, closes it and returns its entries.
func replay(tb testing.TB, d *disk) replayed {
	tb.Helper()
	j, got := open(tb, small(d))
	closed(tb, j)
	return got
}

// add appends entries and waits for them, as one group unless the writer is quick.
func add(tb testing.TB, j *journal.Journal, entries ...string) {
	tb.Helper()
	var last journal.Position
	for _, e := range entries {
		p, err := j.Append([]byte(e), nil)
		if err != nil {
			tb.Fatal(err)
		}
		last = p
	}
	if err := j.Wait(last); err != nil {
		tb.Fatal(err)
	}
}

// image writes a checkpoint.
func image(j *journal.Journal, entries ...string) error {
	c, err := j.BeginCheckpoint()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.Put([]byte(e)); err != nil {
			return err
		}
	}
	return c.Commit()
}

func closed(tb testing.TB, j *journal.Journal) {
	tb.Helper()
	if err := j.Close(); err != nil {
		tb.Fatal(err)
	}
}

func mustEqual(tb testing.TB, what string, want, got any) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Appended entries of any size come back, on a real disk.
func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	large := strings.Repeat("0123456789abcde\n", 3<<20/16) // larger than a window, an extension or a segment
	entries := []string{"first", "", large, "\x00\x00\x00", strings.Repeat("x", 511), "last"}
	var want []string
	for round := range 3 {
		var r replayed
		j, err := journal.Open(dir, journal.Options{SegmentBytes: 1 << 20}, r.load)
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, "replay", want, r.Log)
		mustEqual(t, "position", journal.Position(round*len(entries)), j.Appended())
		mustEqual(t, "durable", j.Appended(), j.Durable())
		add(t, j, entries...)
		mustEqual(t, "durable", journal.Position((round+1)*len(entries)), j.Durable())
		want = append(want, entries...)
		closed(t, j)
	}
}

// A checkpoint replaces the log before it. Entries after it stay, also those appended while it
// was written.
func TestCheckpointReplacesTheLog(t *testing.T) {
	t.Parallel()
	d := newDisk()
	j, _ := open(t, small(d))
	add(t, j, "1", "2", strings.Repeat("3", 2*journal.SectorBytes), "4")
	logged, _ := j.Grown()
	mustEqual(t, "logged", int64(4*journal.RecordOverhead+3+2*journal.SectorBytes), logged)
	c, err := j.BeginCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "position", journal.Position(4), c.Position())
	add(t, j, "5")
	for _, e := range []string{"a", "", strings.Repeat("b", 2<<20)} {
		if err := c.Put([]byte(e)); err != nil {
			t.Fatal(err)
		}
	}
	add(t, j, "6")
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
	c.Abort() // does nothing
	want := replayed{Checkpoint: 4, Image: []string{"a", "", strings.Repeat("b", 2<<20)}, Log: []string{"5", "6"}}
	logged, size := j.Grown()
	mustEqual(t, "logged", int64(2*journal.RecordOverhead+2), logged)
	mustEqual(t, "size", int64(len(d.files()[journal.CheckpointName(4)])), size)
	closed(t, j)
	mustEqual(t, "files", []string{journal.CheckpointName(4), journal.SegmentName(5), journal.NewestName}, sortedNames(d))
	j, got := open(t, small(d))
	mustEqual(t, "replay", want, got)
	logged, again := j.Grown()
	mustEqual(t, "logged", int64(2*journal.RecordOverhead+2), logged)
	mustEqual(t, "size", size, again)

	// An empty image is valid. So is a second one at the same position, which needs no new
	// segment.
	creations := d.count("create")
	for range 2 {
		if err := image(j); err != nil {
			t.Fatal(err)
		}
	}
	mustEqual(t, "files created", 4, d.count("create")-creations)
	add(t, j, "7")
	closed(t, j)
	mustEqual(t, "replay", replayed{Checkpoint: 6, Log: []string{"7"}}, replay(t, d))
}

func TestOneCheckpointAtATime(t *testing.T) {
	t.Parallel()
	d := newDisk()
	j, _ := open(t, small(d))
	add(t, j, "1")
	c, err := j.BeginCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.BeginCheckpoint(); !errors.Is(err, journal.ErrCheckpointing) {
		t.Errorf("a second checkpoint: %v", err)
	}
	if err := c.Put([]byte("a")); err != nil {
		t.Fatal(err)
	}
	c.Abort()
	c.Abort()
	for what, err := range map[string]error{"put": c.Put(nil), "commit": c.Commit()} {
		if !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s after abort: %v", what, err)
		}
	}
	if err := image(j, "b"); err != nil {
		t.Fatal(err)
	}
	c, err = j.BeginCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put([]byte("c")); err != nil {
		t.Fatal(err)
	}
	closed(t, j)
	if err := c.Commit(); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	mustEqual(t, "files", []string{journal.CheckpointName(1), journal.SegmentName(2), journal.NewestName}, sortedNames(d))
}

// A failed checkpoint does no harm.
func TestFailedCheckpoint(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	for _, kind := range []string{"create", "write", "sync", "rename", "syncdir"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDisk()
			j, _ := open(t, small(d))
			add(t, j, "1")
			if err := image(j, "a"); err != nil {
				t.Fatal(err)
			}
			add(t, j, "2")
			add(t, j, strings.Repeat("3", journal.SectorBytes))
			c, err := j.BeginCheckpoint()
			if err != nil {
				t.Fatal(err)
			}
			add(t, j, "4") // a new segment has begun
			d.mu.Lock()
			d.before = func(o operation) (int, error) {
				if o.kind == kind && (kind == "syncdir" || strings.HasPrefix(o.name, journal.CheckpointName(3))) {
					return 0, full
				}
				return 0, nil
			}
			d.mu.Unlock()
			err = c.Put([]byte("b"))
			if err == nil {
				err = c.Commit()
			}
			if !errors.Is(err, full) {
				t.Fatalf("a checkpoint although the disk is full: %v", err)
			}
			if again := c.Commit(); !errors.Is(again, full) {
				t.Errorf("commit again: %v", again)
			}
			d.mu.Lock()
			d.before = nil
			d.mu.Unlock()
			add(t, j, "5")
			closed(t, j)
			want := replayed{Checkpoint: 1, Image: []string{"a"}, Log: []string{"2", strings.Repeat("3", journal.SectorBytes), "4", "5"}}
			if kind == "syncdir" { // the new file exists, but not yet durably
				want = replayed{Checkpoint: 3, Image: []string{"b"}, Log: []string{"4", "5"}}
			}
			j, got := open(t, small(d))
			mustEqual(t, "replay", want, got)
			if err := image(j, "c"); err != nil {
				t.Fatal(err)
			}
			closed(t, j)
			mustEqual(t, "files", []string{journal.CheckpointName(5), journal.SegmentName(6), journal.NewestName}, sortedNames(d))
		})
	}
}

// A checkpoint that is on disk succeeds even if old files cannot be removed.
func TestObsoleteFilesThatStay(t *testing.T) {
	t.Parallel()
	d := newDisk()
	var logged bytes.Buffer
	o := small(d)
	o.Logger = textLogger(&logged)
	j, _ := open(t, o)
	add(t, j, "1")
	d.failRemoves()
	if err := image(j, "a"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logged.String(), "could not be removed") {
		t.Errorf("logged: %s", logged.String())
	}
	d.mu.Lock()
	d.before = nil
	d.mu.Unlock()
	closed(t, j)
	mustEqual(t, "files", []string{journal.CheckpointName(1), journal.SegmentName(1), journal.SegmentName(2), journal.NewestName}, sortedNames(d))
	mustEqual(t, "replay", replayed{Checkpoint: 1, Image: []string{"a"}}, replay(t, d))
	mustEqual(t, "files", []string{journal.CheckpointName(1), journal.SegmentName(2), journal.NewestName}, sortedNames(d))
}

// A lone caller pays for one write and one sync.
func TestTheCostOfAnEntry(t *testing.T) {
	t.Parallel()
	d := newDisk()
	j, _ := open(t, journal.Options{SegmentBytes: 64 << 10}.On(d))
	defer closed(t, j)
	before, synced := len(d.operations()), d.count("sync")
	const entries = 100
	for i := range entries {
		add(t, j, fmt.Sprint("entry ", i))
	}
	if got := len(d.operations()) - before; got != 2*entries {
		t.Errorf("%d entries cost %d operations", entries, got)
	}
	mustEqual(t, "syncs", entries, d.count("sync")-synced)
}

func TestClosed(t *testing.T) {
	t.Parallel()
	j, _ := open(t, small(newDisk()))
	p, err := j.Append([]byte("1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, j)
	if err := j.Wait(p); err != nil {
		t.Errorf("Close has put the entry on disk, but Wait: %v", err)
	}
	if err := j.Wait(p + 1); err == nil {
		t.Error("waited for an entry that was never appended")
	}
	_, appendErr := j.Append(nil, nil)
	_, beginErr := j.BeginCheckpoint()
	for what, err := range map[string]error{"append": appendErr, "checkpoint": beginErr, "close": j.Close()} {
		if !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s after close: %v", what, err)
		}
	}
}

func TestRefusedEntriesAndOptions(t *testing.T) {
	t.Parallel()
	j, _ := open(t, small(newDisk()))
	defer closed(t, j)
	tooLarge := make([]byte, journal.MaxEntryBytes+1)
	if _, err := j.Append(tooLarge, nil); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("append: %v", err)
	}
	c, err := j.BeginCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put(tooLarge); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("checkpoint: %v", err)
	}
	add(t, j, "1")
	if _, err := journal.Open("dir", journal.Options{SegmentBytes: -1}, ignore); err == nil {
		t.Error("a negative size was taken")
	}
}

// 64 callers at once: positions are dense. The calls of then, the confirmations of Wait and the
// entries of a replay have the same order.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	const writers, each = 64, 50
	d := newDisk()
	j, _ := open(t, journal.Options{SegmentBytes: 4 << 10}.On(d))
	var inOrder []string // guarded by the journal
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				entry := fmt.Sprintf("%d of %d", i, w)
				var told journal.Position
				p, err := j.Append([]byte(entry), func(p journal.Position) {
					told = p
					inOrder = append(inOrder, entry)
					if p != journal.Position(len(inOrder)) {
						t.Errorf("entry %d is told to be number %d", len(inOrder), p)
					}
				})
				if err == nil {
					err = j.Wait(p)
				}
				if err != nil || told != p || j.Durable() < p {
					t.Errorf("position %d, told %d, durable %d, %v", p, told, j.Durable(), err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			c, err := j.BeginCheckpoint()
			if err != nil {
				t.Error(err)
				return
			}
			if c.Position() != 0 {
				c.Abort() // divides groups even if aborted
			} else if err := c.Commit(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	closed(t, j)
	mustEqual(t, "replay", inOrder, replay(t, d).Log)
	if len(inOrder) != writers*each {
		t.Errorf("%d entries", len(inOrder))
	}
}
