package sim_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A link carries a client's requests to the engine: it delays them, loses them
// or their answers, turns them away, and stops the client dead. It repeats a
// request as the SDK would, only where the request's own retryer says so.
type link struct {
	w *world
	c *client
}

var _ dynamo.API = (*link)(nil)

// exchange is one call of the API. target tells apart requests that one caller
// sends at the same instant; ids are the bucket items that it may change.
func exchange[In, Out any](
	ctx context.Context, l *link, op string, in *In, options []func(*dynamodb.Options), target string, ids []bucketID,
	do func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error),
) (*Out, error) {
	var o dynamodb.Options
	for _, f := range options {
		f(&o)
	}
	from := callOf(ctx)
	if mangle := l.w.broken.mangle; mangle != nil && !l.c.reliable {
		mangle(in)
	}
	sent := l.w.now()
	d := l.w.stream(strings.Join([]string{l.c.name, from.name, op, target}, " "))
	for attempt := 1; ; attempt++ {
		r := d.stream(op, string(rune('0'+attempt)))
		out, err := attempted(ctx, l, write{sent: sent, client: l.c, call: from, op: op}, in, r, ids, do)
		if err == nil || o.Retryer == nil || attempt >= o.Retryer.MaxAttempts() || !o.Retryer.IsErrorRetryable(err) {
			return out, err
		}
		if !l.wait(ctx, span(r, 0, 25*time.Millisecond)) {
			return nil, operationError(op, &smithy.CanceledError{Err: ctx.Err()})
		}
	}
}

// attempted is one attempt at it.
func attempted[In, Out any](
	ctx context.Context, l *link, rec write, in *In, r *rand.Rand, ids []bucketID,
	do func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error),
) (*Out, error) {
	w, c, op, from := l.w, l.c, rec.op, rec.call
	if c.standsStill() {
		return nil, c.gone()
	}
	there, back, f, lands := w.odds.latency(r), w.odds.latency(r), w.odds.draw(r), chance(r, 0.5)
	calm := w.calm.Load() != nil
	if calm || c.reliable {
		f = arrives
	}
	if calm {
		there, back = time.Duration(1+r.IntN(500)), time.Duration(1+r.IntN(500))
	}
	failed := func(err error) (*Out, error) {
		if !l.wait(ctx, there+back) {
			err = &smithy.CanceledError{Err: ctx.Err()}
		}
		return nil, c.answer(operationError(op, err))
	}
	var out *Out
	var err error
	var recorded []*write
	arrive := func() {
		recorded, err = w.apply(context.WithoutCancel(ctx), ids, rec, func(ctx context.Context) (err error) {
			out, err = do(ctx, in)
			return err
		})
	}
	switch f {
	case isThrottled:
		from.met(w, ids, notApplied)
		return failed(errThrottled(r))
	case isConflict:
		return failed(errConflict())
	case isUnreachable:
		from.met(w, ids, notApplied)
		return failed(errUnreachable())
	case isLostBefore:
		from.met(w, ids, unknown)
		return failed(errLost(r))
	case crashesBefore, crashesAfter:
		if f == crashesAfter {
			time.Sleep(w.unique(there))
			arrive()
		}
		c.crash()
		return nil, c.gone()
	case hangsOn:
		there, back = time.Hour, 0
	case arrives, isLostAfter:
	}
	if !l.wait(ctx, there) || c.standsStill() {
		from.met(w, ids, unknown)
		if lands && c.standsStill() {
			arrive()
		} else if lands {
			w.late.Go(func() {
				time.Sleep(w.unique(span(r, time.Millisecond, 3*time.Second)))
				arrive()
			})
		}
		return nil, c.answer(operationError(op, &smithy.CanceledError{Err: ctx.Err()}))
	}
	arrive()
	if !l.wait(ctx, back) {
		from.met(w, ids, unknown)
		return nil, c.answer(operationError(op, &smithy.CanceledError{Err: ctx.Err()}))
	}
	if f == isLostAfter {
		from.met(w, ids, unknown)
		return nil, c.answer(operationError(op, errLost(r)))
	}
	if c.standsStill() {
		return nil, c.gone()
	}
	w.mu.Lock()
	for _, rec := range recorded {
		rec.answeredMS = c.clock().UnixMilli()
	}
	w.mu.Unlock()
	return out, err
}

// wait lets d pass; false if the context ended first.
func (l *link) wait(ctx context.Context, d time.Duration) bool {
	if l.w.broken.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	t := time.NewTimer(l.w.unique(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
