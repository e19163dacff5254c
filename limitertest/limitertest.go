// Package limitertest gives tests of programs a limiter on a table in memory.
//
//	limits := limitertest.New(t, limiter.PerMinute("rpm", 3))
//	handler := newHandler(limits.Limiter)
//
// The limiter, its store and the table are the real ones. A handler under test therefore
// gets the answers and errors that it gets in production. The table is package
// dynamolite's engine. Nothing needs a network, a container or credentials.
//
// # Outages and refusals
//
// [Limits.Fail] and [Limits.Stall] make the table fail or never answer. [Limits.Refuse]
// empties a bucket, so that the limiter itself refuses what follows. [Limits.Restore] ends
// all of these.
//
// # Virtual time
//
// In a testing/synctest bubble, time passes only while every goroutine waits. A test can
// sleep until a refused request is admitted, and the sleep takes no real time. Call [New]
// inside the bubble, with the bubble's t.
package limitertest

import (
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// Limits is a limiter on a table of its own. It is safe for concurrent use.
type Limits struct {
	// Limiter is the limiter for the program under test. Fail and Stall disturb it.
	*limiter.Limiter
	// Store configures the table. Fail and Stall do not disturb it. The limiter sees a
	// change after [limiter.DefaultConfigTTL], or after InvalidateConfig.
	Store *dynamo.Store
	// Engine is the table's engine. It counts requests and capacity units.
	Engine *dynamolite.DB

	world     *testbed.World
	disturbed *dynamo.Store
	fault     faults.Slot
	names     []string // of the limits that New configured

	mu    sync.Mutex
	taken []*limiter.Lease // what Refuse took
}

// New makes a table in memory, configures the limits at the system level, and makes a
// limiter with default options. Everything closes when the test ends. Without limits,
// configure some through [Limits.Store], or pass limiter.Request.Fallback.
func New(tb testing.TB, limits ...limiter.Limit) *Limits {
	tb.Helper()
	l := &Limits{world: testbed.New(tb, testbed.Options{})}
	l.Store, l.Engine = l.world.Store, l.world.Engine
	l.disturbed = l.world.OpenOn(faults.Wrap(l.Engine, l.fault.Apply))
	l.Limiter = l.NewLimiter(limiter.Options{})
	if len(limits) > 0 {
		l.world.System(limits...)
	}
	for _, limit := range limits {
		l.names = append(l.names, limit.Name)
	}
	return l
}

// NewLimiter makes a further limiter on the table. It stands for another process, or has
// other options. Fail and Stall disturb it, too.
func (l *Limits) NewLimiter(o limiter.Options) *limiter.Limiter {
	l.world.Helper()
	made := l.world.NewLimiter(l.disturbed, o)
	l.world.Cleanup(func() { l.fault.Set(nil) }) // runs before Close, which waits for calls under way
	return made
}

// Fail makes every request of the limiters to the table fail from now on, without effect.
// The limiter translates the failure, so calls return the same error as in production:
//
//   - [limiter.ErrUnavailable]: no answer from the table. A request that allows this gets a
//     degraded lease.
//   - [limiter.ErrThrottled], [limiter.ErrHotPartition]: the table or one partition throttles.
//   - [limiter.ErrConflict]: another writer is always first.
//   - [limiter.ErrAccessDenied]: the credentials do not permit the request.
//   - [limiter.ErrNotFound]: the table does not exist.
//
// Any other error stands for the error of a connection: calls return an
// [limiter.ErrUnavailable] that wraps it.
//
// A refusal from memory needs no table, and is still given: for [limiter.Options].Trust, which
// is a second, after a refusal of the same bucket. A nil error ends the test.
func (l *Limits) Fail(err error) {
	l.world.Helper()
	if err == nil {
		l.world.Fatal("limitertest: Fail needs an error; call Restore to end an outage")
	}
	l.fault.Set(faults.Fail(failure(err)))
}

// failure is what the SDK's client returns where the limiter is to report err.
func failure(err error) error {
	switch {
	case errors.Is(err, limiter.ErrHotPartition):
		return faults.HotPartition()
	case errors.Is(err, limiter.ErrThrottled):
		return faults.BusyTable()
	case errors.Is(err, limiter.ErrConflict):
		return &types.TransactionConflictException{}
	case errors.Is(err, limiter.ErrAccessDenied):
		return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:UpdateItem"}
	case errors.Is(err, limiter.ErrNotFound):
		return &types.ResourceNotFoundException{}
	case errors.Is(err, limiter.ErrUnavailable):
		return errNoConnection
	}
	return err
}

// errNoConnection is the error of an unreachable table.
var errNoConnection = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("limitertest: connection refused")}

// Stall makes the table never answer. A call returns when its context ends, or after
// [limiter.Options].Timeout, which is 5 seconds by default. In a bubble these take no real
// time.
func (l *Limits) Stall() { l.fault.Set(faults.Hang) }

// Refuse takes everything that limits of a bucket hold: of the entity and resource that the
// program under test will ask for. The limiter then refuses as it does in production, with
// the wait until the limit has earned enough. Without names it empties the limits given to
// [New]. An entity that cascades takes from its parent, too, up to what the parent holds.
// To make a parent refuse, pass the parent.
//
// The bucket earns tokens with time. In a bubble no time passes before the test waits.
// Elsewhere use limits that earn a token only after the test has ended.
//
// Refuse ends the test if the limiter cannot empty the bucket. Call it before Fail and
// Stall.
func (l *Limits) Refuse(entity, resource string, names ...string) {
	l.world.Helper()
	if len(names) == 0 {
		names = l.names
	}
	if len(names) == 0 {
		l.world.Fatal("limitertest: Refuse needs the names of limits, because New has configured none")
	}
	for _, name := range names {
		l.empty(limiter.Request{Entity: entity, Resource: resource}, name)
	}
}

// empty takes what one limit holds. Other callers may take from it meanwhile.
func (l *Limits) empty(req limiter.Request, limit string) {
	l.world.Helper()
	for {
		req.Consume = map[string]int64{limit: 0}
		statuses, err := l.Available(l.world.Context(), req)
		l.world.Must(err)
		least := int64(limiter.MaxTokens)
		for _, s := range statuses {
			least = min(least, s.Available)
		}
		if least <= 0 || len(statuses) == 0 {
			return
		}
		req.Consume[limit] = least
		lease, err := l.Acquire(l.world.Context(), req)
		if errors.Is(err, limiter.ErrExceeded) {
			continue
		}
		l.world.Must(err)
		l.mu.Lock()
		l.taken = append(l.taken, lease)
		l.mu.Unlock()
	}
}

// Restore ends outages and refusals: the table answers again, and what Refuse has taken
// goes back.
func (l *Limits) Restore() {
	l.world.Helper()
	l.fault.Set(nil)
	l.mu.Lock()
	taken := l.taken
	l.taken = nil
	l.mu.Unlock()
	for _, lease := range taken {
		l.world.Must(lease.Rollback(l.world.Context()))
	}
}
