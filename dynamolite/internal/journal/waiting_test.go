package journal_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// Beginning a checkpoint, appending and the queries do not wait for the disk.
func TestNothingWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		j, _ := open(t, small(d))
		gate := make(chan struct{})
		stuck := &stuckFiles{FS: d, gate: gate}
		closed(t, j)
		j, _ = open(t, small(stuck))
		first, err := j.Append([]byte("1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the writer is stuck in the sync
		if _, err := j.Append([]byte("2"), nil); err != nil {
			t.Fatal(err)
		}
		c, err := j.BeginCheckpoint()
		if err != nil {
			t.Fatal(err)
		}
		last, err := j.Append([]byte("3"), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, "appended", last, j.Appended())
		mustEqual(t, "durable", first-1, j.Durable())
		close(gate)
		if err := j.Wait(last); err != nil {
			t.Error(err)
		}
		if err := c.Commit(); err != nil {
			t.Error(err)
		}
		closed(t, j)
		mustEqual(t, "replay", replayed{Checkpoint: 2, Log: []string{"3"}}, replay(t, d))
	})
}

// Close does not release the directory while a checkpoint is being committed.
func TestCloseDuringCommit(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rename", "remove"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDisk()
			stuck := &stuckNames{disk: d, kind: kind, begun: make(chan struct{}), gate: make(chan struct{})}
			j, _ := open(t, small(stuck))
			add(t, j, "1")
			c, err := j.BeginCheckpoint()
			if err != nil {
				t.Fatal(err)
			}
			add(t, j, "2") // a new segment has begun
			stuck.armed.Store(true)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := c.Commit(); err != nil {
					t.Error(err)
				}
			})
			<-stuck.begun
			var gone atomic.Bool
			wg.Go(func() {
				closed(t, j)
				gone.Store(true)
			})
			for range 10_000 { // gives a Close that is too early time to return
				runtime.Gosched()
			}
			if gone.Load() {
				t.Error("the journal was closed during the commit")
			}
			close(stuck.gate)
			wg.Wait()
			mustEqual(t, "files", []string{journal.CheckpointName(1), journal.SegmentName(2), journal.NewestName}, sortedNames(d))
		})
	}
}

// stuckNames makes the first rename or removal, once armed, wait for the gate.
type stuckNames struct {
	*disk
	kind        string
	armed       atomic.Bool
	begun, gate chan struct{}
}

func (s *stuckNames) hold(kind string) {
	if kind == s.kind && s.armed.Swap(false) {
		close(s.begun)
		<-s.gate
	}
}

func (s *stuckNames) Rename(from, to string) error {
	s.hold("rename")
	return s.disk.Rename(from, to)
}

func (s *stuckNames) Remove(name string) error {
	s.hold("remove")
	return s.disk.Remove(name)
}

// A caller that waits for an entry being written wakes up when it is written, even if nothing is
// appended after it.
func TestWaitForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		gate := make(chan struct{})
		j, _ := open(t, small(d))
		closed(t, j)
		j, _ = open(t, small(&stuckFiles{FS: d, gate: gate}))
		p, err := j.Append([]byte("1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the writer is stuck in the sync
		var woken atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := j.Wait(p); err != nil {
					t.Error(err)
				}
				woken.Add(1)
			})
		}
		synctest.Wait()
		mustEqual(t, "woken too early", int64(0), woken.Load())
		close(gate)
		wg.Wait()
		closed(t, j)
	})
}

// Callers that do not wait block when too much is buffered, and continue when it is written.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		gate := make(chan struct{})
		d := newDisk()
		j, _ := open(t, journal.Options{}.On(d))
		closed(t, j)
		j, _ = open(t, journal.Options{}.On(&stuckFiles{FS: &voidFiles{d}, gate: gate}))
		var wg sync.WaitGroup
		var last journal.Position
		entry := make([]byte, size)
		const entries = 2*journal.MaxBuffered/size + 8
		wg.Go(func() {
			for range entries {
				p, err := j.Append(entry, nil)
				if err != nil {
					t.Error(err)
				}
				last = p
			}
		})
		synctest.Wait()
		if got := j.Appended(); got < 10 || int64(got) > 2*journal.MaxBuffered/size {
			t.Errorf("%d MiB were taken while the disk was stuck", got)
		}
		close(gate)
		wg.Wait()
		if err := j.Wait(last); err != nil || last != entries {
			t.Errorf("entry %d: %v", last, err)
		}
		closed(t, j)
	})
}

// stuckFiles makes the sync of files that it opens wait for the gate.
type stuckFiles struct {
	journal.FS
	gate chan struct{}
}

func (s *stuckFiles) Open(name string) (journal.File, error) {
	f, err := s.FS.Open(name)
	return &stuckFile{File: f, gate: s.gate}, err
}

type stuckFile struct {
	journal.File
	gate   chan struct{}
	synced bool // once, by Open
}

func (f *stuckFile) Sync() error {
	if f.synced {
		<-f.gate
	}
	f.synced = true
	return f.File.Sync()
}
