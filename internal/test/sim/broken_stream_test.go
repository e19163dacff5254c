package sim_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// bookkeeper changes what is counted, and may hide failures.
type bookkeeper struct {
	aggregator.Usage

	change func(*usage.Delta)
	hush   bool // reports no failure
}

func (b bookkeeper) Add(ctx context.Context, d *usage.Delta) error {
	changed := *d
	changed.Steps = slices.Clone(d.Steps)
	if b.change != nil {
		b.change(&changed)
	}
	err := b.Usage.Add(ctx, &changed)
	if b.hush {
		return nil
	}
	return err
}

// unconditional counts everything, even twice.
func unconditional(request any) {
	in, ok := usageUpdate(request)
	if !ok {
		return
	}
	in.ConditionExpression = nil
	maps.DeleteFunc(in.ExpressionAttributeValues, func(name string, _ types.AttributeValue) bool { return name[1] == 'F' })
}

func usageUpdate(request any) (*dynamodb.UpdateItemInput, bool) {
	in, ok := request.(*dynamodb.UpdateItemInput)
	return in, ok && strings.HasPrefix(text(in.Key["SK"]), "#USAGE#")
}

// ahead makes a follower's checkpoint point past its real position.
func ahead(request any) {
	in, ok := request.(*dynamodb.PutItemInput)
	if !ok || !strings.HasPrefix(text(in.Item["SK"]), "#SHARD#") {
		return
	}
	const further = 10_000 // about a hundred records
	place, err := strconv.ParseUint(text(in.Item["sequence"]), 10, 64)
	must(err)
	in.Item["sequence"] = &types.AttributeValueMemberS{Value: fmt.Sprintf("%021d", place+further)}
}

// A tender changes what an aggregator's limiter writes.
type tender struct {
	limiter.Store

	change func(*store.Refill)
}

func (s tender) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	changed := *r
	changed.Changes = slices.Clone(r.Changes)
	s.change(&changed)
	return s.Store.Refill(ctx, &changed)
}

// TestLongBrokenAggregatorsAreSeen: each check of aggregators fails when its subject is broken.
func TestLongBrokenAggregatorsAreSeen(t *testing.T) {
	t.Parallel()
	one := odds{followers: 1}
	wild := odds{followers: 1, throttled: 0.05, lostBefore: 0.02, lostAfter: 0.05, hangs: 0.01}
	counting := func(change func(*usage.Delta)) breakage {
		return breakage{usage: func(u aggregator.Usage) aggregator.Usage { return bookkeeper{Usage: u, change: change} }}
	}
	tending := func(f func(limiter.Store) limiter.Store) breakage { return breakage{tender: f} }
	for _, c := range []struct {
		name    string
		promise string
		odds    odds
		broken  breakage
	}{
		{"batches count twice", "usage", one, breakage{mangle: unconditional}},
		{"a lost answer counts twice", "usage", odds{lostAfter: 0.1, followers: 1}, breakage{mangle: unconditional}},
		{"what failed is forgotten", "usage", wild, breakage{usage: func(u aggregator.Usage) aggregator.Usage { return bookkeeper{Usage: u, hush: true} }}},
		{"returns are not counted", "usage", one, counting(func(d *usage.Delta) {
			for i := range d.Steps {
				d.Steps[i].Tokens = slices.DeleteFunc(slices.Clone(d.Steps[i].Tokens), func(a store.Amount) bool { return a.Milli < 0 })
			}
		})},
		{"limits count as events", "usage", one, counting(func(d *usage.Delta) {
			for i := range d.Steps {
				d.Steps[i].Events *= int64(len(d.Steps[i].Tokens))
			}
		})},
		{"usage goes to the next window", "usage", one, counting(func(d *usage.Delta) { d.Start = d.Window.End(d.Start) })},
		{"writes are counted", "usage", one, breakage{mangle: func(request any) {
			if in, ok := usageUpdate(request); ok {
				in.UpdateExpression = aws.String(*in.UpdateExpression + ", " + hidden + " :n")
			}
		}}},
		{"followers skip", "usage", odds{crash: 0.004, followers: 1, tailed: true}, breakage{mangle: ahead}},
		{"aggregators refill without the lock", "bucket", odds{followers: 1, hot: true}, tending(func(s limiter.Store) limiter.Store { return lockless{s} })},
		{"aggregators consume", "usage", one, tending(func(s limiter.Store) limiter.Store {
			return tender{s, func(r *store.Refill) {
				for i := range r.Changes {
					r.Changes[i].Debit += 1000
				}
			}}
		})},
		{"aggregators write for nothing", "P8", one, tending(func(s limiter.Store) limiter.Store {
			return tender{s, func(r *store.Refill) {
				r.RefilledAt = r.Seen.RefilledAt
				r.Writes.Earned = 0
				for i := range r.Changes {
					r.Changes[i].Earned = 0
				}
			}}
		})},
		{"shards born of an aggregator are full", "bucket", odds{followers: 1, hot: true}, tending(func(s limiter.Store) limiter.Store { return doubler{s, bornFull} })},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen(t, c.promise, c.odds, c.broken)
		})
	}
}
