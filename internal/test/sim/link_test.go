package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A link carries a client's requests to the engine. It delays them, loses them or their
// answers, refuses them, and stops the client dead. It repeats a request as the SDK would,
// but only if the request's own retryer allows it.
type link struct {
	w *world
	c *client
}

// api is the table behind the client's link.
func (c *client) api() dynamo.API {
	l := &link{c.w, c}
	return faults.Wrap(c.w.db, l.query, l.exchange)
}

// query notes which queries fail, which concern an unknown bucket, and which reads of several
// items.
func (l *link) query(ctx context.Context, q *faults.Call, next faults.Next) error {
	err := next(ctx)
	if err != nil && q.Op == faults.Query {
		l.c.callOf(ctx).met(l.w, []bucketID{{}}, notApplied)
	}
	if err != nil && q.Op == faults.BatchGetItem {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		l.c.unread = append(l.c.unread, l.w.now())
	}
	return err
}

// exchange carries one call of the API.
func (l *link) exchange(ctx context.Context, q *faults.Call, next faults.Next) error {
	var o dynamodb.Options
	for _, f := range q.Options {
		f(&o)
	}
	from := l.c.callOf(ctx)
	target, ids := subject(q)
	if mangle := l.w.broken.mangle; mangle != nil && !l.c.reliable {
		mangle(q.Input)
	}
	sent := l.begun(q, target)
	target = strings.ReplaceAll(target, l.w.ns, "") // looking up the namespace names its random id
	d := l.w.stream(strings.Join([]string{l.c.name, from.name, q.Op, target}, " "))
	if tx, ok := q.Input.(*dynamodb.TransactWriteItemsInput); ok && tx.ClientRequestToken == nil {
		named := *tx // as in the SDK's client, all attempts are one transaction
		named.ClientRequestToken = aws.String(strconv.FormatUint(d.hash("token"), 36))
		q.Input = &named
	}
	for attempt := 1; ; attempt++ {
		r := d.stream(q.Op, string(rune('0'+attempt)))
		err := l.attempt(ctx, q, write{sent: sent, client: l.c, call: from, op: q.Op}, r, ids, next)
		if err == nil || o.Retryer == nil || attempt >= o.Retryer.MaxAttempts() || !o.Retryer.IsErrorRetryable(err) {
			return err
		}
		if !l.wait(ctx, span(r, 0, 25*time.Millisecond)) {
			return operationError(q.Op, &smithy.CanceledError{Err: ctx.Err()})
		}
	}
}

// begun is when a call was sent first. A write whose answer was lost is sent again as it was decided then.
func (l *link) begun(q *faults.Call, target string) time.Duration {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	now := l.w.now()
	in, ok := q.Input.(*dynamodb.UpdateItemInput)
	if !ok || in.ExpressionAttributeValues[":q"] == nil {
		return now
	}
	id := fmt.Sprint(target, in.ExpressionAttributeNames["#q0"], number(in.ExpressionAttributeValues[":q"]), number(in.ExpressionAttributeValues[":born"]))
	first, again := l.c.begun[id]
	if !again {
		if l.c.begun == nil {
			l.c.begun = map[string]time.Duration{}
		}
		l.c.begun[id], first = now, now
	}
	return first
}

// attempt is one attempt at it. ids are the bucket items that the call may change, or, for
// a read, that it reads.
func (l *link) attempt(ctx context.Context, q *faults.Call, rec write, r *rand.Rand, ids []bucketID, next faults.Next) error {
	w, c, op, from := l.w, l.c, rec.op, rec.call
	if c.standsStill() {
		return c.gone()
	}
	there, back, f, lands := w.odds.latency(r), w.odds.latency(r), w.odds.draw(r), chance(r, 0.5)
	calm := w.calm.Load() != nil
	if calm || c.reliable {
		f = arrives
	}
	if c.burns() {
		f = pick(r, crashesBefore, crashesAfter)
	}
	if calm {
		there, back = time.Duration(1+r.IntN(500)), time.Duration(1+r.IntN(500))
	}
	reads := op == faults.GetItem || op == faults.BatchGetItem || op == faults.Query
	lost := unknown // the effect of a request without an answer
	if reads {
		lost = notApplied
	}
	failed := func(err error) error {
		if !l.wait(ctx, there+back) {
			err = &smithy.CanceledError{Err: ctx.Err()}
		}
		return c.answer(operationError(op, err))
	}
	var err error
	var recorded []*write
	var seen map[bucketID]sighting
	var answered time.Time
	arrive := func() {
		answered = time.Now()
		if !reads && w.isHot(ids) {
			err = errHot(r, op, len(ids))
			return
		}
		if reads {
			seen, err = w.look(context.WithoutCancel(ctx), ids, next)
			return
		}
		recorded, err = w.apply(context.WithoutCancel(ctx), ids, rec, next)
		if tx, ok := q.Input.(*dynamodb.TransactWriteItemsInput); ok && len(ids) > 0 {
			recorded = w.done(*tx.ClientRequestToken, recorded)
			if isRefusal(err) {
				seen = w.sight(ids) // the refused items' images; the other items add nothing
			}
		}
	}
	switch f {
	case isThrottled:
		from.met(w, ids, notApplied)
		if op == transacts {
			return failed(errCancelled(r, "ThrottlingError", len(ids)))
		}
		return failed(errThrottled(r))
	case isConflict:
		from.met(w, ids, notApplied)
		if op == transacts {
			return failed(errCancelled(r, "TransactionConflict", len(ids)))
		}
		return failed(errConflict())
	case isUnreachable:
		from.met(w, ids, notApplied)
		return failed(errUnreachable())
	case isLostBefore:
		from.met(w, ids, lost)
		return failed(errLost(r))
	case crashesBefore, crashesAfter:
		if f == crashesAfter {
			time.Sleep(w.unique(there))
			arrive()
		}
		c.crash()
		return c.gone()
	case hangsOn:
		there, back = time.Hour, 0
	case arrives, isLostAfter:
	}
	if !l.wait(ctx, there) || c.standsStill() {
		from.met(w, ids, lost)
		if lands && c.standsStill() {
			arrive()
		} else if lands {
			w.late.Go(func() {
				time.Sleep(w.unique(span(r, time.Millisecond, 3*time.Second)))
				arrive()
			})
		}
		return c.answer(operationError(op, &smithy.CanceledError{Err: ctx.Err()}))
	}
	arrive()
	if !l.wait(ctx, back) {
		from.met(w, ids, lost)
		return c.answer(operationError(op, &smithy.CanceledError{Err: ctx.Err()}))
	}
	if f == isLostAfter {
		from.met(w, ids, lost)
		return c.answer(operationError(op, errLost(r)))
	}
	if c.standsStill() {
		return c.gone()
	}
	if isThrottle(err) {
		from.met(w, ids, notApplied)
		err = operationError(op, err)
	}
	c.see(w, from, recorded, seen)
	if c.dated && !calm {
		err = w.date(q.Output, err, answered) //nolint:contextcheck // it builds a header
		c.isTold(rec.sent)
	}
	return err
}

// wait lets d pass; false if the context ends first.
func (l *link) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(l.w.unique(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
