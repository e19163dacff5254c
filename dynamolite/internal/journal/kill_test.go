package journal_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

var kills = flag.Int("journal.kills", 25, "how many times the kill test kills")

// childDir makes the test binary act as the victim: it is the variable with the directory of the
// journal.
const childDir = "JOURNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		err := victim(dir)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const victims = 8 // goroutines that append

// tally is the state that the victim logs: the last number of each goroutine. Each counts 1, 2, 3 … over all its lives.
type tally [victims]int

// load applies an entry, "goroutine number", of a checkpoint or of the log.
func (s *tally) load(e journal.Entry) error {
	var g, n int
	if _, err := fmt.Sscanf(string(e.Data), "%d %d", &g, &n); err != nil {
		return err
	}
	if !e.Checkpoint && n != s[g]+1 {
		return fmt.Errorf("entry %d: %d of goroutine %d comes after %d", e.Position, n, g, s[g])
	}
	s[g] = n
	return nil
}

// victim appends until it is killed, prints each entry when it is on disk, and writes one checkpoint after the other.
func victim(dir string) error {
	var mu sync.Mutex // stands for the locks of an engine's shards
	var state tally
	j, err := journal.Open(dir, journal.Options{SegmentBytes: 16 << 10}, state.load)
	if err != nil {
		return err
	}
	fmt.Println("open")
	failed := make(chan error)
	for g := range victims {
		go func() {
			for {
				mu.Lock()
				entry := fmt.Sprintf("%d %d", g, state[g]+1)
				p, err := j.Append([]byte(entry+strings.Repeat(" ", 50*g)), func(journal.Position) { state[g]++ })
				mu.Unlock()
				if err == nil {
					err = j.Wait(p)
				}
				if err != nil {
					failed <- err
				}
				os.Stdout.WriteString(entry + "\n")
			}
		}()
	}
	go func() {
		for {
			mu.Lock()
			c, err := j.BeginCheckpoint()
			image := state
			mu.Unlock()
			for g := 0; err == nil && g < victims; g++ {
				err = c.Put(fmt.Appendf(nil, "%d %d", g, image[g]))
			}
			if err == nil {
				err = c.Commit()
			}
			if err != nil {
				failed <- err
			}
		}
	}()
	return <-failed
}

// start runs the victim, which ends when it is killed, at the latest with the test.
func start(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// A process is killed again and again, at any point. All entries that it reported to be on disk
// are there, in order, and none twice.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var confirmed tally
	checkpoints, unfinished := 0, 0
	for round := range *kills {
		cmd, lines := start(t, dir)
		for n := rng.IntN(400); n >= 0 && lines.Scan(); n-- {
			confirm(t, &confirmed, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // lines from before its death
			confirm(t, &confirmed, lines.Text())
		}
		if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || exit.Exited() {
			t.Fatalf("round %d: the process was not killed: %v", round, exit)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
		if err != nil {
			t.Fatal(err)
		}
		unfinished += min(len(left), 1)
		var found tally
		imaged := false
		j, err := journal.Open(dir, journal.Options{}, func(e journal.Entry) error {
			imaged = imaged || e.Checkpoint
			return found.load(e)
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		closed(t, j)
		if imaged {
			checkpoints++
		}
		for g := range found {
			if found[g] < confirmed[g] {
				t.Errorf("round %d: %d was confirmed to goroutine %d, the journal ends with %d", round, confirmed[g], g, found[g])
			}
		}
		confirmed = found
	}
	if checkpoints < *kills/2 {
		t.Errorf("only %d of %d rounds ended with a checkpoint", checkpoints, *kills)
	}
	t.Logf("%d kills, %d with a checkpoint, %d in the middle of a file, entries %v", *kills, checkpoints, unfinished, confirmed)
}

// confirm applies a line of the victim. One goroutine's lines are in order.
func confirm(tb testing.TB, s *tally, line string) {
	tb.Helper()
	var g, n int
	if line == "open" {
		return
	}
	if _, err := fmt.Sscanf(line, "%d %d", &g, &n); err != nil {
		tb.Fatalf("the victim said %q", line)
	}
	s[g] = n
}

// An open journal cannot be opened again, in the same process or another one. It is free when its
// process is dead.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, lines := start(t, dir)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the other process said %q", lines.Text())
	}
	mustBeLocked(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	_ = cmd.Wait() // reports that it was killed
	j, err := journal.Open(dir, journal.Options{}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	mustBeLocked(t, dir)
	closed(t, j)
	j, err = journal.Open(dir, journal.Options{}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, j)
}

func mustBeLocked(tb testing.TB, dir string) {
	tb.Helper()
	_, err := journal.Open(dir, journal.Options{}, ignore)
	if !errors.Is(err, journal.ErrLocked) || !strings.Contains(err.Error(), dir) {
		tb.Errorf("open a second time: %v", err)
	}
}

var _ io.Closer = (*journal.Journal)(nil)
