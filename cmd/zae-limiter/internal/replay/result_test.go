package replay_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

const start = int64(1_793_524_500_000)

func TestAResultTellsWhoWasRefusedWhenAndHowLong(t *testing.T) {
	t.Parallel()
	var events []replay.Event
	add := func(seconds int64, entity string, tokens ...int64) {
		events = append(events, replay.Event{At: start + seconds*1000, Entity: entity, Resource: "r", Amounts: tokens})
	}
	// 10 tokens, and one more each minute.
	for range 12 {
		add(0, "greedy", 1)
	}
	add(30, "greedy", 1)
	add(90, "greedy", 11) // more than the capacity
	add(90, "calm", 5)
	add(80, "calm", 1) // late
	levels := replay.Levels{{}: {{Name: "rpm", Capacity: 10, Amount: 1, Period: time.Minute}}}
	got := run(t, events, levels, nil, "rpm").Result()
	if got.Events != 16 || got.Refused != 4 || got.RefusedShare != 0.25 || got.Late != 1 || got.Buckets != 2 ||
		got.From.UnixMilli() != start || got.To.UnixMilli() != start+90_000 {
		t.Errorf("totals %+v", got)
	}
	l := got.Limits[0]
	if l.Refused != 4 || l.Never != 1 || l.Asked != 30 || l.Taken != 16 || l.Events != 16 || l.Buckets != 2 {
		t.Errorf("limit %+v", l)
	}
	if l.Wait.Longest.Wait != time.Minute || l.Wait.Longest.Entity != "greedy" || l.Wait.P99MS != 60_000 || len(l.Wait.Bars) != 1 || l.Wait.Bars[0] != (replay.WaitBar{OverMS: 10_000, UpToMS: 60_000, Refused: 3}) {
		t.Errorf("waits %+v", l.Wait)
	}
	// 9, 8, … 0 tokens of 10 left by greedy, 5 and 4 by calm.
	want := replay.Headroom{Lowest: 0, P1: 0, P10: 0.1, P50: 0.4, Tenths: [10]int64{1, 1, 1, 1, 2, 2, 1, 1, 1, 1}}
	if diff := cmp.Diff(want, l.Headroom); diff != "" {
		t.Errorf("headroom (-want +got):\n%s", diff)
	}
	if len(got.Top) != 1 || got.Top[0].Entity != "greedy" || got.Top[0].Refused != 4 || got.Top[0].First.UnixMilli() != start {
		t.Errorf("top %+v", got.Top)
	}
}

func TestALateEventIsDecidedAtTheLastInstant(t *testing.T) {
	t.Parallel()
	levels := replay.Levels{{}: {{Name: "a", Capacity: 1, Amount: 1, Period: time.Second}}}
	events := []replay.Event{
		{At: start + 5000, Entity: "x", Resource: "r", Amounts: []int64{1}},
		{At: start, Entity: "x", Resource: "r", Amounts: []int64{1}},
		{At: start + 6000, Entity: "x", Resource: "r", Amounts: []int64{1}},
	}
	if got := run(t, events, levels, nil, "a").Result(); got.Refused != 1 || got.Late != 1 {
		t.Errorf("%d refused, %d late", got.Refused, got.Late)
	}
}

func TestEventsWithoutLimitsAreCountedAndAdmitted(t *testing.T) {
	t.Parallel()
	levels := replay.Levels{{Resource: "other"}: {{Name: "a", Capacity: 1, Amount: 1, Period: time.Second}}}
	events := []replay.Event{{At: start, Entity: "x", Resource: "r", Amounts: []int64{9}}}
	if got := run(t, events, levels, nil, "a").Result(); got.Unlimited != 1 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
}

func TestNewNamesALimitWithoutACost(t *testing.T) {
	t.Parallel()
	ok := []store.Limit{{Name: "a", Capacity: 1, Amount: 1, Period: time.Second}}
	for field, o := range map[string]replay.Options{
		"limits":            {},
		"cost":              {Levels: replay.Levels{{}: ok}},
		"costs":             {Levels: replay.Levels{{}: ok}, Costs: []string{"a", "a"}},
		"limit a: capacity": {Levels: replay.Levels{{}: {{Name: "a"}}}, Costs: []string{"a"}},
		"top":               {Levels: replay.Levels{{}: ok}, Costs: []string{"a"}, Top: -1},
	} {
		_, err := replay.New(o)
		if wrong, isWrong := errors.AsType[*store.ValidationError](err); !isWrong || wrong.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestAddRefusesAmountsThatNoRequestMayHave(t *testing.T) {
	t.Parallel()
	levels := replay.Levels{{}: {{Name: "a", Capacity: 1, Amount: 1, Period: time.Second}}}
	r := newReplayer(t, replay.Options{Levels: levels, Costs: []string{"a"}})
	for _, amounts := range [][]int64{{-1}, {store.MaxTokens + 1}, {}, {1, 1}} {
		if _, err := r.Add(&replay.Event{Entity: "x", Resource: "r", Amounts: amounts}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%v: error %v", amounts, err)
		}
	}
	if n := r.Result().Events; n != 0 {
		t.Errorf("%d events are counted", n)
	}
}

// A timeline has at most 120 slots, and its slots sum to all events.
func TestATimelineKeepsEveryEventHoweverLongTheLog(t *testing.T) {
	t.Parallel()
	levels := replay.Levels{{}: {{Name: "a", Capacity: 1, Amount: 1, Period: time.Second}}}
	r := newReplayer(t, replay.Options{Levels: levels, Costs: []string{"a"}})
	at := start
	const events = 5000
	for i := range int64(events) {
		at += i * 37 // ever sparser
		if _, err := r.Add(&replay.Event{At: at, Entity: "x", Resource: "r", Amounts: []int64{2}}); err != nil {
			t.Fatal(err)
		}
	}
	got := r.Result()
	for _, slots := range [][]replay.Slot{got.Timeline, got.Limits[0].Timeline, got.Top[0].Timeline} {
		sum, refused := int64(0), int64(0)
		for _, s := range slots {
			sum, refused = sum+s.Events, refused+s.Refused
		}
		if sum != events || refused != events || len(slots) > 120 {
			t.Errorf("%d slots with %d events, %d refused", len(slots), sum, refused)
		}
	}
}

// Ten times the events of the same buckets take no more memory.
func TestMemoryGrowsWithBucketsAndNotWithEvents(t *testing.T) {
	levels := replay.Levels{{}: {{Name: "a", Capacity: 5, Amount: 1, Period: time.Second}}}
	r := newReplayer(t, replay.Options{Levels: levels, Costs: []string{"a"}})
	entities := make([]string, 1000)
	for i := range entities {
		entities[i] = string(rune('a'+i%26)) + time.Duration(i).String()
	}
	at := start
	feed := func(events int) {
		e := replay.Event{Resource: "r", Amounts: []int64{1}}
		for i := range events {
			at++
			e.At, e.Entity = at, entities[i%len(entities)]
			if _, err := r.Add(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	feed(100_000)
	first := heap() - before
	feed(1_000_000)
	if more := heap() - before - first; more > first/2 {
		t.Errorf("100,000 events of 1,000 buckets take %d bytes, ten times as many events take %d more", first, more)
	}
	runtime.KeepAlive(r)
}
