package sim_test

import (
	"context"
	"fmt"
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
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// bookkeeper changes what is saved, and may hide failures.
type bookkeeper struct {
	aggregator.Usage

	change func(*usage.Diary)
	hush   bool // reports no failure
}

func (b bookkeeper) Save(ctx context.Context, all ...usage.Diary) error {
	changed := slices.Clone(all)
	for i := range changed {
		if b.change != nil {
			b.change(&changed[i])
		}
	}
	err := b.Usage.Save(ctx, changed...)
	if b.hush {
		return nil
	}
	return err
}

// saveEntries changes the hours of a diary.
func saveEntries(change func([]diary.Entry) []diary.Entry) func(*usage.Diary) {
	return func(d *usage.Diary) {
		entries, err := diary.Parse(d.Text)
		must(err)
		d.Text = ""
		for _, e := range change(entries) {
			d.Text = diary.Append(d.Text, e)
		}
	}
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

// TestLongestBrokenAggregatorsAreSeen: each check of aggregators fails when its subject is broken.
func TestLongestBrokenAggregatorsAreSeen(t *testing.T) {
	t.Parallel()
	one := odds{followers: 1}
	wild := odds{followers: 1, merged: true, hot: true, throttled: 0.05, lostBefore: 0.02, lostAfter: 0.05, hangs: 0.01}
	saving := func(change func(*usage.Diary)) breakage {
		return breakage{usage: func(u aggregator.Usage) aggregator.Usage { return bookkeeper{Usage: u, change: change} }}
	}
	tending := func(f func(limiter.Store) limiter.Store) breakage { return breakage{tender: f} }
	for _, c := range []struct {
		name    string
		promise string
		odds    odds
		broken  breakage
	}{
		{"what failed is forgotten", "diary", wild, breakage{usage: func(u aggregator.Usage) aggregator.Usage { return bookkeeper{Usage: u, hush: true} }}},
		{"the open hour is lost", "diary", one, saving(saveEntries(func(all []diary.Entry) []diary.Entry { return all[:len(all)-1] }))},
		{"usage goes to the next hour", "diary", one, saving(saveEntries(func(all []diary.Entry) []diary.Entry {
			for i := range all {
				all[i].Hour++
			}
			return all
		}))},
		{"shards are not told apart", "diary", odds{followers: 1, hot: true}, saving(func(d *usage.Diary) { d.Shard = 0 })},
		{"turns have no lock", "diary", odds{followers: 1, hot: true}, breakage{mangle: func(request any) {
			if in, ok := request.(*dynamodb.UpdateItemInput); ok && in.ConditionExpression != nil {
				in.ConditionExpression = aws.String(strings.Replace(*in.ConditionExpression, "dh=:dc", "attribute_exists(dh)", 1))
			}
		}}},
		{"followers skip", "diary", odds{crash: 0.004, followers: 1, tailed: true}, breakage{mangle: ahead}},
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
