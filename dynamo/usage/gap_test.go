package usage_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// takes makes a bucket with one shard that takes one token n times.
func takes(n int) *bucket {
	b := newBucket(1)
	for range n {
		b.change(0, oneRPM)
	}
	return b
}

// The counters of an item that was deleted and created anew begin at 0. That is no gap,
// and a gap across it counts what the new item consumed.
func TestAnItemThatIsCreatedAnewBeginsAtZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lost string
		skip func(i int) bool
		want int64
	}{
		{"nothing", func(int) bool { return false }, 18},
		{"the end of the old item and the beginning of the new one", func(i int) bool { return i >= 8 && i < 12 }, 16},
		{"the creation", func(i int) bool { return i == 10 }, 18},
	} {
		s, b, k := fixture.OpenStore(t, fixture.NewTable(t)), takes(10), hourly("user")
		b.remove(0)
		for range 8 {
			b.change(0, oneRPM)
		}
		for i := range b.steps {
			if !c.skip(i) {
				add(t, s, k, b.steps[i])
			}
		}
		if _, got := used(t, s, k); got["rpm"] != 1000*c.want {
			t.Errorf("lost was %s: %d are counted, want %d", c.lost, got["rpm"], 1000*c.want)
		}
	}
}

// A deleted item may come back within a gap, with more writes than it had, or fewer, and with
// counters above those of the old one, or below. Its creation time says that its counters
// began at 0, whether the gap is above what is counted or below. The item of a peer has
// none. Then fewer writes say so.
func TestAnItemThatIsCreatedAnewWithinAGap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		old, anew int // changes
		tokens    int64
		isPeers   bool
		want      int64
	}{
		{old: 12, anew: 20, tokens: 1, want: 12 + 20},
		{old: 12, anew: 20, tokens: 900, want: 12 + 20*900},
		{old: 12, anew: 5, tokens: 1, want: 12 + 5},
		{old: 12, anew: 13, tokens: 1, want: 12 + 13}, // the counters seem to go on
		{old: 12, anew: 5, tokens: 1, isPeers: true, want: 12 + 5},
		{old: 12, anew: 20, tokens: 1, isPeers: true, want: 20}, // too low: the difference
	} {
		s, b := fixture.OpenStore(t, fixture.NewTable(t)), takes(c.old)
		b.remove(0)
		for range c.anew {
			b.change(0, store.Amount{Limit: "rpm", Milli: 1000 * c.tokens})
		}
		if c.isPeers {
			for i := range b.steps {
				b.steps[i].Before, b.steps[i].After = withoutCreation(b.steps[i].Before), withoutCreation(b.steps[i].After)
			}
		}
		upwards, downwards, together := hourly("upwards"), hourly("downwards"), hourly("together")
		add(t, s, upwards, b.steps[:c.old]...)
		add(t, s, upwards, b.steps[len(b.steps)-1:]...)
		add(t, s, downwards, b.steps[len(b.steps)-1:]...)
		add(t, s, downwards, b.steps[:c.old]...)
		add(t, s, together, append(slices.Clone(b.steps[:c.old]), b.steps[len(b.steps)-1])...)
		for _, k := range []usage.Key{upwards, downwards, together} {
			add(t, s, k, b.steps...)
			if _, got := used(t, s, k); got["rpm"] != 1000*c.want {
				t.Errorf("%+v, %s: %d millitokens, want %d", c, k.Entity, got["rpm"], 1000*c.want)
			}
		}
	}
}

