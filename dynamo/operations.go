package dynamo

import (
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Operations that several writes to bucket items have in common.
//
// DynamoDB accepts 4 KB for an expression, and 300 operators and functions. Every write
// stays within both for [store.MaxLimits] limits, whatever their names: a limit needs
// at most eight operators of a condition, and its aliases are two or three characters
// long. That also holds for a write that replaces all limits by as many others.

// stateSK is the sort key of every bucket item.
var stateSK = schema.S(schema.StateSK)

// debitWrite debits the hidden write limit, as every write to a bucket item does: every
// write loads the item's partition. It returns the cost of the write.
func debitWrite(w *expression.Write) expression.Value {
	cost := w.Number(":x", schema.WCUCost)
	w.Add(expression.WriteTokens, w.Number(":w", -schema.WCUCost))
	w.Add(expression.WriteConsumed, cost)
	return cost
}

// requireShardCount pins the number of shards, on which every share depends.
func requireShardCount(w *expression.Write, n int) {
	seen := w.Number(":sc", int64(n))
	if n == 1 {
		w.Require(expression.ShardCount.AbsentOrEquals(seen))
		return
	}
	w.Require(expression.ShardCount.Equals(seen))
}

// parameters are parameters of a limit as values of a write.
type parameters struct{ capacity, amount, period expression.Value }

// requireValidity requires that an item is valid until the instant seen. Parameters are that
// of their calendars, too, and an edit of a schedule moves ValidUntil. So it says that the
// calendars are those seen.
func requireValidity(w *expression.Write, seen *store.Image) {
	if seen.HasValidUntil {
		w.Require(expression.ValidUntil.Equals(w.Number(":vu", seen.ValidUntil)))
	} else {
		w.Require(expression.ValidUntil.Absent())
	}
}

// newParameters gives the parameters from which the write was calculated, or those that
// it sets.
func newParameters(l expression.Limit, p *store.Params) parameters {
	return parameters{l.Number('p', p.Capacity), l.Number('q', p.Amount), l.Number('r', p.Period)}
}

// seenParameters gives the parameters of a limit that the write may be about to change.
func seenParameters(l expression.Limit, p *store.Params) parameters {
	return parameters{l.Number('s', p.Capacity), l.Number('t', p.Amount), l.Number('u', p.Period)}
}

// set sets the parameters of a limit.
func (p *parameters) set(w *expression.Write, l expression.Limit) {
	w.Set(l.Capacity(), p.capacity)
	w.Set(l.Amount(), p.amount)
	w.Set(l.Period(), p.period)
}

// require requires that a limit has the parameters.
func (p *parameters) require(w *expression.Write, l expression.Limit) {
	w.Require(l.Capacity().Equals(p.capacity))
	w.Require(l.Amount().Equals(p.amount))
	w.Require(l.Period().Equals(p.period))
}
