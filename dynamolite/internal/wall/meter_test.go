package wall_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// aws is the throughput of a partition on AWS, in half units.
var aws = wall.Throughput{Read: 6000, Write: 2000}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func named(key string) wall.Partition { return wall.PartitionOf(key) }

// numbered returns a partition for tests that need many, spread evenly over the locks.
func numbered(n int) wall.Partition { return wall.Partition(1 + n) }

// drive sends writes of one cost at an even rate per second. It counts the admitted ones by
// second.
func drive(m *wall.Meter, from, until time.Duration, perSecond int, cost int64, p wall.Partition) (admitted []int, refusals map[wall.Level]int) {
	admitted, refusals = make([]int, (until-from)/time.Second), map[wall.Level]int{}
	for i := range perSecond * int((until-from)/time.Second) {
		now := after(from + time.Duration(i)*time.Second/time.Duration(perSecond))
		if why := m.Check(now, wall.Write, p); why != wall.Admitted {
			refusals[why]++
			continue
		}
		m.Charge(now, wall.Write, p, cost)
		admitted[i/perSecond]++
	}
	return admitted, refusals
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

func TestHotKeyIsRefused(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{})
	admitted, refused := drive(m, 0, time.Minute, 1500, 2, named("hot"))
	// 1,000 from the depth at the start, and 1,000 a second.
	if total := sum(admitted); total < 61_000-1 || total > 61_000+1 {
		t.Errorf("%d writes admitted in a minute at 1,500 per second, want 61,000", total)
	}
	for s, n := range admitted[2:] {
		if n < 999 || n > 1001 {
			t.Errorf("%d admitted in second %d, want 1,000", n, s+2)
		}
	}
	if len(refused) != 1 || refused[wall.KeyRange] == 0 {
		t.Errorf("refused by %v, want the key range alone", refused)
	}
}

// An idle key has no credit beyond one second's worth.
func TestPartitionHasNoBurst(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{})
	m.Charge(start, wall.Write, named("hot"), 2)
	admitted, _ := drive(m, time.Hour, time.Hour+10*time.Second, 1500, 2, named("hot"))
	if total := sum(admitted); total > 11_001 {
		t.Errorf("%d writes admitted in 10 s after an hour of rest, want 11,000", total)
	}
}

func TestKeysDoNotShare(t *testing.T) {
	t.Parallel()
	const perSecond, seconds = 700, 60
	m := wall.New(start, aws, wall.Capacity{})
	for i := range perSecond * seconds {
		now := after(time.Duration(i) * time.Second / perSecond)
		for _, key := range []string{"a", "b"} { // together they get more than one key may use
			if why := m.Check(now, wall.Write, named(key)); why != wall.Admitted {
				t.Fatalf("key %s at write %d: %v", key, i, why)
			}
			m.Charge(now, wall.Write, named(key), 2)
		}
	}
}

func TestReadsAndWritesAreApart(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{})
	m.Charge(start, wall.Write, named("k"), 2000)
	if why := m.Check(start, wall.Write, named("k")); why != wall.KeyRange {
		t.Errorf("a write at an empty partition: %v, want KeyRange", why)
	}
	if why := m.Check(start, wall.Read, named("k")); why != wall.Admitted {
		t.Errorf("a read where writes are used up: %v", why)
	}
	m.Charge(start, wall.Read, named("k"), 6000-1)
	if why := m.Check(start, wall.Read, named("k")); why != wall.Admitted {
		t.Errorf("a read with a half unit left: %v", why)
	}
	m.Charge(start, wall.Read, named("k"), 1)
	if why := m.Check(start, wall.Read, named("k")); why != wall.KeyRange {
		t.Errorf("a read at an empty partition: %v, want KeyRange", why)
	}
}

func TestNothingIsLimited(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*wall.Meter{"no meter": nil, "no limits": wall.New(start, wall.Throughput{}, wall.Capacity{})} {
		for _, op := range []wall.Op{wall.Read, wall.Write} {
			for range 10 {
				m.Charge(start, op, named("k"), 1<<30)
				if why := m.Check(start, op, named("k")); why != wall.Admitted {
					t.Errorf("%s: %v", name, why)
				}
			}
		}
		m.Configure(start, wall.Capacity{})
	}
}

