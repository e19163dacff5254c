package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// However a journal came to its files, the loss of its newest segment is reported if it has
// entries: after a first start, after rolls, after checkpoints, and after a crash at any operation
// and more entries. The same files with the segment are never damaged.
func TestTheNewestSegmentIsMissed(t *testing.T) {
	t.Parallel()
	history := func(d *disk) error {
		j, err := journal.Open("dir", small(d), func(journal.Entry) error { return nil })
		if err != nil {
			return err
		}
		for i := range 6 {
			_, err := j.Append(make([]byte, 300), nil)
			if err == nil {
				err = j.Wait(j.Appended())
			}
			if i == 3 && err == nil {
				err = image(j, "a")
			}
			if err != nil {
				_ = j.Close()
				return err
			}
		}
		return j.Close()
	}
	whole := newDisk()
	if err := history(whole); err != nil {
		t.Fatal(err)
	}
	operations := len(whole.operations())
	for after := range operations + 1 {
		for seed := range uint64(4) {
			name := fmt.Sprintf("after %d operations, seed %d", after, seed)
			d := newDisk()
			d.failAfter(after, errPower)
			if err := history(d); after < operations && !errors.Is(err, errPower) {
				t.Fatalf("%s: %v", name, err)
			}
			d = d.crash(rand.New(rand.NewPCG(seed, 1)), float64(seed)/3)
			j, err := journal.Open("dir", small(d), func(journal.Entry) error { return nil })
			if err != nil {
				t.Fatalf("%s: the crash was taken for damage: %v", name, err)
			}
			add(t, j, "after the crash")
			closed(t, j)
			d = d.clone()
			names := sortedNames(d)
			segments := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return len(n) != len(journal.SegmentName(1)) })
			if !slices.Contains(names, journal.NewestName) {
				t.Fatalf("%s: the files are %q", name, names)
			}
			newest := segments[len(segments)-1]
			d.remove(newest)
			if _, damage := mustBeDamaged(t, name+", without "+newest, d); damage.File != "dir/"+newest {
				t.Fatalf("%s: without %s: %v", name, newest, damage)
			}
		}
	}
}

// A journal of an earlier version has no file newest. It is opened, and gets one.
func TestJournalWithoutNewest(t *testing.T) {
	t.Parallel()
	d, want := sample(t)
	d.remove(journal.NewestName)
	mustEqual(t, "replay", want, replay(t, d))
	d.remove(journal.SegmentName(5))
	mustBeDamaged(t, "without the newest segment", d)
}
