package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A thief takes an item's tokens just before each write of another process.
type thief struct {
	dynamo.API
	steal func()
}

func (t *thief) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	t.steal()
	defer time.Sleep(5 * time.Millisecond)
	return t.API.UpdateItem(ctx, in, o...)
}

// A process whose writes are all refused is noticed by the others. They learn of it
// from the item's count of writes, and leave it some tokens from then on.
func TestAProcessThatIsAlwaysRefusedIsHeard(t *testing.T) {
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.system(limiter.PerSecond("rps", 1000, limiter.Burst(10)))
		w.take(w.Limiter, ask("user", "rps", 1))
		heard, b := false, limiter.Bucket{Entity: "user", Resource: "gpt-4"}
		unlucky := w.limiter(w.open(&thief{w.engine, func() {
			for !heard && w.take(w.Limiter, ask("user", "rps", 1)) == nil {
				heard = w.IsShared(b)
			}
		}}), limiter.Options{})
		for start := time.Now(); !heard && time.Since(start) < 2*time.Second; {
			if _, err := unlucky.Acquire(w.Context(), ask("user", "rps", 1)); err == nil && !heard {
				w.Error("it was lucky")
				return
			}
		}
		if !heard {
			w.Error("nobody knows of the unlucky process")
		}
	})
}
