package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

// follow runs the world's aggregator in the background until end is called.
func (w *world) follow() (end func()) {
	w.Helper()
	f, err := stream.NewFollower(stream.Options{API: w.API, Table: table, Streams: w.streams})
	w.Must(err)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.aggregator.Follow(ctx, f) }()
	return func() {
		cancel()
		w.Check(<-ended)
	}
}

// An aggregator runs in one process with its table. It restarts while users are active, and
// cannot write for a while. All that deleted buckets consumed is saved in the end.
func TestFollowingBesideATable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var observed sync.Mutex
		failed, calls := 0, 0
		w.aggregator = w.aggregate(aggregator.Options{Observe: func(r aggregator.Result) {
			observed.Lock()
			defer observed.Unlock()
			failed += len(r.Failed)
		}})
		w.books.fail = func([]usage.Diary) error {
			if calls++; calls%4 != 0 {
				return errors.New("not now")
			}
			return nil
		}
		var users sync.WaitGroup
		users.Go(func() { w.traffic(time.Second) })
		for range 5 {
			end := w.follow()
			time.Sleep(5 * time.Second)
			end()
			time.Sleep(3 * time.Second)
		}
		users.Wait()
		want := map[string]string{}
		for entity, events := range map[string]int{"user": 70, "key": 30, "team": 30} {
			want[entity] = fmt.Sprint(events, w.counted(entity))
			w.drop(entity)
		}
		end := w.follow()
		time.Sleep(time.Minute)
		end()
		if failed == 0 {
			t.Error("nothing failed")
		}
		for entity := range want {
			w.wantUsage(entity, want[entity])
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	open := func(context.Context, string) (aggregator.Namespace, error) { return aggregator.Namespace{}, nil }
	for i, c := range []struct {
		open aggregator.Opener
		o    aggregator.Options
	}{{nil, aggregator.Options{}}, {open, aggregator.Options{Concurrency: -1}}, {open, aggregator.Options{MaxAge: -1}}, {open, aggregator.Options{Memory: -1}}} {
		if _, err := aggregator.New(c.open, c.o); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}
