package dynamo_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// behind changes attributes of an item without the store's knowledge; nil removes one.
func behind(t *testing.T, api dynamo.API, key schema.Key, changes schema.Item) {
	t.Helper()
	var set, remove []string
	names, values := map[string]string{}, schema.Item{}
	for attr, v := range changes {
		n := strconv.Itoa(len(names))
		names["#"+n] = attr
		if v == nil {
			remove = append(remove, "#"+n)
			continue
		}
		set, values[":"+n] = append(set, "#"+n+" = :"+n), v
	}
	in := &dynamodb.UpdateItemInput{TableName: aws.String(table), Key: key.Item(), ExpressionAttributeNames: names}
	update := ""
	if len(set) > 0 {
		update, in.ExpressionAttributeValues = "SET "+strings.Join(set, ", "), values
	}
	if len(remove) > 0 {
		update += " REMOVE " + strings.Join(remove, ", ")
	}
	in.UpdateExpression = &update
	if _, err := api.UpdateItem(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// repairs are refills that change parameters or the owner.
var repairs = map[string]func(*store.Refill){
	"sets": func(r *store.Refill) {
		r.Changes[0].Kind, r.Changes[0].Params = store.SetParams, store.Params{Capacity: 100_000, Amount: 2000, Period: 1000}
	},
	"removes": func(r *store.Refill) { r.Changes[0] = store.Change{Limit: "rpm", Kind: store.RemoveLimit} },
	"keeps and adds": func(r *store.Refill) {
		added := store.Params{Capacity: 1000, Amount: 1000, Period: 1000}
		r.Changes = append(r.Changes, store.Change{Limit: "tpm", Kind: store.AddLimit, Params: added, Earned: 1000})
	},
	"restamps": func(r *store.Refill) {
		r.Owner = &store.Owner{Cascade: true, Parent: "other", Generation: 8, Incarnation: "j"}
	},
	"drops a stamp": func(r *store.Refill) { r.Owner = &store.Owner{} },
}

// A refill that changes parameters or the owner is applied only if all that it rests on
// is as it was seen. A peer can change any of it without moving the stamp.
func TestARepairLandsOnWhatWasSeenAlone(t *testing.T) {
	t.Parallel()
	api := newLiteTable(t)
	unowned := schema.Item{schema.Cascade: schema.Bool(false)}
	owned := schema.Item{
		schema.Cascade: schema.Bool(true), schema.ParentID: schema.S("project"), schema.PGen: schema.N(7), schema.PInc: schema.S("i"),
	}
	n := 0
	for _, tt := range []struct {
		name   string
		before schema.Item
		change schema.Item
		owner  bool // only a write that changes the owner depends on it
	}{
		{"nothing", unowned, unowned, false},
		{"nothing of an owner", owned, owned, false},
		{"the capacity", unowned, schema.Item{"b_rpm_cp": schema.N(99_000)}, false},
		{"the amount", unowned, schema.Item{"b_rpm_ra": schema.N(999)}, false},
		{"the period", unowned, schema.Item{"b_rpm_rp": schema.N(999)}, false},
		{"the limit", unowned, schema.Item{"b_rpm_tk": nil, "b_rpm_cp": nil}, false},
		{"the stamp", unowned, schema.Item{schema.RF: schema.N(plantedAt + 1)}, false},
		{"the trim", unowned, schema.Item{schema.ValidUntil: schema.N(0)}, false},
		{"the number of shards", unowned, schema.Item{schema.ShardCount: schema.N(2)}, false},
		{"the switch", unowned, schema.Item{schema.Disabled: schema.Bool(true)}, false},
		{"the policy, to yes", unowned, schema.Item{schema.Cascade: schema.Bool(true)}, true},
		{"the policy, to no", owned, schema.Item{schema.Cascade: schema.Bool(false)}, true},
		{"the first parent", unowned, schema.Item{schema.ParentID: schema.S("third")}, true},
		{"the parent", owned, schema.Item{schema.ParentID: schema.S("third")}, true},
		{"no parent any more", owned, schema.Item{schema.ParentID: nil}, true},
		{"the first generation", unowned, schema.Item{schema.PGen: schema.N(1)}, true},
		{"the generation", owned, schema.Item{schema.PGen: schema.N(8)}, true},
		{"the first incarnation", unowned, schema.Item{schema.PInc: schema.S("k")}, true},
		{"the incarnation", owned, schema.Item{schema.PInc: schema.S("k")}, true},
	} {
		for name, repair := range repairs {
			n++
			w := plant(t, api, fmt.Sprint("repair-", n), planted{update: "SET rf = rf"})
			behind(t, api, w.key, tt.before)
			var err error
			if w.seen, err = schema.DecodeBucket(fixture.Get(t, api, w.key)); err != nil {
				t.Fatal(err)
			}
			behind(t, api, w.key, tt.change)
			r := w.refill()
			r.RefilledAt++
			repair(r)
			out, err := w.Refill(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.HasPrefix(tt.name, "nothing") || tt.owner && r.Owner == nil; out.Applied != want {
				t.Errorf("a write that %s, after %s changed: applied %t, want %t", name, tt.name, out.Applied, want)
			}
			if o := r.Owner; out.Applied && o != nil {
				got := store.Owner{Cascade: out.Image.Cascade, Parent: out.Image.Parent, Generation: out.Image.ParentGeneration, Incarnation: out.Image.Incarnation}
				if got != *o {
					t.Errorf("a write that %s left %+v, want %+v", name, got, *o)
				}
			}
		}
	}
}