// A version that does not know creation times counted the item's changes before, or counts
// them now. The counters go on.
func TestACreationTimeThatOnlyOneVersionKnows(t *testing.T) {
	t.Parallel()
	for name, isOld := range map[string]func(i int) bool{
		"the one before": func(i int) bool { return i < 10 },
		"the one after":  func(i int) bool { return i >= 10 },
	} {
		s, b, k := fixture.OpenStore(t, fixture.NewTable(t)), takes(20), hourly("user")
		for i := range b.steps {
			if isOld(i) {
				b.steps[i].Before, b.steps[i].After = withoutCreation(b.steps[i].Before), withoutCreation(b.steps[i].After)
			}
		}
		for _, i := range []int{0, 5, 15, 19} {
			add(t, s, k, b.steps[i])
		}
		if _, got := used(t, s, k); got["rpm"] != 20_000 {
			t.Errorf("%s: %d millitokens, want 20000", name, got["rpm"])
		}
	}
}

// withoutCreation is an image as the peer's items and earlier versions have it.
func withoutCreation(img *store.Image) *store.Image {
	if img == nil {
		return nil
	}
	i := *img
	i.CreatedAt = 0
	return &i
}

// Counters that begin at 0 again were not given back: a doubling creates an item without
// consumption, and counts many writes; a limit is removed and comes back.
func TestCountersThatRestartGiveNothingBack(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]func(*bucket){
		"a doubling": func(b *bucket) {
			b.remove(0)
			b.change(0)
			b.items[0].Writes.Consumed = 1_000_000
			b.items[0].Limits = []store.LimitState{{Name: "rpm"}}
		},
		"a removed limit": func(b *bucket) {
			b.forget(0)
			b.items[0].Limits = []store.LimitState{{Name: "rpm"}}
		},
	} {
		for _, size := range []int{1, 3, 100} {
			s, b, k := fixture.OpenStore(t, fixture.NewTable(t)), takes(4), hourly("user")
			restart(b)
			b.change(0, oneRPM)
			b.change(0, oneRPM)
			for steps := range slices.Chunk(b.steps, size) {
				add(t, s, k, steps...)
			}
			if _, got := used(t, s, k); got["rpm"] != 6000 {
				t.Errorf("%s, by %d: %d millitokens are counted, want 6000", name, size, got["rpm"])
			}
		}
	}
}

