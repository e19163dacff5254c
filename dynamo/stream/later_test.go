package stream_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// isTenth reports whether a stamp is a multiple of ten.
func isTenth(stamp int64) bool { return stamp%10 == 0 }

// wantLately checks which deferred records were processed since the last call.
func (f *follow) wantLately(want ...int64) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.lately)
	if !slices.Equal(f.lately, want) {
		f.Errorf("of those put off, %v were taken in, want %v", f.lately, want)
	}
	f.lately = nil
}

// isDown makes deferred records fail until it is false.
func (f *follow) isDown() *atomic.Bool {
	var down atomic.Bool
	down.Store(true)
	f.later = func() error {
		if down.Load() {
			return errors.New("not now")
		}
		return nil
	}
	return &down
}

// A deferred record does not delay other records. It comes again until it is processed,
// and then a checkpoint passes it.
func TestRecordsThatArePutOff(t *testing.T) {
	following(t, func(f *follow) {
		f.putOff = isTenth
		down := f.isDown()
		f.write(1, 40)
		f.start()
		time.Sleep(3 * time.Second)
		f.want(1, 40)
		time.Sleep(time.Minute)
		f.write(41, 60)
		time.Sleep(3 * time.Second)
		f.want(41, 60)
		f.wantLately()
		down.Store(false)
		time.Sleep(10 * time.Second)
		f.want(1, 0)
		f.wantLately(10, 20, 30, 40, 50, 60)
		f.write(61, 80) // no more errors
		time.Sleep(4 * time.Second)
		f.want(61, 80)
		f.wantLately() // not yet: deferred records wait for others
		time.Sleep(10 * time.Second)
		f.wantLately(70, 80)
		f.end()
		f.wantNoMore()
		f.wantLately()
	})
}

// A follower that ends with deferred records has its checkpoint exactly before the
// first of them.
func TestWhatIsPutOffComesAgainInTheNextRun(t *testing.T) {
	following(t, func(f *follow) {
		f.o.Checkpoint = time.Second
		meter := dynamo.NewMeter(f.api)
		f.o.API = meter
		f.putOff = isTenth
		f.write(1, 9)
		f.start()
		time.Sleep(5 * time.Second)
		f.want(1, 9)
		f.later = func() error { return errors.New("never") }
		f.write(10, 49)
		time.Sleep(time.Minute)
		f.want(10, 49)
		f.end()
		// Each shard has one for the first records, and one or two for the others: its
		// reader may read while they are written. A shard that never stopped would have 60.
		if n := meter.Totals()["PutItem"].Requests; n == 0 || n > 12 {
			t.Errorf("%d checkpoints of four shards", n)
		}
		f.later = nil
		f.start()
		time.Sleep(time.Minute)
		f.end()
		f.wantLately(10, 20, 30, 40)
		if stamps := f.take(); len(stamps) == 0 || stamps[0] < 10 || slices.ContainsFunc([]int{10, 20, 30, 40}, func(i int) bool { return !slices.Contains(stamps, i) }) {
			t.Errorf("%v came again, want those from each shard's first that was put off", stamps)
		}
		f.wantNoMore()
	})
}

// If part of the deferred records is processed, the next run begins at the rest.
func TestACheckpointMovesWithWhatIsPutOff(t *testing.T) {
	following(t, func(f *follow) {
		f.o.Checkpoint, f.o.Batch = time.Second, 2
		f.putOff = func(int64) bool { return true }
		left := 4
		f.later = func() error {
			if left--; left < 0 {
				return errors.New("never")
			}
			return nil
		}
		for stamp := range 20 {
			f.write(9*(stamp+1), 9*(stamp+1)) // all of one item
		}
		f.start()
		time.Sleep(time.Minute)
		f.end()
		if n := len(f.lately); n != 8 {
			t.Errorf("%d were taken in, want 4 batches of 2", n)
		}
		f.take()
		f.later = nil
		f.start()
		time.Sleep(time.Minute)
		f.end()
		if n := len(f.take()); n != 12 {
			t.Errorf("%d came again, want 12", n)
		}
	})
}

// The follower reads the children of an ended shard even if the shard has deferred
// records. It no longer reads the shard once these are processed.
func TestLongTheEndOfAShardWithSomethingPutOff(t *testing.T) {
	following(t, func(f *follow) {
		f.putOff = isTenth
		down := f.isDown()
		f.start()
		f.writeFor(10 * time.Hour)
		f.want(1, 200)
		f.wantLately()
		down.Store(false)
		time.Sleep(time.Minute)
		f.end()
		if n := len(f.lately); n != 20 {
			t.Errorf("%d were taken in, want 20", n)
		}
		f.wantNoMore()
	})
}

// The number of records that a follower defers at a time is bounded.
func TestThereIsAnEndToPuttingOff(t *testing.T) {
	following(t, func(f *follow) {
		f.o.Batch = 1000
		f.putOff = func(int64) bool { return true }
		down := f.isDown()
		for stamp := range 12_500 {
			f.write(9*(stamp+1), 9*(stamp+1)) // all of one item
		}
		f.start()
		time.Sleep(time.Hour)
		if n := len(f.take()); n != 11_000 {
			t.Errorf("%d were handed on, want 10,000 and the page after that", n)
		}
		down.Store(false)
		time.Sleep(time.Hour)
		f.end()
		if n := len(f.take()); n != 1_500 {
			t.Errorf("%d were handed on then, want the rest", n)
		}
		if n := len(f.lately); n != 12_500 {
			t.Errorf("%d were taken in, want all", n)
		}
	})
}
