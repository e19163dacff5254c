package limiter

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// verdict returns the refusal that follows from both claims, if any.
func verdict(child, parent *acquire.Claim, up time.Duration) error {
	if unknown := unknownToAll(child, parent); len(unknown) > 0 {
		return child.Terms.Target.NotConfigured(&child.Bucket, unknown)
	}
	if !child.Refused && (parent == nil || !parent.Refused) {
		return nil
	}
	// The limiter decided the two sides at different instants; the wait counts from the
	// later one.
	sides := slices.DeleteFunc([]*acquire.Claim{child, parent}, func(c *acquire.Claim) bool { return c == nil || !c.Granted && !c.Refused && !c.Looked })
	e := &ExceededError{}
	at := max(decidedAt(sides[0]), decidedAt(sides[len(sides)-1]))
	for _, c := range sides {
		e.Statuses = append(e.Statuses, asBefore(c, at, up)...)
	}
	if !slices.ContainsFunc(e.Statuses, func(s Status) bool { return s.Exceeded }) {
		e.Statuses = nil // the limits that refused one side have since earned enough
		for _, c := range sides {
			e.Statuses = append(e.Statuses, asBefore(c, c.At, up)...)
		}
	}
	return e
}

// unknownToAll returns the limits of the request that neither side has. A parent that
// was not asked may have them all.
func unknownToAll(child, parent *acquire.Claim) []string {
	switch {
	case parent == nil && child.Parent != "":
		return nil
	case parent == nil:
		return child.Terms.Unknown
	}
	return slices.DeleteFunc(slices.Clone(child.Terms.Unknown), func(name string) bool { return !slices.Contains(parent.Terms.Unknown, name) })
}

// decidedAt is the instant for which a claim was decided; 0 if it was only looked at.
func decidedAt(c *acquire.Claim) int64 {
	if c.Looked {
		return 0
	}
	return c.At
}

// asBefore returns the status of every limit of a claim at an instant, as if the claim
// had not been debited. A claim that was only looked at keeps its own instant.
func asBefore(c *acquire.Claim, at int64, up time.Duration) []Status {
	if c.Looked {
		at = c.At
	}
	statuses := statusesOf(c, c.Shards(up), at)
	if !c.Granted {
		return statuses
	}
	for i := range statuses {
		statuses[i].Available += statuses[i].Requested
	}
	return statuses
}

// statusesOf returns the status of each limit of the claim on the shards of a bucket,
// by number. The amounts may be debited already, or not. A nil shard is missing and
// will open empty. If the claim was granted, a nil shard was only not read: statusesOf
// assumes that it holds as much as the others.
func statusesOf(c *acquire.Claim, shards []*store.Image, now int64) []Status {
	statuses := make([]Status, 0, len(c.Terms.Amounts))
	for k, a := range c.Terms.Amounts {
		var behind int64
		if c.Behind != nil {
			behind = c.Behind[k]
		}
		statuses = appendStatus(statuses, c, a, behind, shards, now)
	}
	return statuses
}

// appendStatus appends the status of one limit, if the bucket has or is to have it.
// behind is the amount that later callers took of the limit in the same write.
func appendStatus(statuses []Status, c *acquire.Claim, a store.Amount, behind int64, shards []*store.Image, now int64) []Status {
	var room [1]plan.Holding
	params, parts := c.Terms.Holdings(room[:0], a.Limit, shards, now)
	if len(parts) == 0 {
		return statuses
	}
	held, unseen := plan.Balance(parts, now), plan.MissingOf(shards)
	if c.Granted && len(unseen) > 0 {
		count := int64(len(shards))
		held = max(held/(count-int64(len(unseen))), math.MinInt64/count) * count // saturates a debt at 64 bits
	}
	st := Status{
		Entity: c.Entity, Resource: c.Resource, Limit: limitOf(params, a.Limit),
		Available: floorDiv(held+behind, milli), Requested: a.Milli / milli,
	}
	if !c.Granted && a.Milli > 0 {
		for _, i := range unseen {
			parts = append(parts, plan.Holding{Limit: plan.Share(params, i, len(shards)), At: now})
		}
		st.RetryAfter = plan.WaitFor(parts, now, a.Milli)
		st.Exceeded = st.RetryAfter > 0
	}
	return append(statuses, st)
}

// limitOf is p as users see it: whole tokens, and whole seconds where the stored values
// are whole.
func limitOf(p store.Params, name string) Limit {
	return Limit{
		Name: name, Capacity: max(1, p.Capacity/milli), Amount: p.Amount / milli,
		Period: time.Duration(p.Period) * time.Millisecond,
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