// A Scan belongs to no partition: it checks and charges none, only the whole.
func TestNoPartition(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{Provisioned: wall.Throughput{Read: 100_000}})
	m.Charge(start, wall.Read, wall.NoPartition, 100_000-1)
	if n := m.Partitions(wall.Read); n != 0 {
		t.Errorf("%d partitions remembered, want none", n)
	}
	if why := m.Check(start, wall.Read, wall.NoPartition); why != wall.Admitted {
		t.Errorf("with a half unit left: %v", why)
	}
	m.Charge(start, wall.Read, wall.NoPartition, 1)
	if why := m.Check(start, wall.Read, wall.NoPartition); why != wall.Provisioned {
		t.Errorf("with nothing left: %v, want Provisioned", why)
	}
}

func TestPartitionOf(t *testing.T) {
	t.Parallel()
	if a, b := wall.PartitionOf([]byte("key")), wall.PartitionOf("key"); a != b || a == wall.NoPartition {
		t.Errorf("one key is %d and %d", a, b)
	}
	if wall.PartitionOf("key") == wall.PartitionOf("kez") {
		t.Error("two keys are one partition")
	}
}

// One request may cost more than a bucket holds. The debt is paid back before the next request is
// admitted.
func TestMoreThanABucketHolds(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{})
	m.Charge(start, wall.Write, named("k"), 6000)
	// The bucket had 2,000 half units, and gets 2,000 a second.
	for _, at := range []struct {
		after time.Duration
		want  wall.Level
	}{{2 * time.Second, wall.KeyRange}, {2*time.Second + 1, wall.Admitted}} {
		if why := m.Check(after(at.after), wall.Write, named("k")); why != at.want {
			t.Errorf("after %v: %v, want %v", at.after, why, at.want)
		}
	}
}

// Over any interval a partition admits no more than its depth, its rate times the interval, and
// the one request that crosses the limit. Instants come out of order. The keys share a lock, so
// that they make the meter forget each other.
func TestAdmittedIsBounded(t *testing.T) {
	t.Parallel()
	type admission struct {
		p        wall.Partition
		at, cost int64
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 5000).Draw(t, "rate")
		m := wall.New(start, wall.Throughput{Write: rate}, wall.Capacity{})
		var got []admission
		now, latest := int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			now += rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "pause")
			cost := rapid.Int64Range(1, 2*rate).Draw(t, "cost")
			p := wall.Partition(1 + 64*rapid.Uint64Range(0, 2).Draw(t, "key"))
			at := now - rapid.SampledFrom([]int64{0, 0, 1, now / 2, now}).Draw(t, "late")
			latest = max(latest, at) // an earlier instant counts as this one
			if m.Check(after(time.Duration(at)), wall.Write, p) == wall.Admitted {
				m.Charge(after(time.Duration(at)), wall.Write, p, cost)
				got = append(got, admission{p, latest, cost})
			}
		}
		for i := range got {
			taken, largest := int64(0), int64(0)
			for _, a := range got[i:] {
				if a.p != got[i].p {
					continue
				}
				taken += a.cost
				largest = max(largest, a.cost)
				// In half units times nanoseconds per second, so that nothing is rounded.
				if limit := (rate+largest)*int64(time.Second) + rate*(a.at-got[i].at); taken*int64(time.Second) > limit {
					t.Fatalf("%d half units admitted from %d to %d at %d per second", taken, got[i].at, a.at, rate)
				}
			}
		}
	})
}

// A meter decides as if it had one bucket per key that is never forgotten.
func TestForgettingChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 20).Draw(t, "rate")
		m := wall.New(start, wall.Throughput{Write: rate}, wall.Capacity{})
		never := map[wall.Partition]wall.Bucket{}
		now := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause"))
			// Behind one lock, so that they make the meter forget each other.
			p := wall.Partition(1 + 64*rapid.Uint64Range(0, 30).Draw(t, "key"))
			b, ok := never[p]
			if !ok {
				b = wall.NewBucket(rate, time.Second)
			}
			b = b.Refilled(now)
			balance, _ := b.Grains()
			want := balance > 0
			if got := m.Check(after(now), wall.Write, p) == wall.Admitted; got != want {
				t.Fatalf("partition %d at %v: admitted %t, want %t", p, now, got, want)
			}
			if want {
				cost := rapid.Int64Range(1, 3*rate).Draw(t, "cost")
				b = b.Charged(cost)
				m.Charge(after(now), wall.Write, p, cost)
			}
			never[p] = b
		}
		if n := m.Partitions(wall.Write); n > len(never) {
			t.Fatalf("%d partitions remembered of %d", n, len(never))
		}
	})
}

