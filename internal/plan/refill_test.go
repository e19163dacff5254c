package plan_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A refill leaves on each limit what the item held by then, cut to the capacity, less the
// debit. A return that exceeds the capacity is cut, too. The conditions of the refill
// hold on the image from which it was worked out: otherwise no attempt is ever applied.
func TestARefillHoldsOnItsOwnImage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string) store.Limit {
			return store.Limit{
				Name: name, Capacity: rapid.Int64Range(1, 20).Draw(t, name+" capacity"),
				Amount: rapid.Int64Range(1, 20).Draw(t, name+" amount"), Period: time.Duration(rapid.IntRange(1, 60).Draw(t, name+" period")) * time.Second,
			}
		}
		img := item(0, now-rapid.Int64Range(-5_000, 60_000).Draw(t, "age"), func(img *store.Image) {
			img.ShardCount = rapid.SampledFrom([]int{1, 2}).Draw(t, "shards")
			img.Limits = nil
		})
		d := &plan.Debit{Settling: rapid.Bool().Draw(t, "settles"), Pressing: true}
		repair := wanted()
		for _, name := range []string{"rpm", "tpm"} {
			old := limit(name)
			whole := old.Params().Capacity
			img.Limits = append(img.Limits, store.LimitState{Name: name, Params: new(old.Params()), Tokens: rapid.Int64Range(-2*whole, 2*whole).Draw(t, name)})
			if asked := rapid.Int64Range(-whole, whole).Draw(t, name+" debit"); d.Settling || asked > 0 {
				d.Amounts = append(d.Amounts, store.Amount{Limit: name, Milli: asked})
			}
			repair.Limits = append(repair.Limits, limit(name))
		}
		if !d.Settling && rapid.Bool().Draw(t, "repairs") { // a settlement repairs nothing
			d.Repair = repair
		}

		r, _, short := d.Refill(img, now, 7)

		if short {
			return
		}
		if d.Settling && r.RefilledAt <= img.RefilledAt {
			t.Errorf("the stamp does not move")
		}
		after := plan.AfterRefill(r)
		for i, s := range img.Limits {
			ch := r.Changes[i]
			if s.Tokens < ch.AtLeast || s.Tokens > ch.AtMost {
				t.Errorf("%s: the item holds %d, which is not between %d and %d", s.Name, s.Tokens, ch.AtLeast, ch.AtMost)
			}
			left, _ := after.Limit(s.Name)
			capacity := min(plan.ShareOf(img, &s).Capacity, plan.ShareOf(img, &left).Capacity)
			held := min(capacity, plan.ShareOf(img, &s).Balance(s.Tokens, img.RefilledAt, r.RefilledAt))
			if want := min(capacity, held-plan.AmountOf(d.Amounts, s.Name)); left.Tokens != want {
				t.Errorf("%s: %d are left, want %d", s.Name, left.Tokens, want)
			}
			if d.Repair != nil && *left.Params != repair.Limits[i].Params() {
				t.Errorf("%s: not repaired", s.Name)
			}
			if !d.Settling && plan.AmountOf(d.Amounts, s.Name) > 0 && left.Tokens < 0 {
				t.Errorf("%s: %d are left of what did not cover the debit", s.Name, left.Tokens)
			}
		}
	})
}
