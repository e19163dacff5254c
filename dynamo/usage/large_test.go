package usage_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// wide returns steps of so many shards, a few of each, and their sums. Limit names have
// the maximum length, and each amount has a fraction of a token. With others, no two
// steps share a limit.
func wide(shards, steps, limits int, others bool) (all []usage.Step, events int64, tokens map[string]int64) {
	tokens = map[string]int64{}
	for i := range steps {
		step := usage.Step{Shard: i % shards, Sequence: strconv.Itoa(1e9 + i), Events: 1}
		for j := range limits {
			name := fmt.Sprint("l", j)
			if others {
				name += "." + strconv.Itoa(i)
			}
			name += strings.Repeat("x", 64-len(name))
			amount := int64(1e12 + 1_000*j + i + 1)
			step.Tokens = append(step.Tokens, store.Amount{Limit: name, Milli: amount})
			tokens[name] += amount
		}
		all = append(all, step)
	}
	return all, int64(steps), tokens
}

// Deltas with more shards or more limits than one expression holds are written in
// parts. They still count once, even if they come again, and after an interruption
// between two writes.
func checkUsageInParts(t *testing.T, api dynamo.API) {
	t.Helper()
	for _, c := range []struct {
		shards, steps, limits int
		others                bool
		requests              int
	}{
		{32, 100, 24, false, 1},
		{40, 40, 80, false, 1},
		{41, 100, 2, false, 2},
		{schema.MaxShards, 2 * schema.MaxShards, 3, false, 26},
		{1, 1, 130, false, 1},
		{1, 20, 24, true, 7},
		{64, 64, 20, true, 16},
	} {
		name := fmt.Sprintf("%d.%d.%d.%t", c.shards, c.steps, c.limits, c.others)
		steps, events, tokens := wide(c.shards, c.steps, c.limits, c.others)
		f := faults.NewTap(api)
		s := fixture.OpenStore(t, f)
		f.Take()
		add(t, s, hourly(name), steps...)
		if len(f.Ops()) != c.requests {
			t.Errorf("%s: %d requests, want %d", name, len(f.Ops()), c.requests)
		}
		add(t, s, hourly(name), steps...)
		wantUsed(t, s, hourly(name), events, tokens)

		cut, writes := errors.New("the plug was pulled"), 0
		f.Set(faults.Before(func(sent *faults.Call) error {
			if writes++; writes > c.requests/2 && sent.Op == "UpdateItem" {
				return cut
			}
			return nil
		}))
		fixture.WantErr(t, s.Usage().Add(t.Context(), &usage.Delta{Key: hourly("cut." + name), Steps: steps}), cut)
		f.Set(nil)
		add(t, s, hourly("cut."+name), steps...)
		wantUsed(t, s, hourly("cut."+name), events, tokens)
	}
}

func TestUsageIsWrittenInParts(t *testing.T) { t.Parallel(); checkUsageInParts(t, fixture.NewTable(t)) }

// Usage of one window and of several is exact beyond 64 bits. A batch takes one write
// for each part that 64 bits hold.
func checkUsageBeyond64Bits(t *testing.T, api dynamo.API) {
	t.Helper()
	f := faults.NewTap(api)
	s := fixture.OpenStore(t, f)
	k := hourly("beyond")
	var steps []usage.Step
	for i := range 20 {
		steps = append(steps, step(i%3, 100+i, 1_000_000_000_000_000_999))
	}
	f.Take()
	add(t, s, k, steps...)
	add(t, s, k, steps...)
	if n := len(f.Ops()); n > 8 {
		t.Errorf("%d requests: %v", n, f.Ops())
	}
	k.Start = k.Start.Add(time.Hour)
	add(t, s, k, step(0, 1, math.MinInt64), step(1, 1, math.MinInt64), step(2, 1, math.MaxInt64), step(2, 2, -1))
	sum, err := s.Usage().Sum(t.Context(), usage.Query{Entity: k.Entity})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sum.Events, sum.Limits); got != "24 [{tpm 2 10776627963145244170 5388313981572622085}]" {
		t.Errorf("added up to %s", got)
	}
	page, err := s.Usage().Read(t.Context(), usage.Query{Entity: k.Entity})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"-9223372036854775810", "20000000000000019980"} {
		if got := page.Snapshots[i].Tokens[0].Milli.String(); got != want {
			t.Errorf("snapshot %d counts %s, want %s", i, got, want)
		}
	}
}

func TestUsageBeyond64Bits(t *testing.T) {
	t.Parallel()
	checkUsageBeyond64Bits(t, fixture.NewTable(t))
}

// The amounts of one step are refused together or counted together.
func TestAStepIsWithin64Bits(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	amounts := func(milli ...int64) *usage.Delta {
		d := &usage.Delta{Key: hourly("user"), Steps: []usage.Step{{Sequence: "1"}}}
		for _, m := range milli {
			d.Steps[0].Tokens = append(d.Steps[0].Tokens, store.Amount{Limit: "rpm", Milli: m})
		}
		return d
	}
	for _, d := range []*usage.Delta{amounts(math.MaxInt64, 1), amounts(-1, math.MinInt64)} {
		fixture.WantErr(t, s.Usage().Add(t.Context(), d), store.ErrInvalid)
	}
	if len(f.Ops()) > 0 {
		t.Errorf("%v were sent", f.Ops())
	}
	if err := s.Usage().Add(t.Context(), amounts(math.MaxInt64, -7, 6)); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, s, hourly("user"), 0, map[string]int64{"rpm": math.MaxInt64 - 1})
}

// What a batch of a hot entity costs, by shards. Counters, creation times and sequence
// numbers are as long as they are on DynamoDB.
func TestWhatMarksCost(t *testing.T) {
	t.Parallel()
	for shards, want := range map[int]float64{1: 1, 4: 1, 5: 2, 8: 2, 12: 2, 16: 3, 32: 5} {
		meter := dynamo.NewMeter(fixture.NewTable(t))
		s, k, b := fixture.OpenStore(t, meter), hourly("customer-0042"), newBucket(shards)
		b.sequence = 100_000_000_000_000
		for i := range b.items {
			b.items[i].CreatedAt = noon.UnixMilli()
		}
		for i := range 3 * shards {
			b.items[i%shards].Writes.Consumed += 5_000_000
			b.change(i%shards, store.Amount{Limit: "rpm", Milli: 50_000_000}, store.Amount{Limit: "tpm", Milli: 80_000_000_000})
		}
		for i := range b.steps {
			b.steps[i].Sequence = "4960770000000" + b.steps[i].Sequence
		}
		add(t, s, k, b.steps[:2*shards]...)
		before := meter.Totals()
		add(t, s, k, b.steps[2*shards:]...)
		if got := meter.Totals().Sub(before).Sum().WCU; got != want {
			t.Errorf("%d shards cost %v write units, want %v", shards, got, want)
		}
	}
}
