package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A lossy network loses a part of the writes to buckets, or their answers. It delivers some of them
// up to a minute later, or once more.
type lossy struct {
	*world

	part  float64
	pace  time.Duration // that a write takes: so few a second that the bucket stays one item
	keeps bool          // nothing is returned
	all   []atomic.Pointer[limiter.Limiter]
	late  sync.WaitGroup
	// What happened: to the network, to processes, to deleted items, and to callers.
	lost, creations, restarts, gone, granted, refused, unknown, returned atomic.Int64
}

func (n *lossy) hook(ctx context.Context, q *faults.Call, next faults.Next) error {
	var arrives func()
	switch in := q.Input.(type) {
	case *dynamodb.UpdateItemInput:
		arrives = func() { _, _ = n.Engine.UpdateItem(context.WithoutCancel(ctx), in) }
	case *dynamodb.PutItemInput:
		arrives = func() { _, _ = n.Engine.PutItem(context.WithoutCancel(ctx), in) }
	}
	if time.Sleep(n.pace); arrives == nil || rand.Float64() >= n.part {
		return next(ctx)
	}
	n.lost.Add(1)
	if q.Op == "PutItem" {
		n.creations.Add(1)
	}
	afterwards := func() {
		n.late.Go(func() {
			time.Sleep(time.Duration(rand.Int64N(int64(time.Minute))))
			arrives()
		})
	}
	switch rand.IntN(4) {
	case 0: // it is lost before
	case 1:
		arrives()
	case 2:
		arrives()
		afterwards()
	case 3:
		afterwards()
	}
	return &timeout{}
}

// A timeout is the error of a write that was sent and not answered.
type timeout struct{}

func (*timeout) Error() string   { return "connection reset by peer" }
func (*timeout) Timeout() bool   { return true }
func (*timeout) Temporary() bool { return true }

// Whatever answers are lost, a request is debited once or not at all, and its caller learns which.
// Duplicates that come a minute later do nothing.
func TestLostAnswersHarmNobody(t *testing.T) { lostAnswers(t, 18_000) }

// The same, many times.
func TestLongestLostAnswersHarmNobody(t *testing.T) { lostAnswers(t, 2_000_000) }

func lostAnswers(t *testing.T, calls int) {
	t.Helper()
	harms := map[string]func(*lossy){"": func(*lossy) {}, ", restarted": (*lossy).restart, ", deleted": (*lossy).remake}
	for _, part := range []float64{0.01, 0.1, 0.4} {
		for _, processes := range []int{1, 3} {
			for name, harm := range harms {
				n := &lossy{part: part, pace: 5 * time.Millisecond, all: make([]atomic.Pointer[limiter.Limiter], processes), keeps: name == ", deleted"}
				t.Run(fmt.Sprint(part, " of ", processes, name), func(t *testing.T) { n.run(t, calls/18, harm) })
			}
		}
	}
}

// restart puts another process in the place of one. If many came within minutes, an item would have no
// room for the positions of the last ones.
func (n *lossy) restart() {
	time.Sleep(8 * time.Minute)
	i := rand.IntN(len(n.all))
	n.all[i].Store(n.NewLimiter(n.OpenOn(faults.Wrap(n.Engine, n.hook)), limiter.Options{}))
	n.restarts.Add(1)
}

// remake deletes the item. What was debited of it is gone with it, and so is what is known of it.
func (n *lossy) remake() {
	name := table
	for {
		out, err := n.Engine.DeleteItem(n.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: n.shardKey(0), ReturnValues: types.ReturnValueAllOld})
		if err == nil {
			n.gone.Add(consumedOf(out.Attributes))
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// consumedOf is how many tokens of a bucket were consumed.
func consumedOf(item map[string]types.AttributeValue) int64 {
	if item == nil {
		return 0
	}
	v, _ := item["b_rpd_tc"].(*types.AttributeValueMemberN)
	milli, _ := strconv.ParseInt(v.Value, 10, 64)
	return milli / 1000
}

func (n *lossy) run(t *testing.T, calls int, harm func(*lossy)) {
	t.Helper()
	inWorld(t, limiter.Options{}, func(w *world) {
		const callers, often = 4, 40
		n.world = w
		w.System(limiter.PerDay("rpd", 50_000_000))
		for i := range n.all {
			n.all[i].Store(w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, n.hook)), limiter.Options{}))
		}
		w.Serve(w.Limiter, ask("user", "rpd", 1))
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for k := range calls / callers {
					if i == 0 && k%often == often-1 {
						harm(n)
					}
					n.call(n.all[i%len(n.all)].Load())
				}
			})
		}
		wg.Wait()
		n.late.Wait()
		// Of fifteen attempts within the time of a call, one arrives, unless four in ten are lost.
		var unknown int64
		if n.part > 0.1 {
			unknown = 1 + n.granted.Load()/10_000
		}
		n.part = 0
		for i := range n.all { // what became of the last ones shows in the next image
			w.Serve(n.all[i].Load(), ask("user", "rpd", 1))
		}
		synctest.Wait()
		limit, _ := w.Images("user")[0].Limit("rpd")
		got, want := n.gone.Load()+limit.Consumed/1000, 1+int64(len(n.all))+n.granted.Load()-n.returned.Load()
		// What is unknown, or was to be returned by a process that is gone, may have been debited.
		most := want + n.unknown.Load() + 4*n.restarts.Load()
		if n.keeps { // a copy of a creation makes an item that was deleted once more, with the same debit
			most += n.creations.Load()
		}
		if got < want || got > most || !n.keeps && n.unknown.Load() > unknown || n.refused.Load() > 0 {
			w.Errorf("%d are debited, want %d to %d; %d granted, %d unknown, %d refused, %d answers lost",
				got, want, most, n.granted.Load(), n.unknown.Load(), n.refused.Load(), n.lost.Load())
		}
		t.Logf("%d granted, %d returned, %d unknown, %d answers lost, %d more debited", n.granted.Load(), n.returned.Load(), n.unknown.Load(), n.lost.Load(), got-want)
	})
}

// call acquires a token, and returns some of them again.
func (n *lossy) call(l *limiter.Limiter) {
	lease, err := l.Acquire(n.Context(), ask("user", "rpd", 1))
	switch {
	case errors.Is(err, limiter.ErrExceeded):
		n.refused.Add(1)
		return
	case err != nil:
		n.unknown.Add(1)
		return
	}
	n.granted.Add(1)
	switch {
	case n.keeps || rand.IntN(8) > 0:
		n.Must(lease.Commit(n.Context()))
	case lease.Rollback(n.Context()) == nil:
		n.returned.Add(1)
	default:
		n.unknown.Add(1)
	}
}
