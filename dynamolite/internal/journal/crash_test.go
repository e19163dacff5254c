package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// owner appends to a journal and knows which entries must be in it after a crash. Its state is
// all entries in order, and its checkpoints hold this state.
type owner struct {
	disk  *disk
	j     *journal.Journal
	all   []string // found at Open, then appended
	acked int      // of these, how many are on disk
	next  int      // makes entries distinct
}

// open opens the journal and compares its entries with the known ones.
func (o *owner) open() error {
	var found []string
	var at journal.Position
	j, err := journal.Open("dir", small(o.disk), func(e journal.Entry) error {
		switch {
		case e.Checkpoint:
			at = e.Position
		case int(e.Position) != len(found)+1:
			return fmt.Errorf("entry %d follows %d others", e.Position, len(found))
		case len(found) < int(at):
			return fmt.Errorf("the checkpoint at %d has %d entries", at, len(found))
		}
		found = append(found, string(e.Data))
		return nil
	})
	if err != nil {
		return err
	}
	o.j = j
	if !isPrefix(found, o.all) || len(found) < o.acked || int(j.Durable()) != len(found) {
		return fmt.Errorf("found %d entries of %d, %d were confirmed, %d are durable: %.2000q, not %.2000q",
			len(found), len(o.all), o.acked, j.Durable(), found, o.all)
	}
	o.all, o.acked = found, len(found)
	return nil
}

func (o *owner) append(size int) error {
	o.next++
	entry := fmt.Sprintf("%d %s", o.next, strings.Repeat("z\x00", size/2))
	p, err := o.j.Append([]byte(entry), nil)
	if err != nil {
		return err
	}
	o.all = append(o.all, entry)
	if int(p) != len(o.all) {
		return fmt.Errorf("entry %d got position %d", len(o.all), p)
	}
	return nil
}

func (o *owner) wait() error {
	if err := o.j.Wait(journal.Position(len(o.all))); err != nil {
		return err
	}
	o.acked = len(o.all)
	return nil
}

// image puts all entries up to the checkpoint's position.
func (o *owner) image(c *journal.Checkpoint) error {
	for _, e := range o.all[:c.Position()] {
		if err := c.Put([]byte(e)); err != nil {
			return err
		}
	}
	return nil
}

func (o *owner) close() error {
	if err := o.j.Close(); err != nil {
		return err
	}
	o.acked = len(o.all)
	return nil
}

// crash cuts the power. The owner continues with the data that the disk kept. The old journal is
// closed on the old disk, to end its goroutine.
func (o *owner) crash(rng *rand.Rand, keep float64) {
	after := o.disk.crash(rng, keep)
	if o.j != nil {
		o.j.Close()
	}
	o.disk, o.j = after, nil
}

// kill ends the process; another one continues in its place.
func (o *owner) kill() {
	after := o.disk.kill()
	if o.j != nil {
		o.j.Close()
	}
	o.disk, o.j = after, nil
}

// life does a little of everything: groups of entries over several segments, a checkpoint with
// entries during it, an aborted checkpoint, a restart.
func (o *owner) life() error {
	var c *journal.Checkpoint
	begin := func() (err error) {
		c, err = o.j.BeginCheckpoint()
		return err
	}
	appends := func(sizes ...int) func() error {
		return func() error {
			for _, size := range sizes {
				if err := o.append(size); err != nil {
					return err
				}
			}
			return nil
		}
	}
	steps := []func() error{
		o.open, appends(10, 0), o.wait, appends(700), o.wait, appends(300, 20, 900), o.wait,
		begin, appends(50), o.wait, func() error { return o.image(c) }, appends(400, 10), func() error { return c.Commit() }, appends(200), o.wait,
		begin, func() error { return o.image(c) }, appends(30), func() error { c.Abort(); return nil }, o.wait,
		o.close, o.open, appends(600, 600), begin, appends(3), func() error { return o.image(c) }, func() error { return c.Commit() },
		appends(1), o.wait, o.close,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// The power fails at every operation of the disk in turn. Whatever part of the unsynced data
// survives, every confirmed entry is there, in order and whole.
func TestLongPowerCutAtEveryStep(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		before := newDisk()
		before.failAfter(n, errPower)
		o := owner{disk: before}
		err := o.life()
		if err != nil && !errors.Is(err, errPower) {
			t.Fatalf("after %d operations: %v", n, err)
		}
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(uint64(n), seed))
			survivor := owner{disk: before, all: slices.Clone(o.all), acked: o.acked, next: 1000}
			if seed%2 == 0 { // first only the process dies; the next one recovers, until the power fails during its work
				survivor.kill()
				survivor.disk.failAfter(rng.IntN(12), errPower)
				for _, step := range []func() error{survivor.open, func() error { return survivor.append(100) }, survivor.wait} {
					if err := step(); err != nil && !errors.Is(err, errPower) {
						t.Fatalf("after %d operations and a kill, seed %d: %v", n, seed, err)
					} else if err != nil {
						break
					}
				}
			}
			survivor.crash(rng, []float64{0, 1, 0.1, 0.5, 0.9}[seed%5])
			if err := survivor.life(); err != nil {
				t.Fatalf("after %d operations, seed %d: %v", n, seed, err)
			}
		}
		if o.j != nil {
			o.j.Close()
		}
		if err == nil {
			if n < 60 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// After any operations, with power failures at any time, even repeated, no confirmed entry is
// lost and none is invented.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := owner{disk: newDisk()}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(o.open())
		defer func() {
			if o.j != nil {
				o.j.Close()
			}
		}()
		var c *journal.Checkpoint
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "entries") {
					must(o.append(rapid.IntRange(0, 1200).Draw(t, "size")))
				}
			},
			"wait": func(*rapid.T) { must(o.wait()) },
			"begin": func(*rapid.T) {
				if c != nil {
					return
				}
				var err error
				c, err = o.j.BeginCheckpoint()
				must(err)
			},
			"commit": func(*rapid.T) {
				if c == nil {
					return
				}
				must(o.image(c))
				must(c.Commit())
				o.acked = max(o.acked, int(c.Position()))
				c = nil
			},
			"abort": func(*rapid.T) {
				if c == nil {
					return
				}
				must(o.image(c))
				c.Abort()
				c = nil
			},
			"restart": func(*rapid.T) {
				must(o.close())
				c = nil
				must(o.open())
			},
			"kill": func(*rapid.T) {
				o.kill()
				c = nil
				must(o.open())
			},
			"crash": func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				o.crash(rng, rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9, 1}).Draw(t, "keep"))
				c = nil
				must(o.open())
			},
			"crash in the middle": func(t *rapid.T) {
				// From here on, checkpoints and waits may fail when the disk does.
				o.disk.failAfter(rapid.IntRange(0, 30).Draw(t, "operations"), errPower)
				for range 3 {
					if o.append(rapid.IntRange(0, 1200).Draw(t, "size")) == nil {
						_ = o.wait()
					}
				}
				if c != nil && o.image(c) == nil && c.Commit() == nil {
					o.acked = max(o.acked, int(c.Position()))
				}
				if rapid.Bool().Draw(t, "only the process") {
					o.kill()
				} else {
					rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
					o.crash(rng, rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9, 1}).Draw(t, "keep"))
				}
				c = nil
				must(o.open())
			},
		})
	})
}

