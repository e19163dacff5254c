package replay_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
)

// list is a source of given events.
type list []replay.Event

func (l *list) Next(e *replay.Event) error {
	if len(*l) == 0 {
		return io.EOF
	}
	*e, *l = (*l)[0], (*l)[1:]
	return nil
}

// all reads a source to its end.
func all(t fataler, source replay.Source) (events []replay.Event) {
	var e replay.Event
	for {
		err := source.Next(&e)
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
		events[len(events)-1].Amounts = slices.Clone(e.Amounts)
	}
}

type fataler interface{ Fatal(args ...any) }

// numbered makes an event for each instant, with its number as its amount.
func numbered(instants []int64) list {
	events := make(list, len(instants))
	for i, at := range instants {
		events[i] = replay.Event{At: at, Amounts: []int64{int64(i)}}
	}
	return events
}

func byInstant(a, b replay.Event) int { return int(a.At - b.At) }

func TestOrderSortsWithinItsWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const window = 50
		delays := rapid.SliceOf(rapid.Int64Range(0, window)).Draw(t, "delays")
		instants := make([]int64, len(delays))
		for i, delay := range delays {
			instants[i] = int64(10*i) - delay // never more than the window behind the newest
		}
		events := numbered(instants)
		want := slices.Clone(events)
		slices.SortStableFunc(want, byInstant)
		got := all(t, replay.Order(&events, window*time.Millisecond, 1000))
		if !slices.EqualFunc(want, got, same) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func same(a, b replay.Event) bool { return a.At == b.At && slices.Equal(a.Amounts, b.Amounts) }

func TestOrderLosesNoEventWhateverItsPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := numbered(rapid.SliceOf(rapid.Int64Range(0, 1000)).Draw(t, "instants"))
		want := slices.Clone(events)
		most := rapid.IntRange(1, 100).Draw(t, "most")
		got := all(t, replay.Order(&events, 100*time.Millisecond, most))
		byNumber := func(a, b replay.Event) int { return int(a.Amounts[0] - b.Amounts[0]) }
		slices.SortFunc(got, byNumber)
		if !slices.EqualFunc(want, got, same) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// endless is a source without end, in order; it counts what was read of it.
type endless struct{ read int64 }

func (s *endless) Next(e *replay.Event) error {
	s.read++
	e.At = s.read
	return nil
}

func TestOrderHoldsBackNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	var source endless
	const most = 100
	o := replay.Order(&source, time.Hour, most)
	for i := range int64(1000) {
		var e replay.Event
		if err := o.Next(&e); err != nil || e.At != i+1 {
			t.Fatalf("event %d: %+v, %v", i, e, err)
		}
		if held := source.read - e.At; held >= most {
			t.Fatalf("%d events are held after event %d", held, i)
		}
	}
}

func TestMergeOrdersSeveralLogs(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	var sources []replay.Source
	var want []replay.Event
	for i := range 4 {
		var events list
		at := int64(0)
		for range dice.IntN(50) {
			at += dice.Int64N(5)
			events = append(events, replay.Event{At: at, Amounts: []int64{int64(i)}})
		}
		want = append(want, events...)
		sources = append(sources, &events)
	}
	slices.SortStableFunc(want, byInstant)
	if got := all(t, replay.Merge(sources...)); !slices.EqualFunc(want, got, same) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// zigzag is a source without an end whose every second event comes late.
type zigzag struct{ next int64 }

func (z *zigzag) Next(e *replay.Event) error {
	z.next++
	e.At, e.Amounts = z.next^1, append(e.Amounts[:0], z.next)
	return nil
}

func TestOrderingLateEventsMakesNoGarbage(t *testing.T) {
	source := replay.Order(&zigzag{}, 100*time.Millisecond, 1000)
	var e replay.Event
	next := func() {
		for range 2 {
			if err := source.Next(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 1000 { // its memory grows to what the window needs
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n > 0 {
		t.Errorf("%v allocations for an event in order and a late one", n)
	}
}
