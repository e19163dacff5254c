package sim_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// ofCommand returns the writes of an operator's command and the record of its key; nil if a
// request is something else.
func ofCommand(request any) (writes []types.TransactWriteItem, record item) {
	in, ok := request.(*dynamodb.TransactWriteItemsInput)
	if !ok {
		return nil, nil
	}
	for _, w := range in.TransactItems {
		if w.Put != nil && strings.HasPrefix(text(w.Put.Item["SK"]), schema.OperationPrefix) {
			return in.TransactItems, w.Put.Item
		}
	}
	return nil, nil
}

// forgetsCommands keeps the record of a command where nobody looks for it.
func forgetsCommands(request any) {
	if _, record := ofCommand(request); record != nil {
		record["SK"] = schema.S(text(record["SK"]) + "-" + text(record[schema.OperationWriter]))
	}
}

// doublesCommands gives twice what a command says.
func doublesCommands(request any) {
	writes, record := ofCommand(request)
	if record == nil {
		return
	}
	asked, ok := record[schema.OperationAsked].(*types.AttributeValueMemberM)
	if !ok {
		return
	}
	for _, amount := range asked.Value {
		milli := number(amount) * 1000
		for _, w := range writes {
			if w.Update == nil {
				continue
			}
			for name, v := range w.Update.ExpressionAttributeValues {
				if milli != 0 && number(v) == milli {
					w.Update.ExpressionAttributeValues[name] = schema.N(2 * milli)
				}
			}
		}
	}
}

// keepsTopUps carries what was added to a quota into its next period.
type keepsTopUps struct{ limiter.Store }

func (s keepsTopUps) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	kept := *r
	kept.Changes = slices.Clone(r.Changes)
	for i := range kept.Changes {
		ch := &kept.Changes[i]
		if l, _ := r.Seen.Limit(ch.Limit); ch.Kind == store.KeepParams && l.Granted().TopUp != 0 && edge(r.Seen) <= r.RefilledAt {
			ch.Renews = false
			ch.Earned += l.Granted().TopUp
			ch.AtLeast, ch.AtMost = l.Tokens, l.Tokens
		}
	}
	return s.Store.Refill(ctx, &kept)
}

// untimely credits what limits with timetables would earn without them. cuts has it know
// their capacities.
type untimely struct {
	limiter.Store

	cuts bool
}

func (s untimely) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if r.FullSince != 0 || r.Seen.ShardCount != 1 {
		return s.Store.Refill(ctx, r)
	}
	plain := *r
	plain.Changes = slices.Clone(r.Changes)
	for i := range plain.Changes {
		ch := &plain.Changes[i]
		l, ok := r.Seen.Limit(ch.Limit)
		if !ok || l.Varies == nil || ch.Kind != store.KeepParams {
			continue
		}
		is := level{params: params{l.Capacity, l.Amount, l.Period}, varies: timetableBy(l.Varies)}
		most := is.cp
		if s.cuts {
			most = is.of(0, 1).in(r.RefilledAt).cp
		}
		ch.Earned = min(most-l.Tokens, is.accrued(r.Seen.RefilledAt, r.RefilledAt))
		ch.AtLeast, ch.AtMost = l.Tokens, l.Tokens
	}
	return s.Store.Refill(ctx, &plain)
}

// TestLongestBrokenPiecesAreSeen: each law about timetables, resets and top-ups fails when its
// subject is broken.
func TestLongestBrokenPiecesAreSeen(t *testing.T) {
	t.Parallel()
	varied := odds{varied: beforeEdge}
	granted := odds{quotas: beforeEdge, granted: true}
	for name, c := range map[string]struct {
		odds    odds
		promise string
		text    string
		broken  breakage
	}{
		"carries a command out again":        {granted, "once", "was carried out at", breakage{mangle: forgetsCommands}},
		"gives twice what a command says":    {granted, "once", "were to be given", breakage{mangle: doublesCommands}},
		"carries a top-up into a period":     {granted, "P11", "in the period until", breakage{store: func(s limiter.Store) limiter.Store { return keepsTopUps{s} }}},
		"has the capacity of another piece":  {varied, "P1", "in 1 pieces", breakage{store: func(s limiter.Store) limiter.Store { return untimely{s, false} }}},
		"earns by the rate of another piece": {varied, "P1", "in 1 pieces", breakage{store: func(s limiter.Store) limiter.Store { return untimely{s, true} }}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported(t, c.promise, c.text, c.odds, c.broken)
		})
	}
}
