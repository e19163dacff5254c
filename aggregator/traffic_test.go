package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/store"
)

// counting is an aggregator that tends no bucket.
func counting(t *testing.T, o aggregator.Options) *aggregator.Aggregator {
	t.Helper()
	a, err := aggregator.New(func(_ context.Context, id string) (aggregator.Namespace, error) {
		if id == "gone" {
			return aggregator.Namespace{}, limiter.ErrNotFound
		}
		return aggregator.Namespace{}, nil
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// item is a bucket item that has been written to.
func item(entity string, shard, shards int, writes int64) *store.Image {
	return &store.Image{
		Bucket: limiter.Bucket{Entity: entity, Resource: "gpt-4", Shard: shard}, ShardCount: shards, RefilledAt: time.Now().UnixMilli(),
		Writes: store.LimitState{Name: store.WriteLimit, Tokens: 500_000, Consumed: writes * store.Milli, Params: &store.Params{Capacity: 1_000_000, Amount: 1_000_000, Period: 1000}},
	}
}

// wrote is the record of a write, now.
func wrote(sequence int, before, after *store.Image) stream.Record {
	return stream.Record{ID: strconv.Itoa(sequence), Sequence: strconv.Itoa(sequence), At: time.Now(), Namespace: "ns", Old: before, New: after}
}

// row is the traffic of a shard of a minute as text.
func row(s *aggregator.ShardTraffic) string {
	return fmt.Sprintf("%s/%d: %d writes, %d left, %d doublings, %d throttles", s.Entity, s.Shard, s.Writes, s.WritesLeft, s.Doublings, s.Throttles)
}

// wantTraffic checks the traffic of the minute that ends now.
func wantTraffic(t *testing.T, a *aggregator.Aggregator, other string, shards ...string) {
	t.Helper()
	time.Sleep(time.Minute)
	got := a.Traffic()
	if len(got.Shards) != len(shards) || row(&got.Other) != other {
		t.Errorf("%d shards, others %q, want %d and %q", len(got.Shards), row(&got.Other), len(shards), other)
	}
	for i := range got.Shards {
		if text := row(&got.Shards[i]); i < len(shards) && text != shards[i] {
			t.Errorf("got %q, want %q", text, shards[i])
		}
	}
}

// The writes of limiters to a bucket are those that its table has counted, whatever comes again.
func TestTrafficIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		n := w.write(20, 59*time.Second, 5*time.Second, func() {
			records := w.drain()
			w.process(records)
			w.process(records) // as a stream may deliver them
		})
		w.process(w.drain())
		img := w.Images("user")[0]
		if counted := img.Writes.Consumed / store.Milli; counted < int64(n) {
			t.Fatalf("%d of %d writes are counted", counted, n)
		}
		time.Sleep(time.Minute)
		got := w.aggregator.Traffic()
		_, ns := w.Store.Namespace()
		if len(got.Shards) != 1 || got.Other != (aggregator.ShardTraffic{WritesLeft: 1000}) || got.To.Sub(got.From) != time.Minute {
			t.Fatalf("%+v", got)
		}
		s := got.Shards[0]
		if s.Writes != img.Writes.Consumed/store.Milli || s.Bucket != img.Bucket || s.Namespace != ns || s.PerSecond() != float64(s.Writes)/60 {
			t.Errorf("%+v, and the table has %d", s, img.Writes.Consumed)
		}
	})
}

// The function gets a part of the records only. The count of the hidden limit shows the rest.
func TestTrafficCountsWritesWithoutRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := counting(t, aggregator.Options{})
		for n := 1; n <= 1_000; n += 9 {
			feed(t, a, wrote(n, item("user", 0, 1, int64(n-1)), item("user", 0, 1, int64(n))))
			time.Sleep(500 * time.Millisecond)
		}
		wantTraffic(t, a, "/0: 0 writes, 1000 left, 0 doublings, 0 throttles", "user/0: 1000 writes, 500 left, 0 doublings, 0 throttles")
		// Neither minute has the writes between them.
		feed(t, a, wrote(2_000, item("user", 0, 1, 1_999), item("user", 0, 1, 2_000)))
		wantTraffic(t, a, "/0: 1 writes, 500 left, 0 doublings, 0 throttles")
		// After a pause, a minute is as long as before.
		time.Sleep(10*time.Minute + 4*time.Second)
		feed(t, a, wrote(3_000, item("user", 0, 1, 2_999), item("user", 0, 1, 3_000)))
		time.Sleep(30 * time.Second)
		feed(t, a, wrote(3_007, item("user", 0, 1, 3_006), item("user", 0, 1, 3_007)))
		wantTraffic(t, a, "/0: 8 writes, 500 left, 0 doublings, 0 throttles")
	})
}