// A million keys, 10,000 of them per second, each full again after a millisecond: the meter
// remembers few.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{})
	most := 0
	for i := range 1_000_000 {
		m.Charge(after(time.Duration(i)*100*time.Microsecond), wall.Write, numbered(i), 2)
		if i%10_000 == 0 {
			most = max(most, m.Partitions(wall.Write))
		}
	}
	if most > 1000 {
		t.Errorf("%d of a million keys remembered at once, want no more than the shards' few", most)
	}
}

// Keys that are not full again are not forgotten. After a storm its keys are forgotten, and their
// memory is released.
func TestStormIsForgotten(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{})
	const storm, few = 200_000, 1000
	for i := range storm {
		m.Charge(start, wall.Write, numbered(i), 2000)
	}
	if n := m.Partitions(wall.Write); n != storm {
		t.Errorf("%d keys remembered of %d that are used up", n, storm)
	}
	for i := range 2 * storm {
		m.Charge(after(time.Minute), wall.Write, numbered(storm+i%few), 2)
	}
	if n := m.Partitions(wall.Write); n != few {
		t.Errorf("%d keys remembered a minute later, want the %d in use", n, few)
	}
	if n := m.Room(wall.Write); n > storm/2 {
		t.Errorf("room for %d keys a minute later, want less than the storm took", n)
	}
	if why := m.Check(after(time.Minute), wall.Write, numbered(storm)); why != wall.Admitted {
		t.Errorf("a key in use: %v", why)
	}
	m.Charge(after(time.Minute), wall.Write, numbered(storm), 2000)
	if why := m.Check(after(time.Minute), wall.Write, numbered(storm)); why != wall.KeyRange {
		t.Errorf("a key in use that is used up: %v, want KeyRange", why)
	}
}

// Concurrent requests exceed the limit by at most one each, and every admitted one is charged.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	const callers, each = 64, 200
	m := wall.New(start, aws, wall.Capacity{Provisioned: wall.Throughput{Write: 1 << 20}})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range each {
				if m.Check(start, wall.Write, named("hot")) == wall.Admitted {
					m.Charge(start, wall.Write, named("hot"), 2)
					admitted.Add(1)
				}
				m.Charge(start, wall.Read, numbered(i), 2)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n < 1000 || n > 1000+callers {
		t.Errorf("%d admitted at one instant, want 1,000 and at most one more for each caller", n)
	}
	// The debt shows how many requests were charged.
	debt := time.Duration(admitted.Load()-1000) * time.Millisecond
	if why := m.Check(after(debt), wall.Write, named("hot")); why != wall.KeyRange {
		t.Errorf("after %v: %v, want KeyRange", debt, why)
	}
	if why := m.Check(after(debt+1), wall.Write, named("hot")); why != wall.Admitted {
		t.Errorf("after %v and a nanosecond: %v", debt, why)
	}
}

// An absurdly large charge leaves a debt.
func TestEnormousCharge(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*wall.Meter{
		"partition": wall.New(start, aws, wall.Capacity{}),
		"whole":     wall.New(start, wall.Throughput{}, wall.Capacity{Initial: wall.Throughput{Write: 8000}}),
	} {
		m.Charge(start, wall.Write, named("k"), 1<<62)
		if why := m.Check(after(time.Minute), wall.Write, named("k")); why != wall.KeyRange {
			t.Errorf("%s: %v, want KeyRange", name, why)
		}
	}
}

// An instant before the creation of the meter, or far away, does no harm.
func TestAnyInstant(t *testing.T) {
	t.Parallel()
	m := wall.New(start, aws, wall.Capacity{Initial: wall.Throughput{Write: 8000}})
	for _, at := range []time.Time{{}, start.Add(-time.Hour), start, start.AddDate(1000, 0, 0), start} {
		m.Charge(at, wall.Write, named("k"), 2)
		if why := m.Check(at, wall.Write, named("k")); why != wall.Admitted {
			t.Errorf("at %v: %v", at, why)
		}
	}
}
