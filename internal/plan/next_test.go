package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

const now = 1_700_000_000_000 // milliseconds

// minutely is a limit that earns one token a second, up to 60.
var minutely = store.Limit{Name: "rpm", Capacity: 60, Amount: 60, Period: time.Minute}

func wanted(limits ...store.Limit) *plan.Wanted { return &plan.Wanted{Limits: limits} }

// item is a bucket of one shard that held tokens of the limit at the stamp.
func item(tokens, stamp int64, change func(*store.Image)) *store.Image {
	img := &store.Image{
		Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}, ShardCount: 1, RefilledAt: stamp,
		Writes: store.LimitState{Name: store.WriteLimit, Params: new(plan.WriteParams), Tokens: plan.WriteParams.Capacity},
		Limits: []store.LimitState{{Name: "rpm", Params: new(minutely.Params()), Tokens: tokens}},
	}
	if change != nil {
		change(img)
	}
	return img
}

// The next step follows from the image, the terms and the instant alone.
func TestNext(t *testing.T) {
	t.Parallel()
	other := minutely
	other.Capacity = 30
	trial, off := minutely, minutely
	trial.Mode, off.Mode = store.Shadow, store.Off
	for name, c := range map[string]struct {
		img   *store.Image
		fresh bool
		sure  bool // the configuration was read after the image
		of    *plan.Wanted
		asked int64 // millitokens
		want  plan.Kind
	}{
		"nothing is known":                     {nil, false, false, nil, 1000, plan.Read},
		"there is no item":                     {nil, true, false, wanted(minutely), 1000, plan.Create},
		"the configuration is not known":       {item(5000, now, nil), false, false, nil, 1000, plan.Read},
		"it serves the claim as it is":         {item(5000, now, nil), false, false, wanted(minutely), 1000, plan.Take},
		"it serves the claim once accrued":     {item(0, now-10_000, nil), false, false, wanted(minutely), 5000, plan.Refill},
		"it overflows":                         {item(60_000, now-10_000, nil), false, false, wanted(minutely), 1000, plan.Refill},
		"an old image holds too little":        {item(0, now, nil), false, false, wanted(minutely), 1000, plan.Take},
		"a fresh image holds too little":       {item(0, now, nil), true, false, wanted(minutely), 1000, plan.Refuse},
		"it differs from the configuration":    {item(5000, now, nil), true, false, wanted(other), 1000, plan.Verify},
		"it differs from a just read one":      {item(5000, now, nil), true, true, wanted(other), 1000, plan.Refill},
		"it differs and holds too little":      {item(0, now, nil), true, true, wanted(other), 1000, plan.Repair},
		"nothing is asked, nothing differs":    {item(0, now, nil), true, true, wanted(minutely), 0, plan.Done},
		"in shadow, a fresh one lacks some":    {item(0, now, inMode(store.Shadow)), true, false, wanted(trial), 1000, plan.Take},
		"it is off":                            {item(60_000, now-10_000, inMode(store.Off)), true, false, wanted(off), 1000, plan.Take},
		"an operator disabled it":              {item(5000, now, func(i *store.Image) { i.Disabled = true }), true, false, wanted(minutely), 1000, plan.Disabled},
		"it was disabled when last seen":       {item(5000, now, func(i *store.Image) { i.Disabled = true }), false, false, wanted(minutely), 1000, plan.Take},
		"a peer's schedule, and too little":    {item(0, now-10_000, func(i *store.Image) { i.Features = store.Scheduled }), true, false, wanted(minutely), 1000, plan.Unsupported},
		"a peer's schedule, and enough":        {item(5000, now, func(i *store.Image) { i.Features = store.Scheduled }), true, false, wanted(minutely), 1000, plan.Take},
		"its writes are used up":               {item(5000, now, func(i *store.Image) { i.Writes.Tokens = -1000 }), true, false, wanted(minutely), 1000, plan.Wait},
		"its writes are used up, in old image": {item(5000, now, func(i *store.Image) { i.Writes.Tokens = -1000 }), false, false, wanted(minutely), 1000, plan.Take},
	} {
		want := plan.Want{}
		if c.asked > 0 {
			want.Asked = []store.Amount{{Limit: "rpm", Milli: c.asked}}
		}
		terms := want.Under(c.of)
		s := &plan.Situation{
			Debit: plan.Debit{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}, Amounts: terms.Amounts},
			Terms: &terms, Sure: c.sure, Image: c.img, Fresh: c.fresh, Now: now, Multiplier: 7,
		}
		if c.sure {
			s.Repair = terms.Target
		}
		got := plan.Next(s)
		if got.Kind != c.want {
			t.Errorf("%s: step %d, want %d", name, got.Kind, c.want)
		}
		if (got.Take != nil) != (got.Kind == plan.Take) || (got.Refill != nil) != (got.Kind == plan.Refill || got.Kind == plan.Repair) || (got.Wait > 0) != (got.Kind == plan.Wait) {
			t.Errorf("%s: the step is not whole: %+v", name, got)
		}
	}
}

