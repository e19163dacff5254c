package usage

import (
	"context"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// windows adds up hours by the query's windows. It yields those within the query's bounds.
func (q *Query) windows(of named, hours []hour, yield func(*schema.Usage)) {
	var u *schema.Usage
	for i := range hours { // in order of time
		start := q.Window.Start(diary.Start(hours[i].Hour))
		if !q.From.IsZero() && start.Before(q.From) || !q.To.IsZero() && !start.Before(q.To) {
			continue
		}
		if u != nil && !start.Equal(u.Start) {
			yield(u)
			u = nil
		}
		if u == nil {
			u = &schema.Usage{Entity: of.entity, Resource: of.resource, Window: q.Window.String(), Start: start}
		}
		for _, a := range hours[i].Amounts {
			if a.Limit == "" {
				u.Events += a.Milli
				continue
			}
			addTokens(u, a.Limit, big.NewInt(a.Milli))
		}
	}
	if u != nil {
		yield(u)
	}
}

// addTokens adds millitokens of a limit. It may keep the number.
func addTokens(u *schema.Usage, limit string, milli *big.Int) {
	i, there := slices.BinarySearchFunc(u.Tokens, limit, func(a schema.UsageAmount, limit string) int { return strings.Compare(a.Limit, limit) })
	if !there {
		u.Tokens = slices.Insert(u.Tokens, i, schema.UsageAmount{Limit: limit, Milli: milli})
		return
	}
	u.Tokens[i].Milli.Add(u.Tokens[i].Milli, milli)
}

// A newest reads the windows of hours in the order of [order], some at a time.
//
// Pages are in the order of entities, not of hours. So it reads all of a month for them,
// keeps the first ones in order, and reads the month again if more are wanted. It holds at
// most twice as many as it returns.
type newest struct {
	*reading
	after    *schema.Usage // the last window returned; nil at first
	most     int           // to return at a time
	from, to time.Time     // the months to read next
}

// scan returns the scan of the windows of hours. The first months that it reads are those
// in which a bucket may have been used lately.
func (r *reading) scan(after *schema.Usage, most int) *scan {
	top := r.conn.Clock.Now()
	if !r.q.To.IsZero() && !r.q.To.After(top) {
		top = r.q.To.Add(-1)
	}
	if after != nil && after.Start.Before(top) {
		top = after.Start
	}
	n := &newest{reading: r, after: after, most: most, from: Monthly.Start(top), to: endOfTime}
	return &scan{read: n.next}
}

// endOfTime is after every hour.
var endOfTime = time.Unix(1<<62, 0)

// next returns the next windows in order; done reports that there are no more.
func (n *newest) next(ctx context.Context) (next []schema.Usage, done bool, err error) {
	more := false // than next has, in the same months
	cut := func() {
		slices.SortFunc(next, func(a, b schema.Usage) int { return order(&a, &b) })
		if len(next) > n.most {
			next, more = next[:n.most], true
		}
	}
	older, err := n.walk(ctx, n.from, n.to, func(of named, hours []hour) {
		n.q.windows(of, hours, func(u *schema.Usage) {
			if n.after != nil && order(n.after, u) >= 0 {
				return
			}
			if next = append(next, *u); len(next) >= 2*n.most {
				cut()
			}
		})
	})
	if err != nil {
		return nil, false, err
	}
	cut()
	if more {
		n.after = &next[len(next)-1]
		return next, false, nil
	}
	n.from, n.to = older, n.from
	return next, older.IsZero(), nil
}
