package process

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Send carries out a write to a shard and records its answer. at is when the write was
// worked out.
func (p *Process) Send(ctx context.Context, acct *memory.Account, b store.Bucket, use memory.StampUse, at memory.Moment, write func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	sent := acct.BeginWrite(b.Shard, use, p.Uptime())
	out, err := write(ctx)
	p.Record(ctx, acct, b, sent, at, out, err)
	return out, Unanswered(err)
}

// Record records the answer to a write to a shard that was begun with
// [memory.Account.BeginWrite].
func (p *Process) Record(ctx context.Context, acct *memory.Account, b store.Bucket, sent memory.SentWrite, at memory.Moment, out store.Outcome, err error) {
	acct.EndWrite(sent, out, err, p.Moment(), p.Rand)
	if out.Image != nil {
		for _, back := range acct.TakeLanded(out.Image) {
			p.Counts.Reclaimed.Add(1)
			p.InBackground(back)
		}
	}
	p.answered(ctx, acct, b, err, at.Up)
	if err == nil {
		p.learn(acct, b, out, at)
	}
}

// SendJoint carries out a write to several shards and records its answer. after returns
// a shard as the write leaves it, nil if the write deletes it. SendJoint remembers no
// image, because the state of the shards may follow only from several of them.
func (p *Process) SendJoint(ctx context.Context, acct *memory.Account, of []store.Bucket, after func(i int) *store.Image, at memory.Moment, write func(context.Context) (store.Joint, error)) (store.Joint, error) {
	sent := make([]memory.SentWrite, len(of))
	for i, b := range of {
		sent[i] = acct.BeginWrite(b.Shard, memory.StampUse{Moves: true}, p.Uptime())
	}
	joint, err := write(ctx)
	for i := range sent {
		out := store.Outcome{Applied: joint.Applied}
		if joint.Applied {
			out.Image = after(i)
		} else if i < len(joint.Refusals) {
			out.Image = joint.Refusals[i].Image
		}
		acct.EndWrite(sent[i], out, err, p.Moment(), p.Rand)
	}
	p.noteThrottled(ctx, acct, of, joint, err, at.Up)
	return joint, Unanswered(err)
}

// An unansweredError is that of a write to a bucket that may have been applied.
type unansweredError struct{ error }

// Unwrap returns the error of the store.
func (e *unansweredError) Unwrap() error { return e.error }

// Unanswered marks the error of a write to a bucket, if the write may have been applied, and what it took
// will not be returned. A store that throttled it has not applied it, and one to which there was no connection has not had it.
func Unanswered(err error) error {
	if !isLost(err) {
		return err
	}
	return &unansweredError{err}
}

// MayHaveLanded reports whether a call failed because of a write to a bucket that may have been
// applied. What one took that has a sequence is returned if so, and does not count here.
func MayHaveLanded(err error) bool {
	_, is := errors.AsType[*unansweredError](err)
	return is
}

// answered records the result of a write to a shard: a throttle pulls the shard's
// brake, an answer eases it.
func (p *Process) answered(ctx context.Context, acct *memory.Account, b store.Bucket, err error, sent time.Duration) {
	if err == nil {
		acct.EaseBrake(b.Shard)
		return
	}
	if !errors.Is(err, store.ErrThrottled) {
		return
	}
	p.Counts.Throttled.Add(1)
	acct.PullBrake(b.Shard, sent, p.Uptime(), p.Rand)
	p.noteHotPartition(ctx, acct, b, err)
}

// noteThrottled records which items of a transaction were throttled, if any.
func (p *Process) noteThrottled(ctx context.Context, acct *memory.Account, of []store.Bucket, joint store.Joint, err error, sent time.Duration) {
	if throttled := slices.ContainsFunc(joint.Refusals, func(r store.Refusal) bool { return r.Throttled }); !throttled && !errors.Is(err, store.ErrThrottled) {
		return
	}
	p.Counts.Throttled.Add(1)
	for i, r := range joint.Refusals {
		if r.Throttled {
			acct.PullBrake(of[i].Shard, sent, p.Uptime(), p.Rand)
		}
	}
	p.noteHotPartition(ctx, acct, of[0], err)
}

// noteHotPartition reports a bucket if more shards help: the partition of one of its items throttles,
// and the item is busy (ADR 043).
func (p *Process) noteHotPartition(ctx context.Context, acct *memory.Account, b store.Bucket, err error) {
	if errors.Is(err, store.ErrHotPartition) && acct.IsOverloaded(b.Shard, p.Uptime()) {
		p.OnHotPartition(ctx, acct, b)
	}
}

// learn remembers the image of an outcome, or forgets the bucket if the outcome shows
// that it does not exist.
func (p *Process) learn(acct *memory.Account, b store.Bucket, out store.Outcome, at memory.Moment) {
	if out.Image == nil {
		acct.Forget(b.Shard)
		return
	}
	if ahead := out.Image.RefilledAt - at.Now; ahead > plan.MaxSkew.Milliseconds() {
		p.Logger.Warn("bucket is stamped ahead of the clock", "entity", b.Entity, "resource", b.Resource,
			"shard", b.Shard, "ahead_ms", ahead)
	}
	acct.Remember(out.Image, at)
}
