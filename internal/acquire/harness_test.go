package acquire_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

var (
	ask    = testbed.Ask
	askAll = testbed.AskAll
	child  = testbed.Child
)

type tokens = testbed.Tokens

const table = testbed.Table

// A world is the tests' world with what only tests of limiters need.
type world struct{ *testbed.World }

// inWorld runs f in a bubble with a fresh table and one limiter. The engine answers at
// once, and the limiter takes it for a remote one, as a table on AWS is.
func inWorld(t *testing.T, o limiter.Options, f func(*world)) {
	t.Helper()
	t.Parallel()
	inBubble(t, testbed.Options{Remote: true, Limiter: o}, f)
}

// inEachWorld runs f as inWorld does, where callers carry their first write themselves. It runs f
// again where all of a call's work runs on a goroutine of its own, and on an engine that is known
// never to wait: there it runs on the caller's. A test is in each world if that may change its
// result: it has several requests at once, a caller that leaves, a time-out, a lost answer, or
// work in the background.
func inEachWorld(t *testing.T, o limiter.Options, f func(*world)) {
	t.Helper()
	t.Parallel()
	for name, o := range map[string]testbed.Options{
		"remote":     {Remote: true, Limiter: o},
		"apart":      {Remote: true, Apart: true, Limiter: o},
		"in process": {Limiter: o},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, o, f)
		})
	}
}

// inEngine runs f in a bubble with a fresh table and one limiter, on a remote engine that
// throttles or has latency.
func inEngine(t *testing.T, e dynamolite.Options, to dynamo.TableOptions, f func(*world)) {
	t.Helper()
	t.Parallel()
	inBubble(t, testbed.Options{Engine: e, Table: to, Remote: true}, f)
}

// inBubble runs f in a bubble, where time passes when every goroutine waits.
func inBubble(t *testing.T, o testbed.Options, f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&world{testbed.New(t, o)}) })
}

// admitted counts how often a request is admitted when it is made at each interval for
// a total time.
func (w *world) admitted(l *limiter.Limiter, req limiter.Request, every, total time.Duration) (n int) {
	w.Helper()
	for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(every) {
		if w.Take(l, req) == nil {
			n++
		}
	}
	return n
}

// bucketRequests returns the requests that named buckets since the last call.
func bucketRequests(api *faults.Tap) []faults.Request {
	return slices.DeleteFunc(api.Take(), func(r faults.Request) bool { return len(r.Shards) == 0 })
}

// fullShards throttles the writes to shards for which err returns an error.
func fullShards(err func(shard int) error) faults.Hook {
	return faults.Throttle(func(b limiter.Bucket) error { return err(b.Shard) })
}