// After a failed write or sync the journal tries nothing more, and every caller gets the error.
// Entries that were on disk stay confirmed.
func TestFailureIsFinal(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind   string
		err    error
		remedy string
		roll   bool // the operation belongs to a new segment
	}{
		{"write", syscall.ENOSPC, "free space on the disk, then open the directory again", false},
		{"write", syscall.EIO, "check the disk", false},
		{"sync", syscall.EIO, "check the disk", false},
		{"create", syscall.ENOSPC, "free space on the disk", true},
		{"write", syscall.ENOSPC, "free space on the disk", true},
		{"sync", syscall.EIO, "check the disk", true},
		{"rename", syscall.EIO, "check the disk", true},
		{"syncdir", syscall.EIO, "check the disk", true},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s, %v, roll=%v", c.kind, c.err, c.roll), func(t *testing.T) {
			t.Parallel()
			o := owner{disk: newDisk()}
			steps(t, o.open, func() error { return o.append(10) }, o.wait)
			if c.roll {
				steps(t, func() error { return o.append(journal.SectorBytes) }, o.wait)
			}
			confirmed := o.j.Durable()
			failures := 0
			o.disk.mu.Lock()
			o.disk.before = func(op operation) (int, error) {
				if op.kind != c.kind {
					return 0, nil
				}
				failures++
				return op.size / 3, c.err
			}
			o.disk.mu.Unlock()
			steps(t, func() error { return o.append(20) })
			first := o.wait()
			failed, ok := errors.AsType[*journal.FailedError](first)
			if !ok || !errors.Is(first, journal.ErrFailed) || !errors.Is(first, c.err) || failed.Durable != confirmed {
				t.Fatalf("wait: %v", first)
			}
			if !strings.Contains(first.Error(), c.remedy) || !strings.Contains(first.Error(), "dir/") {
				t.Error(first)
			}
			operations := len(o.disk.operations())
			_, checkpointErr := o.j.BeginCheckpoint()
			for what, err := range map[string]error{"append": o.append(1), "wait": o.j.Wait(confirmed + 1), "checkpoint": checkpointErr, "close": o.j.Close()} {
				if !errors.Is(err, failed) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := o.j.Wait(confirmed); err != nil {
				t.Errorf("wait for what is on disk: %v", err)
			}
			if got := len(o.disk.operations()); got != operations || failures != 1 {
				t.Errorf("%d operations after the failure, %d failures", got-operations, failures)
			}
			o.disk.mu.Lock()
			o.disk.before = nil
			o.disk.mu.Unlock()
			steps(t, o.open, func() error { return o.append(1) }, o.wait, o.close, o.open, o.close)
		})
	}
}

func steps(tb testing.TB, all ...func() error) {
	tb.Helper()
	for i, step := range all {
		if err := step(); err != nil {
			tb.Fatalf("step %d: %v", i, err)
		}
	}
}

// A checkpoint fails if the log failed before its position was on disk, and the old files stay.
func TestCheckpointOfAFailedJournal(t *testing.T) {
	t.Parallel()
	o := owner{disk: newDisk()}
	steps(t, o.open, func() error { return o.append(10) }, o.wait)
	o.disk.mu.Lock()
	o.disk.before = func(op operation) (int, error) {
		if op.kind == "write" && strings.HasPrefix(op.name, journal.SegmentName(1)) {
			return 0, syscall.EIO
		}
		return op.size, nil
	}
	o.disk.mu.Unlock()
	steps(t, func() error { return o.append(10) })
	c, err := o.j.BeginCheckpoint()
	if err == nil {
		if err = o.image(c); err == nil {
			err = c.Commit()
		}
	}
	if !errors.Is(err, journal.ErrFailed) {
		t.Errorf("commit: %v", err)
	}
	if err := o.j.Close(); !errors.Is(err, journal.ErrFailed) {
		t.Errorf("close: %v", err)
	}
	mustEqual(t, "files", []string{journal.SegmentName(1), journal.NewestName}, sortedNames(o.disk))
	o.disk.mu.Lock()
	o.disk.before = nil
	o.disk.mu.Unlock()
	steps(t, o.open, o.close)
}