func feed(t *testing.T, a *aggregator.Aggregator, records ...stream.Record) {
	t.Helper()
	if res, err := a.Process(t.Context(), records); err != nil || len(res.Failed) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A doubling is counted once: by the record of shard 0, which is split last, and not again if
// the record comes again, in the same minute or in a later one. A merge is none.
func TestADoublingIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := counting(t, aggregator.Options{MaxAge: time.Hour})
		split := wrote(10, item("user", 1, 2, 700), item("user", 1, 4, 701))
		last := wrote(20, item("user", 0, 2, 700), item("user", 0, 4, 701))
		made := wrote(11, nil, item("user", 3, 4, 1))
		feed(t, a, split, made, last, last)
		feed(t, a, split, last)
		wantTraffic(t, a, "/0: 3 writes, 500 left, 1 doublings, 0 throttles")
		feed(t, a, split, last)
		wantTraffic(t, a, "/0: 3 writes, 500 left, 1 doublings, 0 throttles") // still that of the minute before
		feed(t, a, wrote(30, item("user", 0, 4, 701), item("user", 0, 2, 702)))
		wantTraffic(t, a, "/0: 1 writes, 500 left, 0 doublings, 0 throttles")
		feed(t, a, wrote(40, item("user", 0, 2, 702), item("user", 0, 4, 1_500)))
		wantTraffic(t, a, "/0: 0 writes, 1000 left, 0 doublings, 0 throttles", "user/0: 798 writes, 500 left, 1 doublings, 0 throttles")
	})
}

// The writes left are the balance at the record's instant: the stored balance, and what the limit
// earned since the stamp, up to its capacity.
func TestWritesLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		tokens int64
		age    time.Duration // of the stamp, at the write
		set    func(*store.Image)
		want   int64
	}{
		{"just refilled", 400_000, 0, nil, 400},
		{"a part of a token", 400_999, 0, nil, 400},
		{"earned", 400_000, 250 * time.Millisecond, nil, 650},
		{"full", 400_000, time.Minute, nil, 1000},
		{"stamped ahead", 400_000, -time.Second, nil, 400},
		{"taken ahead", -300_000, 500 * time.Millisecond, nil, 200},
		{"in debt", -2_000_000, time.Second, nil, -1000},
		{"without the limit", 0, 0, func(i *store.Image) { i.Writes = store.LimitState{} }, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := counting(t, aggregator.Options{})
				img := item("user", 0, 1, 1)
				img.Writes.Tokens, img.RefilledAt = c.tokens, time.Now().Add(-c.age).UnixMilli()
				if c.set != nil {
					c.set(img)
				}
				feed(t, a, wrote(1, nil, img))
				wantTraffic(t, a, fmt.Sprintf("/0: 1 writes, %d left, 0 doublings, 0 throttles", c.want))
			})
		})
	}
}

// Records that say nothing about the present count nothing, and those of damaged or foreign
// items count one write each.
func TestTrafficIgnoresWhatIsNoWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := counting(t, aggregator.Options{})
		one := func(n int) stream.Record {
			return wrote(n, item("user", 0, 1, int64(n-1)), item("user", 0, 1, int64(n)))
		}
		old, gone, deleted, damaged := one(1), one(2), one(3), one(4)
		old.At = old.At.Add(-11 * time.Second)
		gone.Namespace = "gone"
		deleted.Old, deleted.New = deleted.New, nil
		damaged.Old, damaged.New, damaged.Err = nil, nil, errors.New("damaged")
		if _, err := a.Process(t.Context(), []stream.Record{old, gone, deleted, damaged, {ID: "5", Sequence: "5", At: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := a.Traffic(); !got.To.IsZero() {
			t.Errorf("%+v", got)
		}
		back := wrote(11, item("back", 0, 1, 5_000), item("back", 0, 1, 7)) // counts from anew
		far := wrote(12, item("far", 0, 1, 0), item("far", 0, 1, 1<<40))
		uncounted := wrote(13, item("peer", 0, 1, 7), item("peer", 0, 1, 7))
		feed(t, a, back, far, uncounted)
		for shard := range 2 * store.MaxShards {
			feed(t, a, wrote(100+shard, nil, item("wide", shard, 1024, 1)))
		}
		wantTraffic(t, a, fmt.Sprintf("/0: %d writes, 500 left, 0 doublings, 0 throttles", 3+store.MaxShards))
	})
}

