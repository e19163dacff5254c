package stream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// The follower reports the progress of a shard while it reads and delivers, and none while
// reads or deliveries fail. Nobody hears of a shard that the follower has left.
func TestFollowerReportsProgress(t *testing.T) {
	following(t, func(f *follow) {
		shards := map[string]int{} // reports by shard under way
		const open = 4             // shards of the engine at a time
		reports := 0
		f.o.Progress = func(shard string, ended bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if reports++; ended {
				delete(shards, shard)
				return
			}
			shards[shard]++
		}
		since := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			n := reports
			reports = 0
			return n
		}
		underWay := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(shards)
		}
		refuse := func(read, handle error) {
			f.streams.mu.Lock()
			f.streams.before = func(op string) error {
				if op == "GetRecords" {
					return read
				}
				return nil
			}
			f.streams.mu.Unlock()
			f.mu.Lock()
			f.handle = func([]stream.Record) error { return handle }
			f.mu.Unlock()
			since()
			time.Sleep(time.Minute)
		}
		f.start()
		time.Sleep(time.Minute)
		if n := since(); n < 10 || underWay() != open {
			t.Errorf("%d reports in a minute without records, of %d shards", n, underWay())
		}
		if refuse(errors.New("no read"), nil); since() > open { // the pages under way
			t.Error("a shard that cannot be read makes progress")
		}
		f.write(1, 10)
		if refuse(nil, errors.New("not now")); since() > 0 {
			t.Error("a shard whose records nobody takes makes progress")
		}
		if refuse(nil, nil); since() < 10 {
			t.Error("no progress afterwards")
		}
		f.want(1, 10)
		f.writeFor(5 * time.Hour)
		if n := underWay(); n != open {
			t.Errorf("%d shards are under way, want the last %d", n, open)
		}
		f.end()
		if n := underWay(); n > 0 {
			t.Errorf("%d shards are under way at the end", n)
		}
	})
}
