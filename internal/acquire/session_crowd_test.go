package acquire_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A session begins among processes that write to all shards all the time, whether they use
// it, too, or only another limit: then each of their writes moves a stamp on which the
// transaction depends. It begins within a second, and nobody is told an error.
func TestASessionBeginsInACrowd(t *testing.T) {
	for name, consume := range map[string]tokens{"of the session": {"sess": 1, "rpm": 1}, "of another limit": {"rpm": 1}} {
		t.Run(name, func(t *testing.T) {
			inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
				const shards, processes, callers, whole = 8, 4, 8, 1_000_000
				w.System(sessionOf(t, whole), limiter.PerMinute("rpm", 6_000_000))
				w.onShards(w.Limiter, shards)
				var all []*limiter.Limiter
				for range processes {
					all = append(all, w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, distance(5*time.Millisecond))), limiter.Options{}))
				}
				end := time.Now().Add(3 * time.Second)
				var served atomic.Int64
				var wait sync.WaitGroup
				for i := range processes * callers {
					wait.Go(func() {
						for time.Now().Before(end) {
							if _, err := all[i%processes].Acquire(w.Context(), askAll("user", consume)); err != nil {
								t.Error(err)
								return
							}
							served.Add(1)
						}
					})
				}
				time.Sleep(time.Second)
				began := time.Now()
				w.Serve(all[0], ask("user", "sess", 1))
				took := time.Since(began)
				wait.Wait()
				w.haveOneSession(w.sessions()[0])
				t.Logf("it took %v, and %d requests were served", took, served.Load())
				if took > time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