// A million entities make no series: the three busiest buckets are told with their writes, and
// all else is one sum. No write is lost.
func TestLongTrafficIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const batches, strangers = 10_000, 100
		a := counting(t, aggregator.Options{Busiest: 3})
		sequence, written := 0, map[string]int64{}
		next := "00001112223344" // busy buckets
		for n := range batches {
			records := make([]stream.Record, 0, strangers+5)
			for i := range strangers {
				sequence++
				records = append(records, wrote(sequence, nil, item(fmt.Sprint("user-", n*strangers+i), 0, 1, 1)))
				if n >= 100 && i%20 == 0 { // one write in 21 is to a busy bucket
					name := "busy-" + next[:1]
					next = next[1:] + next[:1]
					sequence++
					written[name]++
					records = append(records, wrote(sequence, item(name, 0, 1, written[name]-1), item(name, 0, 1, written[name])))
				}
			}
			feed(t, a, records...)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		got := a.Traffic()
		sum := got.Other.Writes
		for i, s := range got.Shards {
			sum += s.Writes
			if all := written[s.Entity]; s.Writes > all || s.Writes < all-all/100 || i == 0 && s.Entity != "busy-0" {
				t.Errorf("%d: %s, of %d writes", i, row(&s), all)
			}
		}
		if all := int64(sequence); len(got.Shards) != 3 || sum != all {
			t.Errorf("%d shards with the others have %d writes of %d", len(got.Shards), sum, all)
		}
	})
}

// A bucket that was busy in one minute does not keep the place from one that is in the next.
func TestPlacesAreForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := counting(t, aggregator.Options{Busiest: 1})
		for n := range 255 { // all places but one
			feed(t, a, wrote(1+n, nil, item(fmt.Sprint("before-", n), 0, 1, 50_000)))
		}
		time.Sleep(time.Minute)
		for n := range 300 {
			feed(t, a, wrote(500+n, nil, item(fmt.Sprint("first-", n), 0, 1, 1)))
		}
		for n := range 700 {
			feed(t, a, wrote(1_000+n, nil, item(fmt.Sprint("user-", n), 0, 1, 1)))
			feed(t, a, wrote(1_000+n, item("now", 0, 1, int64(n)), item("now", 0, 1, int64(n+1))))
		}
		wantTraffic(t, a, "/0: 1000 writes, 500 left, 0 doublings, 0 throttles", "now/0: 700 writes, 500 left, 0 doublings, 0 throttles")
	})
}

// Batches of different shards, and readers, run at the same time. Each write is in one minute.
func TestTrafficAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const shards, each = 4, 1_000
		a := counting(t, aggregator.Options{})
		var mu sync.Mutex
		minutes := map[time.Time]int64{}
		read := func() {
			mu.Lock()
			defer mu.Unlock()
			got := a.Traffic()
			sum := got.Other.Writes
			for i := range got.Shards {
				sum += got.Shards[i].Writes
			}
			if before, known := minutes[got.To]; known && before != sum {
				t.Errorf("the minute to %v had %d writes, and has %d", got.To, before, sum)
			}
			minutes[got.To] = sum
		}
		var all sync.WaitGroup
		for s := range shards {
			all.Go(func() {
				for n := range int64(each) {
					time.Sleep(time.Duration(200+50*s) * time.Millisecond)
					r := wrote(int(n+1), item("user", s, shards, n), item("user", s, shards, n+1))
					feed(t, a, r)
					feed(t, a, r)
					read()
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		read()
		var sum int64
		for _, n := range minutes {
			sum += n
		}
		if sum != shards*each || len(minutes) < 5 {
			t.Errorf("%d writes in %d minutes, want %d", sum, len(minutes), shards*each)
		}
	})
}

// The number of buckets to tell is checked.
func TestBusiestIsChecked(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 257} {
		var invalid *store.ValidationError
		if _, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) { return aggregator.Namespace{}, nil },
			aggregator.Options{Busiest: n}); !errors.As(err, &invalid) || invalid.Field != "Busiest" {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// Counting allocates nothing for a bucket that has a place, and next to nothing for one that
// gets the place of another.
func TestTrafficIsCheap(t *testing.T) {
	for name, most := range map[string]float64{"one bucket": 50, "strangers": 260} { // 25 and 218 without traffic
		a := counting(t, aggregator.Options{Concurrency: 1})
		n := 0
		batches := make([][]stream.Record, 0, 100)
		for range cap(batches) {
			var records []stream.Record
			for range 100 {
				n++
				entity := "user"
				if name == "strangers" {
					entity = fmt.Sprint("user-", n)
				}
				records = append(records, wrote(n, nil, item(entity, 0, 1, 1)))
			}
			batches = append(batches, records)
		}
		next := 0
		got := testing.AllocsPerRun(len(batches)-1, func() {
			feed(t, a, batches[next]...)
			next++
		})
		if got > most {
			t.Errorf("%s: %.0f allocations for 100 records", name, got)
		}
	}
}
