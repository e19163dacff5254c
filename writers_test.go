package limiter_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A process detects others' writes from the item's count of writes. The process has
// several of its own writes under way at once, and their answers come in any order.
func TestOthersAreTheWritesThatNobodyHereSent(t *testing.T) {
	for seed := range uint64(500) {
		draw := rand.New(rand.NewPCG(seed, 1))
		others := seed%2 == 0
		var w limiter.Writes
		count, up := int64(100), time.Hour
		type answer struct {
			end     func(count int64, applied bool, up time.Duration)
			count   int64
			applied bool
		}
		var under []answer // they have taken effect
		for n := range 200 {
			up += time.Millisecond
			a := answer{end: w.Begin(up), applied: draw.IntN(3) > 0}
			if others && n%10 == 9 {
				count++
			}
			if a.applied {
				count++
			}
			a.count = count
			under = append(under, a)
			for len(under) > 0 && (draw.IntN(2) == 0 || len(under) > 8) {
				i := draw.IntN(len(under))
				under[i].end(under[i].count, under[i].applied, up)
				under = append(under[:i], under[i+1:]...)
			}
		}
		if got := w.Shared(up); got != others {
			t.Fatalf("seed %d: others write: %t, want %t", seed, got, others)
		}
	}
}

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
