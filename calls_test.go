package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type traceKey struct{}

// deaf never answers writes to buckets. It remembers the traces of its callers.
type deaf struct {
	dynamo.API
	mu     sync.Mutex
	traces []any
}

func (d *deaf) UpdateItem(ctx context.Context, _ *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	d.mu.Lock()
	d.traces = append(d.traces, ctx.Value(traceKey{}))
	d.mu.Unlock()
	<-ctx.Done()
	return nil, ctx.Err()
}

// The limiter gives up a store that hangs in time, whether or not the caller has a
// deadline. The store can read from the context for which caller it was asked.
func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	const timeout = 4 * time.Second
	inWorld(t, limiter.Options{}, func(w *world) {
		w.system(limiter.PerHour("rph", 10))
		w.take(w.Limiter, ask("user", "rph", 1))
		api := &deaf{API: w.engine}
		l := w.limiter(w.open(api), limiter.Options{Timeout: timeout, InFlight: -1})
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				ctx := context.WithValue(w.Context(), traceKey{}, i)
				limit := timeout
				if i%2 == 0 {
					limit = time.Duration(i) * 100 * time.Millisecond
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				}
				start := time.Now()
				_, err := l.Acquire(ctx, ask("user", "rph", 1))
				if took := time.Since(start); !errors.Is(err, limiter.ErrUnavailable) && i > 0 || took > limit || i%2 == 1 && took < timeout*7/8 {
					w.Errorf("call %d: %v after %v", i, err, took)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		calls.Wait()
		l.Settle()
		seen := make(map[any]bool)
		for _, trace := range api.traces {
			seen[trace] = true
		}
		if len(seen) != 19 { // the first had no time at all
			w.Errorf("asked on behalf of %v", seen)
		}
	})
}
