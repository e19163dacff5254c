package limiter

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
)

// Available returns the status of every limit that the request names: the balance,
// and whether and how long the request would have to wait now. The entity's limits
// come first and then, if the entity cascades, its parent's, for each resource. An entity
// that never acquired has its configured capacity.
//
// A bucket that still has former limits gets the new ones from the next acquire, also from one
// that is refused. Waits count from that acquire.
//
// All balances and waits are those of one instant, [Status.CheckedAt]. If the request would
// have to wait for a bucket that uses a feature of a peer which this version cannot evaluate, the
// answer is [ErrUnsupported], as that of an acquire.
//
// Available takes nothing. It writes only if a bucket's stamp lies far ahead of the
// clock: then it moves the stamp back.
//
// It returns by its context's deadline and within [Options.Timeout], with
// [ErrUnavailable].
func (l *Limiter) Available(ctx context.Context, req Request) ([]Status, error) {
	ctx, seen := l.observe(ctx, Call{CallAvailable, req.Entity, req.Resource})
	statuses, err := l.ask(ctx, req)
	seen.endOther(ctx, nil, err)
	return statuses, err
}

// ask returns the status of every limit that a request names, within the time of a call.
func (l *Limiter) ask(ctx context.Context, req Request) ([]Status, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	req = req.clone()
	return process.InTime(ctx, l.driver.Process, req.op("ask for the balance of"), func(ctx context.Context) ([]Status, error) { return l.stand(ctx, &req) })
}

// stand returns the status of every limit that a request names.
func (l *Limiter) stand(ctx context.Context, req *Request) ([]Status, error) {
	asked := asks(req)
	parts := l.driver.Inspector.Look(ctx, &asked)
	if err := outcome(parts, l.driver.Uptime()); err != nil {
		return nil, err
	}
	var claims []*acquire.Claim
	var at int64
	for i := range parts {
		for _, c := range [...]*acquire.Claim{parts[i].Child, parts[i].Parent} {
			if c != nil {
				claims, at = append(claims, c), max(at, c.At)
			}
		}
	}
	var statuses []Status
	for _, c := range claims {
		of := statusesOf(c, c.Shards(0), at)
		if err := c.Obstacle(at, isExceeded(of)); err != nil {
			return nil, err
		}
		statuses = append(statuses, of...)
	}
	for i := range statuses {
		statuses[i].CheckedAt = time.UnixMilli(at).UTC()
	}
	return statuses, nil
}

func isExceeded(statuses []Status) bool {
	return slices.ContainsFunc(statuses, func(s Status) bool { return s.Exceeded })
}

// TimeUntilAvailable returns the smallest wait after which the limiter admits the
// request if nobody else consumes, to the millisecond. It is 0 if the limiter would
// admit the request now, and [Never] if the request asks for more than a limit's
// capacity. It writes under the same condition as [Limiter.Available].
func (l *Limiter) TimeUntilAvailable(ctx context.Context, req Request) (time.Duration, error) {
	statuses, err := l.Available(ctx, req)
	if err != nil {
		return 0, err
	}
	return longestWait(statuses), nil
}
