package dynamo_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A loose refill accepts another stamp than it has seen, and no other session: neither
// another begin, nor another length, nor one in place of a calendar, even if the end of the
// period is the same.
func TestALooseSplitMeetsAnotherSession(t *testing.T) {
	t.Parallel()
	now := fixture.Start.UnixMilli()
	for name, c := range map[string]struct {
		renews, update string
		values         schema.Item
		refused        bool
	}{
		"the same one":      {"session 5h", "SET rf = :v", schema.Item{":v": schema.N(now + 1)}, false},
		"another begin":     {"session 5h", "SET b_a_ws = :v, b_a_wa = :v", schema.Item{":v": schema.N(now - 1)}, true},
		"another length":    {"session 5h", "SET b_a_rsa = :v", schema.Item{":v": schema.N(3600)}, true},
		"none any more":     {"session 5h", "REMOVE b_a_rsa, b_a_ws, b_a_wa", nil, true},
		"one instead":       {"day", "SET b_a_rsa = :v REMOVE b_a_rsched", schema.Item{":v": schema.N(3600)}, true},
		"the same calendar": {"day", "SET rf = :v", schema.Item{":v": schema.N(now + 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testbed.NewEngine(t, dynamolite.Options{SweepInterval: time.Hour})
			testbed.CreateTable(t, db, dynamo.TableOptions{Now: fixture.Now})
			s := fixture.OpenStore(t, db)
			_, ns := s.Namespace()
			of := store.Bucket{Entity: "user", Resource: "gpt-4"}
			l := store.Limit{Name: "a", Capacity: 20, Renews: session(c.renews)}
			n := &store.Create{Bucket: of, Now: now, ShardCount: 1, Writes: plan.FirstWrite()}
			n.Limits = []store.NewLimit{{NamedParams: store.NamedParams{Limit: "a", Params: l.Params()}, Tokens: 20_000}}
			plan.DebitNew(n, []store.Amount{{Limit: "a", Milli: 1000}})
			out, err := s.Create(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			birth := plan.Split(out.Image, 1, 2, true, now+2, lawMultiplier)
			if !birth.Donor.Loose {
				t.Fatal("the split is not loose")
			}
			update(t, db, ns, of, c.update, c.values)
			joint, err := s.Bear(t.Context(), birth)
			if err != nil || joint.Applied == c.refused {
				t.Errorf("the split is applied: %v, %v", joint.Applied, err)
			}
		})
	}
}

// A shard that a Python client has told of a session joins it with any write, less what it
// has consumed since then.
func TestAShardJoinsASessionOfAPeer(t *testing.T) {
	t.Parallel()
	now := fixture.Start.UnixMilli()
	db := testbed.NewEngine(t, dynamolite.Options{SweepInterval: time.Hour})
	testbed.CreateTable(t, db, dynamo.TableOptions{Now: fixture.Now})
	s := fixture.OpenStore(t, db)
	_, ns := s.Namespace()
	l := store.Limit{Name: "a", Capacity: 40, Renews: session("session 5h")}
	of := store.Bucket{Entity: "user", Resource: "gpt-4"}
	n := &store.Create{Bucket: of, Now: now - 6*3_600_000, ShardCount: 2, Writes: plan.FirstWrite()}
	n.Limits = []store.NewLimit{{NamedParams: store.NamedParams{Limit: "a", Params: l.Params()}, Tokens: 20_000}}
	plan.DebitNew(n, []store.Amount{{Limit: "a", Milli: 5000}})
	if _, err := s.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	update(t, db, ns, of, "SET b_a_ws = :ws, b_a_wtc = :tc, vu = :vu", schema.Item{":ws": schema.N(now - 1000), ":tc": schema.N(2000), ":vu": schema.N(0)})
	images, err := s.Buckets(t.Context(), "user", "gpt-4", 1)
	if err != nil || !images[0].IsEvaluable() {
		t.Fatal(images, err)
	}
	d := &plan.Debit{Bucket: of, Amounts: []store.Amount{{Limit: "a", Milli: 18_000}}, Pressing: true}
	if _, _, short := d.Refill(images[0], now, lawMultiplier); !short {
		t.Error("more than is left of the share was admitted")
	}
	d.Amounts[0].Milli = 16_000
	r, _, short := d.Refill(images[0], now, lawMultiplier)
	out, err := s.Refill(t.Context(), r)
	if err != nil || short || !out.Applied {
		t.Fatal(out, short, err)
	}
	is, _ := out.Image.Limit("a")
	if is.Opened() != now-1000 || is.Told() != (store.Told{}) || is.Tokens != 1000 || out.Image.ValidUntil != now-1000+5*3_600_000 {
		t.Errorf("the shard has %+v, of the session that began at %d, until %d", is, is.Opened(), out.Image.ValidUntil)
	}
	if after := plan.AfterRefill(r); after.Limits[0].Opened() != is.Opened() || after.Limits[0].Told() != is.Told() || after.Limits[0].Tokens != is.Tokens {
		t.Errorf("after the refill, %+v is expected, and %+v is there", after.Limits[0], is)
	}
}

// A session begins behind writes that moved the stamp since, and what they have accrued is
// not accrued twice. It does not begin behind another begin, nor another settlement of its
// balance.
func TestASessionBeginsBehindAnotherWrite(t *testing.T) {
	t.Parallel()
	now := fixture.Start.UnixMilli()
	whole := store.Limit{Name: "a", Capacity: 40, Renews: session("session 5h")}
	hourly := store.Limit{Name: "b", Capacity: 3600, Amount: 3600, Period: time.Hour}
	of := store.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1}
	begins := &plan.Beginning{At: now + 2, Limits: []string{"a"}}
	for name, c := range map[string]struct {
		other   plan.Debit
		applied bool
	}{
		"nothing":    {plan.Debit{}, true},
		"a refill":   {plan.Debit{Amounts: []store.Amount{{Limit: "b", Milli: 100}}}, true},
		"a begin":    {plan.Debit{Amounts: []store.Amount{{Limit: "a", Milli: 1000}}, Begins: begins}, false},
		"a debt":     {plan.Debit{Amounts: []store.Amount{{Limit: "a", Milli: 1000}}, Settling: true}, false},
		"a shortage": {plan.Debit{Amounts: []store.Amount{{Limit: "b", Milli: 900}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testbed.NewEngine(t, dynamolite.Options{SweepInterval: time.Hour})
			testbed.CreateTable(t, db, dynamo.TableOptions{Now: fixture.Now})
			s := fixture.OpenStore(t, db)
			n := &store.Create{Bucket: of, Now: now, ShardCount: 2, Writes: plan.FirstWrite()}
			n.Limits = []store.NewLimit{
				{NamedParams: store.NamedParams{Limit: "a", Params: whole.Params()}, Tokens: 20_000, Opened: store.NoSession},
				{NamedParams: store.NamedParams{Limit: "b", Params: hourly.Params()}, Tokens: 1000},
			}
			n.ValidUntil = store.NoSession + 5*3_600_000
			out, err := s.Create(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			b := int64(1000)
			if len(c.other.Amounts) > 0 {
				c.other.Bucket, c.other.Pressing = of, true
				r, _, short := c.other.Refill(out.Image, now+10, lawMultiplier)
				if other, err := s.Refill(t.Context(), r); err != nil || short || !other.Applied {
					t.Fatal(other, short, err)
				}
				b += 5 - plan.AmountOf(c.other.Amounts, "b") // half of a token a second
			}
			d := &plan.Debit{Bucket: of, Amounts: []store.Amount{{Limit: "a", Milli: 3000}, {Limit: "b", Milli: 200}}, Begins: begins}
			joint, err := s.Gather(t.Context(), []*store.Refill{d.Loosely(out.Image, now+2, lawMultiplier)})
			if err != nil || joint.Applied != c.applied {
				t.Fatalf("the session began: %v, %v", joint.Applied, err)
			}
			images, err := s.Buckets(t.Context(), "user", "gpt-4", 2)
			if err != nil {
				t.Fatal(err)
			}
			if img := images[0]; c.applied && (img.Limits[0].Tokens != 17_000 || img.Limits[0].Opened() != begins.At || img.Limits[1].Tokens != b-200 || img.ValidUntil != begins.At+5*3_600_000) {
				t.Errorf("the shard has %+v until %d, want %d of b", img.Limits, img.ValidUntil, b-200)
			}
		})
	}
}

// Two processes have seen a session rest, by the same stamp. The first begins one by a clock behind it, and leaves the
// balance that the second has seen. The second begins no other session, and ends none where it begins that of another limit.
func TestASessionBeginsOnceAtAStamp(t *testing.T) {
	t.Parallel()
	now := fixture.Start.UnixMilli()
	db := testbed.NewEngine(t, dynamolite.Options{SweepInterval: time.Hour})
	testbed.CreateTable(t, db, dynamo.TableOptions{Now: fixture.Now})
	s := fixture.OpenStore(t, db)
	l := store.Limit{Name: "a", Capacity: 40, Renews: session("session 5h")}
	of := store.Bucket{Entity: "user", Resource: "gpt-4"}
	for _, c := range []struct {
		opened int64 // of the session that has ended
		asks   string
	}{{store.NoSession, "a"}, {now - 6*3_600_000, "a"}, {store.NoSession, "b"}, {now - 6*3_600_000, "b"}} {
		of.Resource += "x"
		n := &store.Create{Bucket: of, Now: now, ShardCount: 1, Writes: plan.FirstWrite()}
		n.Limits = []store.NewLimit{
			{NamedParams: store.NamedParams{Limit: "a", Params: l.Params()}, Tokens: 25_000, Opened: c.opened},
			{NamedParams: store.NamedParams{Limit: "b", Params: l.Params()}, Tokens: 40_000, Opened: store.NoSession}, // it rests on
		}
		n.ValidUntil = store.ValidUntil(now, n.Limits, func(l *store.NewLimit) (store.Params, int64) { return l.Params, l.Opened }) // so this stays
		made, err := s.Create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		late := &plan.Debit{Bucket: of, Amounts: []store.Amount{{Limit: "a", Milli: 15_000}}, Pressing: true}
		first, _, _ := late.Refill(made.Image, now-1, lawMultiplier)
		late.Amounts = []store.Amount{{Limit: c.asks, Milli: 15_000}}
		second, _, _ := late.Refill(made.Image, now+1, lawMultiplier)
		if first.RefilledAt != now || first.Changes[0].Opened != now {
			t.Fatalf("the first begins at %+v, with the stamp %d", first.Changes[0], first.RefilledAt)
		}
		if out, err := s.Refill(t.Context(), first); err != nil || !out.Applied || out.Image.Limits[0].Tokens != 25_000 {
			t.Fatal(out, err)
		}
		if out, err := s.Refill(t.Context(), second); err != nil || out.Applied || out.Image == nil {
			t.Errorf("%+v: the second write was applied: %+v, %v", c, out.Image, err)
		}
	}
}