// Two aggregators have batches that overlap, each with other gaps.
func TestGapsOfTwoAggregators(t *testing.T) {
	t.Parallel()
	s, b, k := fixture.OpenStore(t, fixture.NewTable(t)), newBucket(3), hourly("raced")
	for i := range 120 {
		b.change(i%3, oneRPM)
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i, steps := range slices.Collect(slices.Chunk(b.steps, 5+w)) {
				if i%4 == w {
					continue // lost
				}
				if err := s.Usage().Add(t.Context(), &usage.Delta{Key: k, Steps: steps}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	add(t, s, k, b.steps...)
	wantUsed(t, s, k, 120, map[string]int64{"rpm": 120_000})
}

// A snapshot of the version before knows its last change, and no counters.
func TestASnapshotWithoutCountersGoesOn(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s, b, k := fixture.OpenStore(t, db), takes(20), hourly("user")
	add(t, s, k, b.steps[4:10]...)
	_, ns := s.Namespace()
	it := fixture.Get(t, db, schema.UsageKey(ns, "user", "gpt-4", "hourly", noon))
	delete(it, schema.UsageCountersAttr(0))
	delete(it, schema.UsageLowAttr(0))
	padded, _ := schema.PadSequence(b.steps[9].Sequence)
	it[schema.UsageSequenceAttr(0)] = schema.S(padded)
	fixture.Put(t, db, it)
	add(t, s, k, b.steps[:8]...) // as far as that version knows, these are counted
	add(t, s, k, b.steps[9:12]...)
	wantUsed(t, s, k, 8, map[string]int64{"rpm": 8_000})
	add(t, s, k, b.steps[:12]...)
	add(t, s, k, b.steps[12])
	add(t, s, k, b.steps[:12]...)
	add(t, s, k, b.steps[15])
	wantUsed(t, s, k, 12, map[string]int64{"rpm": 12_000})
}

// The parts of a delta follow each other: only the first is refused because of a gap.
func TestPartsThatFollowAGap(t *testing.T) {
	t.Parallel()
	f := faults.NewTap(fixture.NewTable(t))
	s, b, k := fixture.OpenStore(t, f), newBucket(1), hourly("user")
	want := map[string]int64{}
	for i := range 4 {
		var amounts []store.Amount
		for j := range 70 {
			name := fmt.Sprintf("l%d.%d", i, j)
			amounts = append(amounts, store.Amount{Limit: name, Milli: 1000})
			want[name] = 1000
		}
		b.change(0, amounts...)
	}
	add(t, s, k, b.steps[0])
	f.Take()
	add(t, s, k, b.steps...)
	if n := len(f.Ops()); n != 4 {
		t.Errorf("%d requests, want one that is refused and three", n)
	}
	wantUsed(t, s, k, 4, want)
}

// Changes below what is counted are written in parts, too, with gaps between them and
// beside changes above. Each part must leave the others to be counted.
func TestPartsBelowWhatIsCounted(t *testing.T) {
	t.Parallel()
	s, b := fixture.OpenStore(t, fixture.NewTable(t)), newBucket(2)
	want := map[string]int64{}
	for i := range 24 {
		var amounts []store.Amount
		for j := range 15 {
			name := fmt.Sprintf("l%d.%d", i/2, j)
			amounts = append(amounts, store.Amount{Limit: name, Milli: 1000})
			want[name] += 1000
		}
		b.change(i%2, amounts...)
	}
	for lost := range 21 {
		k := hourly("lost-" + strconv.Itoa(lost))
		add(t, s, k, b.steps[16:18]...)
		add(t, s, k, slices.Delete(slices.Clone(b.steps), lost, lost+3)...)
		add(t, s, k, b.steps...)
		if _, got := used(t, s, k); !maps.Equal(got, want) {
			t.Errorf("changes %d to %d were lost: (-want +got)\n%s", lost, lost+2, cmp.Diff(want, got))
		}
	}
}

// A snapshot with damaged marks is not added to.
func TestUsageWithDamagedMarks(t *testing.T) {
	t.Parallel()
	padded, _ := schema.PadSequence("1")
	for i, damage := range []schema.Item{
		{schema.UsageSequenceAttr(0): schema.N(1)},
		{schema.UsageSequenceAttr(0): schema.S("yesterday")},
		{schema.UsageSequenceAttr(0): schema.S("1")},
		{schema.UsageSequenceAttr(0): schema.S(padded + " many")},
		{schema.UsageCountersAttr(0): schema.N(1)},
		{schema.UsageCountersAttr(0): schema.S("rpm=1.5")},
		{schema.UsageCountersAttr(0): schema.S("@,rpm=1")},
		{schema.UsageCountersAttr(0): schema.S("@-,rpm=1")},
		{schema.UsageCountersAttr(0): schema.S("r m=1")},
		{schema.UsageLowAttr(0): schema.N(1)},
		{schema.UsageLowAttr(0): schema.S("x 2 ")},
		{schema.UsageLowAttr(0): schema.S(padded + " 2")},
		{schema.UsageLowAttr(0): schema.S(padded + " x rpm=1")},
	} {
		db := fixture.NewTable(t)
		s, b := fixture.OpenStore(t, db), takes(3)
		add(t, s, hourly("user"), b.steps[0])
		_, ns := s.Namespace()
		it := fixture.Get(t, db, schema.UsageKey(ns, "user", "gpt-4", "hourly", noon))
		maps.Copy(it, damage)
		fixture.Put(t, db, it)
		err := s.Usage().Add(t.Context(), &usage.Delta{Key: hourly("user"), Steps: b.steps[2:]})
		if fixture.WantErr(t, err, store.ErrCorrupt); err == nil {
			t.Errorf("damage %d was not seen: %v", i, fmt.Sprint(damage))
		}
	}
}
