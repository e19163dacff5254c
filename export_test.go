package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Settle waits for work that goes on after calls have returned. It polls so often that
// the clock of a bubble hardly moves.
func (l *Limiter) Settle() {
	const most = 256 * time.Microsecond
	for d := time.Microsecond; l.underWay.UnderWay() > 0; d = min(2*d, most) {
		time.Sleep(d)
	}
}

// Widen doubles the number of shards of a bucket.
func (l *Limiter) Widen(ctx context.Context, entity, resource string) {
	acct := l.account(entity, resource)
	_, _ = l.widen(ctx, &acct.Account, Bucket{Entity: entity, Resource: resource}, acct.ShardCount(), nil)
}

// Hopeless returns the decision of a refusal from memory.
func (l *Limiter) Hopeless(req *Request) bool {
	_, hopeless := l.isHopeless(req, l.moment())
	return hopeless
}

// Share makes a limiter find, by the items' counts, that others write to shards of a
// bucket too. It leaves the limiter without a pause.
func (l *Limiter) Share(b Bucket, shards int) {
	const noPause = -milli / 2 // the jitter that it makes is 0
	acct := l.account(b.Entity, b.Resource)
	for i := range shards {
		for _, count := range [...]int64{1, 10, 11} {
			out := store.Outcome{Applied: true, Image: &store.Image{Writes: store.LimitState{Consumed: count * plan.WriteCost}}}
			acct.EndWrite(acct.BeginWrite(i, memory.StampUse{}, l.uptime()), out, nil, l.moment(), func(int64) int64 { return noPause })
		}
	}
}

// IsShared reports whether a limiter knows that others write to a bucket too.
func (l *Limiter) IsShared(b Bucket) bool {
	return l.account(b.Entity, b.Resource).IsShared(l.uptime())
}

// IsBehind reports whether an image is an earlier one of the same item.
func IsBehind(i, other *store.Image) bool { return plan.IsBehind(i, other) }
