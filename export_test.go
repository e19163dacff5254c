package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// Settle waits for work that goes on after calls have returned. It polls so often that
// the clock of a bubble hardly moves.
func (l *Limiter) Settle() {
	const most = 256 * time.Microsecond
	for d := time.Microsecond; l.driver.UnderWay() > 0; d = min(2*d, most) {
		time.Sleep(d)
	}
}

// DoubleNow doubles the number of shards of a bucket.
func (l *Limiter) DoubleNow(ctx context.Context, entity, resource string) {
	b := Bucket{Entity: entity, Resource: resource}
	_, _ = l.driver.Upkeep.Double(ctx, l.driver.Memory(b), b, l.driver.Memory(b).ShardCount(), nil)
}

// The methods below do the upkeep of internal/upkeep with the limiter's own memory.

func (l *Limiter) Shards(ctx context.Context, b Bucket) ([]*store.Image, error) {
	return inTime(ctx, l, func(ctx context.Context) ([]*store.Image, error) {
		return l.driver.Upkeep.ReadShards(ctx, l.driver.Memory(b), b)
	})
}

func (l *Limiter) Merge(ctx context.Context, images []*store.Image) (bool, error) {
	if len(images) == 0 {
		return false, l.driver.ClosedFor("merge")
	}
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.driver.Upkeep.Merge(ctx, l.driver.Memory(images[0].Bucket), images)
	})
}

func (l *Limiter) Mend(ctx context.Context, b Bucket) error {
	_, err := inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.driver.Upkeep.Mend(ctx, l.driver.Memory(b), b, nil)
	})
	return err
}

func (l *Limiter) Double(ctx context.Context, img *store.Image, at time.Time) (bool, error) {
	acct := l.driver.Memory(img.Bucket)
	if !l.driver.Upkeep.ShouldDouble(acct, img, at) {
		return false, l.driver.ClosedFor("double")
	}
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.driver.Upkeep.Double(ctx, acct, img.Bucket, img.ShardCount, nil)
	})
}

func (l *Limiter) Replenish(ctx context.Context, img *store.Image, amounts []store.Amount, writes int64) (bool, error) {
	acct := l.driver.Memory(img.Bucket)
	if acct.IsBraked(img.Shard, l.driver.Uptime()) {
		return false, l.driver.ClosedFor("replenish")
	}
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.driver.Upkeep.Replenish(ctx, acct, img, amounts, writes)
	})
}

func (l *Limiter) Configure(ctx context.Context, b Bucket) (bool, error) {
	return inTime(ctx, l, func(ctx context.Context) (bool, error) {
		return l.driver.Upkeep.Configure(ctx, l.driver.Memory(b), b)
	})
}

func inTime[T any](ctx context.Context, l *Limiter, work func(context.Context) (T, error)) (T, error) {
	return process.InTime(ctx, l.driver.Process, "upkeep", work)
}

// RefusesFromMemory returns the decision of a refusal from memory.
func (l *Limiter) RefusesFromMemory(req *Request) bool {
	asked := req.asked(0)
	_, refuses, _ := l.driver.RefusesFromMemory(&asked, &asked, l.driver.Moment(), l.driver.Trust())
	return refuses
}

// Share makes a limiter find, by the items' counts, that others write to shards of a
// bucket too. It leaves the limiter without a pause.
func (l *Limiter) Share(b Bucket, shards int) {
	const noPause = -milli / 2 // the jitter that it makes is 0
	acct := l.driver.Memory(b)
	for i := range shards {
		for _, count := range [...]int64{1, 10, 11} {
			out := store.Outcome{Applied: true, Image: &store.Image{Writes: store.LimitState{Consumed: count * plan.WriteCost}}}
			m := l.driver.Moment()
			acct.EndWrite(acct.BeginWrite(i, memory.StampUse{}, m.Up), out, nil, m, func(int64) int64 { return noPause })
		}
	}
}

// IsShared reports whether a limiter knows that others write to a bucket too.
func (l *Limiter) IsShared(b Bucket) bool {
	return l.driver.Memory(b).IsShared(l.driver.Uptime())
}

// IsBehind reports whether an image is an earlier one of the same item.
func IsBehind(i, other *store.Image) bool { return plan.IsBehind(i, other) }
