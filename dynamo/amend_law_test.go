package dynamo_test

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// reset makes limits full, as an operator does.
func (l *ledger) reset() bool {
	return l.operate(&plan.Amendment{Resets: true})
}

// amendTopUp adds to limits, as an operator does.
func (l *ledger) amendTopUp() bool { return l.operate(&plan.Amendment{}) }

// operate carries out an amendment over all shards, of each of which a process may have an
// old image.
func (l *ledger) operate(am *plan.Amendment) bool {
	images, w, _ := l.drawAmendment(am)
	now := l.clock()
	refills, given, err := am.Over(images, w, now, lawMultiplier)
	if err != nil || len(am.Amounts) == 0 {
		return false
	}
	was := l.resetsOf()
	for i, img := range images { // what a reset gives, each time
		for k := range img.Limits {
			s := &img.Limits[k]
			p := lawPeriod{s.Name, plan.PeriodEnd(img, s.Name)}
			if ch := changeOf(refills[i], s.Name); ch.Resets && s.Renewal != nil && p.end == plan.PeriodEnd(plan.AfterRefill(refills[i]), s.Name) {
				l.gained = append(l.gained, resetGain{p, lack(img, s)})
			}
		}
	}
	l.operation = am
	out, err := l.store.Gather(l.Context(), refills)
	if l.check(out.Applied, err) {
		for _, a := range l.gained {
			l.slack[a.period] += a.milli
		}
		l.look(nil, true)
		l.checkAmendment(am, images, refills, given, was)
	}
	l.gained, l.operation = nil, nil
	return out.Applied
}

// drawAmendment draws the limits and amounts of an amendment, what the operator has read of
// each shard, and the configuration to which the amendment repairs; nil if to none. isFresh says that all images are the last ones.
func (l *ledger) drawAmendment(am *plan.Amendment) (images []*store.Image, w *plan.Wanted, isFresh bool) {
	for _, name := range []string{"a", "b"} {
		if rapid.Bool().Draw(l.T, "amends "+name) {
			am.Amounts = append(am.Amounts, store.Amount{Limit: name, Milli: rapid.Int64Range(1, 40).Draw(l.T, "tokens") * store.Milli})
		}
	}
	isFresh = true
	for shard, known := range l.known {
		img := l.last(shard)
		if img == nil {
			continue
		}
		if n := len(known); n > 1 && known[n-2] != nil && rapid.IntRange(0, 5).Draw(l.T, "age") == 0 {
			img, isFresh = known[n-2], false
		}
		images = append(images, img)
	}
	if rapid.Bool().Draw(l.T, "repairs") {
		w = &l.wanted
	}
	return images, w, isFresh
}

// A resetGain is what a reset gives a shard's quota in a period.
type resetGain struct {
	period lawPeriod
	milli  int64
}

// checkAmendment checks that each image after an amendment is as it was worked out, that resets of
// quotas are counted, and that a quota got a whole top-up.
func (l *ledger) checkAmendment(am *plan.Amendment, images []*store.Image, refills []*store.Refill, given []int64, was map[string]int64) {
	for k, a := range am.Amounts {
		var topped int64
		isQuota := false
		for i, img := range images {
			after := l.last(img.Shard)
			s, ok := after.Limit(a.Limit)
			if !ok {
				continue
			}
			if planned, _ := plan.AfterRefill(refills[i]).Limit(a.Limit); planned.Granted() != s.Granted() {
				l.Fatalf("%s of shard %d is granted %+v, want %+v", a.Limit, img.Shard, s.Granted(), planned.Granted())
			}
			if s.Tokens > capacity(after, &s) && s.Renewal == nil {
				l.Fatalf("%s of shard %d has %d of %d", a.Limit, img.Shard, s.Tokens, capacity(after, &s))
			}
			if counts := l.resetsOf(); s.Renewal != nil && am.Resets && counts[key(img, a.Limit)] <= was[key(img, a.Limit)] {
				if _, had := img.Limit(a.Limit); had {
					l.Fatalf("a reset of %s of shard %d was not counted", a.Limit, img.Shard)
				}
			}
			isQuota = isQuota || s.Renewal != nil
			topped += changeOf(refills[i], a.Limit).TopUp
		}
		if isQuota && !am.Resets && (topped != a.Milli || given[k] != a.Milli/store.Milli) {
			l.Fatalf("%s got %d of %d, and %d were told", a.Limit, topped, a.Milli, given[k])
		}
		if !am.Resets && given[k] > a.Milli/store.Milli {
			l.Fatalf("%s got %d tokens instead of %d", a.Limit, given[k], a.Milli)
		}
	}
}

func changeOf(r *store.Refill, limit string) store.Change {
	for _, ch := range r.Changes {
		if ch.Limit == limit {
			return ch
		}
	}
	return store.Change{}
}

func key(img *store.Image, limit string) string { return fmt.Sprint(img.Shard, limit) }

// resetsOf counts the resets that the items tell, by shard and limit.
func (l *ledger) resetsOf() map[string]int64 {
	counts := map[string]int64{}
	for shard := range l.known {
		img := l.last(shard)
		if img == nil {
			continue
		}
		out, err := l.api.GetItem(l.Context(), &dynamodb.GetItemInput{TableName: aws.String(testbed.Table), Key: schema.BucketKey(l.ns, img.Bucket).Item()})
		if err != nil {
			l.Fatal(err)
		}
		for i := range img.Limits {
			name := img.Limits[i].Name
			if n, ok := out.Item[schema.LimitAttr(name, schema.FieldResets)].(*types.AttributeValueMemberN); ok {
				counts[key(img, name)], _ = strconv.ParseInt(n.Value, 10, 64)
			}
		}
	}
	return counts
}