// daily makes the limit of an item a quota of a day.
func daily(t *testing.T) func(*store.Image) {
	t.Helper()
	renews, err := store.ParseRenewal("day", "")
	if err != nil {
		t.Fatal(err)
	}
	return func(i *store.Image) {
		i.Limits[0].Params = new(store.Limit{Capacity: 10, Renews: renews}.Params())
	}
}

// An item serves callers in the order of their arrival, as far as the pace allows, and
// the first one in any case.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const day = 24 * 3_600_000
	ask := func(milli int64) []store.Amount { return []store.Amount{{Limit: "rpm", Milli: milli}} }
	for name, c := range map[string]struct {
		img  *store.Image
		pace plan.Pace
		asks []int64
		want []int64
	}{
		"no image":                       {nil, plan.Pace{Part: 1}, []int64{1}, nil},
		"all":                            {item(10_000, now, nil), plan.Pace{Part: 1}, []int64{4000, 6000}, []int64{4000, 6000}},
		"those that fit":                 {item(10_000, now, nil), plan.Pace{Part: 1}, []int64{4000, 7000, 6000}, []int64{4000, 6000}},
		"with what has accrued":          {item(0, now-5_000, nil), plan.Pace{Part: 1}, []int64{4000, 2000}, []int64{4000}},
		"not with what a schedule earns": {item(0, now-5_000, func(i *store.Image) { i.Features = store.Scheduled }), plan.Pace{Part: 1}, []int64{4000}, nil},
		"a part of what it holds":        {item(10_000, now, nil), plan.Pace{Part: 4}, []int64{1000, 1000, 1000}, []int64{1000, 1000}},
		"at least the first":             {item(10_000, now, nil), plan.Pace{Part: 4}, []int64{9000, 1000}, []int64{9000}},
		"what it earns on the way":       {item(10_000, now, nil), plan.Pace{Part: 4, Delay: 2000}, []int64{1000, 1000, 1000}, []int64{1000, 1000, 1000}},
		"a part of a quota":              {item(10_000, now, daily(t)), plan.Pace{Part: 4}, []int64{1000, 1000, 1000}, []int64{1000, 1000}},
		"a quota that renews on the way": {item(10_000, now, daily(t)), plan.Pace{Part: 4, Delay: day}, []int64{4000, 4000, 4000}, []int64{4000, 4000}},
		"a quota that renews in a turn":  {item(10_000, now, daily(t)), plan.Pace{Part: 4, Turn: day}, []int64{4000, 4000, 4000}, []int64{4000, 4000}},
		"a quota in debt that renews":    {item(-10_000, now, daily(t)), plan.Pace{Part: 4, Turn: day}, []int64{4000}, nil},
		"nothing of a limit it lacks":    {item(10_000, now, func(i *store.Image) { i.Limits[0].Name = "tpm" }), plan.Pace{Part: 1}, []int64{1000}, []int64{1000}},
	} {
		got := plan.Admit(c.asks, ask, c.img, c.pace, now)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: admitted %v, want %v", name, got, c.want)
		}
	}
}
