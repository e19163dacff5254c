package acquire_test

import (
	"context"
	"reflect"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// hooks are what tests do to the driver of a limiter.
type hooks struct{ *acquire.Driver }

// driverOf returns the driver of a limiter, which has it in an unexported field.
func driverOf(l *limiter.Limiter) hooks {
	return hooks{(*acquire.Driver)(reflect.ValueOf(l).Elem().FieldByName("driver").UnsafePointer())}
}

// Settle waits for work that goes on after calls have returned. It polls so often that
// the clock of a bubble hardly moves.
func (l hooks) Settle() {
	const most = 256 * time.Microsecond
	for d := time.Microsecond; l.UnderWay() > 0; d = min(2*d, most) {
		time.Sleep(d)
	}
}

// DoubleNow doubles the number of shards of a bucket.
func (l hooks) DoubleNow(ctx context.Context, entity, resource string) {
	b := limiter.Bucket{Entity: entity, Resource: resource}
	_, _ = l.Upkeep.Double(ctx, l.Memory(b), b, l.Memory(b).ShardCount(), nil)
}

// The methods below do the upkeep of package upkeep with the limiter's own memory.

func (l hooks) Shards(ctx context.Context, b limiter.Bucket) ([]*store.Image, error) {
	return inTime(ctx, l, func(ctx context.Context) ([]*store.Image, error) {
		return l.Upkeep.ReadShards(ctx, l.Memory(b), b)
	})
}

func (l hooks) Merge(ctx context.Context, images []*store.Image) (bool, error) {
	if len(images) == 0 {
		return false, l.ClosedFor("merge")
	}
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.Upkeep.Merge(ctx, l.Memory(images[0].Bucket), images)
	})
}

func (l hooks) Mend(ctx context.Context, b limiter.Bucket) error {
	_, err := inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.Upkeep.Mend(ctx, l.Memory(b), b, nil)
	})
	return err
}

func (l hooks) Double(ctx context.Context, img *store.Image, at time.Time) (bool, error) {
	acct := l.Memory(img.Bucket)
	if !l.Upkeep.ShouldDouble(acct, img, at) {
		return false, l.ClosedFor("double")
	}
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.Upkeep.Double(ctx, acct, img.Bucket, img.ShardCount, nil)
	})
}

func (l hooks) Replenish(ctx context.Context, img *store.Image, amounts []store.Amount, writes int64) (bool, error) {
	acct := l.Memory(img.Bucket)
	if acct.IsBraked(img.Shard, l.Uptime()) {
		return false, l.ClosedFor("replenish")
	}
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.Upkeep.Replenish(ctx, acct, img, amounts, writes)
	})
}

func (l hooks) Configure(ctx context.Context, b limiter.Bucket) (bool, error) {
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.Upkeep.Configure(ctx, l.Memory(b), b)
	})
}

func inTime[T any](ctx context.Context, l hooks, work func(context.Context) (T, error)) (T, error) {
	return process.InTime(ctx, l.Process, "upkeep", work)
}

// RefusesFromMemory returns the decision of a refusal from memory.
func (l hooks) RefusesFromMemory(req *limiter.Request) bool {
	asked := acquire.Request{Entity: req.Entity, Resource: req.Resource, Consume: req.Consume, Fallback: req.Fallback, At: l.Moment()}
	var room [2][1]*store.Image
	_, refuses, _ := l.Recall(&room, &asked, &asked, l.Trust())
	return refuses
}

// Share makes a limiter find, by the items' counts, that others write to shards of a
// bucket too. It leaves the limiter without a pause.
func (l hooks) Share(b limiter.Bucket, shards int) {
	const noPause = -500 // the jitter that it makes is 0
	acct := l.Memory(b)
	for i := range shards {
		for _, count := range [...]int64{1, 10, 11} {
			out := store.Outcome{Applied: true, Image: &store.Image{Writes: store.LimitState{Consumed: count * plan.WriteCost}}}
			m := l.Moment()
			acct.EndWrite(acct.BeginWrite(i, memory.StampUse{}, m.Up), out, nil, m, func(int64) int64 { return noPause })
		}
	}
}

// IsShared reports whether a limiter knows that others write to a bucket too.
func (l hooks) IsShared(b limiter.Bucket) bool {
	return l.Memory(b).IsShared(l.Uptime())
}
