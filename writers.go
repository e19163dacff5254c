package limiter

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

// send carries out a write to a shard and records its answer. at is when the write was
// worked out.
func (l *Limiter) send(ctx context.Context, acct *memory.Account, b Bucket, use memory.StampUse, at memory.Moment, write func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	sent := acct.BeginWrite(b.Shard, use, l.uptime())
	out, err := write(ctx)
	acct.EndWrite(sent, out, err, l.moment(), l.rand)
	l.answered(ctx, acct, b, err, at.Up)
	if err == nil {
		l.learn(acct, b, out, at)
	}
	return out, err
}

// sendJoint carries out a write to several shards and records its answer. after returns
// a shard as the write leaves it, nil if the write deletes it. sendJoint remembers no
// image, because the state of the shards may follow only from several of them.
func (l *Limiter) sendJoint(ctx context.Context, acct *memory.Account, of []Bucket, after func(i int) *store.Image, at memory.Moment, write func(context.Context) (store.Joint, error)) (store.Joint, error) {
	sent := make([]memory.SentWrite, len(of))
	for i, b := range of {
		sent[i] = acct.BeginWrite(b.Shard, memory.StampUse{Moves: true}, l.uptime())
	}
	joint, err := write(ctx)
	for i := range sent {
		out := store.Outcome{Applied: joint.Applied}
		if joint.Applied {
			out.Image = after(i)
		} else if i < len(joint.Refusals) {
			out.Image = joint.Refusals[i].Image
		}
		acct.EndWrite(sent[i], out, err, l.moment(), l.rand)
	}
	l.turnedAway(ctx, acct, joint, err, at.Up, func(i int) Bucket { return of[i] })
	return joint, err
}
