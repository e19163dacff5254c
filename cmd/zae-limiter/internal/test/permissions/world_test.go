package permissions_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

const root = "../../../../.."

var files = os.DirFS(root)

type tokens = testbed.Tokens

// hourly earns one token a second.
var hourly = limiter.PerHour("rph", 3600)

// A branch is the call under way, and what it meets.
type branch struct{ call, name string }

// A world is a table with a stream whose requests are recorded while a branch is under
// way. It is in a bubble.
type world struct {
	*testbed.World
	recorder *permissions.Recorder
	// disturb is between the recorder and the table.
	disturb faults.Slot
	streams stream.API

	at atomic.Pointer[branch]
}

// scenario returns a scenario's run in a bubble of its own.
func scenario(recorder *permissions.Recorder, f func(*world)) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(newWorld(t, recorder)) })
	}
}

func newWorld(tb testing.TB, recorder *permissions.Recorder) *world {
	tb.Helper()
	w := &world{recorder: recorder}
	engine := testbed.NewEngine(tb, dynamolite.Options{})
	w.streams = dynamodbstreams.NewFromConfig(permissions.Config(w.seen, engine))
	w.World = testbed.New(tb, testbed.Options{
		API: faults.Wrap(engine, w.note, w.disturb.Apply), Remote: true,
		Table: dynamo.TableOptions{Stream: true, Principal: "tester"}, Store: dynamo.Options{Principal: "tester"},
	})
	w.Limiter = w.limiter()
	return w
}

// tokenKeys are the keys of all limiters.
var tokenKeys = [][]byte{make([]byte, limiter.MinTokenKey)}

// limiter returns a limiter that remembers nothing yet.
func (w *world) limiter() *limiter.Limiter {
	w.Helper()
	return w.NewLimiter(calls{w.Store}, limiter.Options{TokenKeys: tokenKeys})
}

// keeper returns a keeper that remembers nothing yet.
func (w *world) keeper() *upkeep.Keeper {
	w.Helper()
	return w.NewKeeper(calls{w.Store}, process.Options{})
}

// note records a request for the branch under way, and for the call of the store that
// sends it.
func (w *world) note(ctx context.Context, c *faults.Call, next faults.Next) error {
	w.seen(ctx, c.Input)
	return next(ctx)
}

func (w *world) seen(ctx context.Context, input any) {
	if at := w.at.Load(); at != nil {
		w.recorder.Note(at.call, at.name, input)
	}
	if call, ok := ctx.Value(callKey{}).(string); ok {
		w.recorder.Note(call, always, input)
	}
}

// always is the branch of calls that have only one.
const always = "always"

// record runs a branch of a call, and records its requests and those that it leaves to the
// background.
func (w *world) record(call, name string, f func()) {
	w.Helper()
	w.recorder.Began(call, name)
	w.at.Store(&branch{call, name})
	f()
	synctest.Wait()
	w.at.Store(nil)
}

// acquire acquires with a limiter, which may refuse.
func (w *world) acquire(l *limiter.Limiter, entity string, tokens int64) {
	w.Helper()
	w.Take(l, testbed.Ask(entity, "rph", tokens))
}

// family configures a limit, and makes an entity with a parent to which it cascades.
func (w *world) family() {
	w.Helper()
	w.System(hourly)
	w.entity(limiter.Entity{ID: "project"})
	w.entity(limiter.Entity{ID: "key", Parent: "project", Cascade: true})
}

func (w *world) entity(e limiter.Entity) {
	w.Helper()
	_, err := w.Store.CreateEntity(w.Context(), e)
	w.Must(err)
}

// double doubles the number of the shards of an entity's bucket, which it makes if there
// is none.
func (w *world) double(entity string) {
	w.Helper()
	if len(w.Images(entity)) == 0 {
		first := testbed.Ask(entity, "rph", 1)
		first.Fallback = []limiter.Limit{hourly} // if nothing is configured yet
		w.Take(w.limiter(), first)
	}
	time.Sleep(time.Minute)
	img := pressed(w.Images(entity)[0])
	done, err := w.keeper().Double(w.Context(), img, time.UnixMilli(img.RefilledAt))
	w.Must(err)
	if !done {
		w.Fatal("not doubled")
	}
}

// merge halves the number of the shards of an entity's bucket.
func (w *world) merge(entity string) {
	w.Helper()
	time.Sleep(time.Minute)
	k, b := w.keeper(), w.Images(entity)[0].Bucket
	w.Must(k.Mend(w.Context(), b))
	images, err := k.Shards(w.Context(), b)
	w.Must(err)
	done, err := k.Merge(w.Context(), images)
	w.Must(err)
	if !done {
		w.Fatal("not merged")
	}
}

// pressed returns an image whose writes are used up.
func pressed(img *store.Image) *store.Image {
	hot := *img
	hot.Writes.Tokens = -1000
	return &hot
}

// remove deletes a shard of an entity's bucket, as expiry does.
func (w *world) remove(entity string, shard int) {
	w.Helper()
	key := w.Images(entity)[shard].Bucket
	_, ns := w.Store.Namespace()
	w.Must(removeItem(w.Context(), w.API, ns, key))
}

// together runs something often at the same time.
func (w *world) together(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}

// arn returns the ARN of the table's stream.
func (w *world) arn() *string {
	w.Helper()
	out, err := w.API.DescribeTable(w.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(testbed.Table)})
	w.Must(err)
	return out.Table.LatestStreamArn
}
