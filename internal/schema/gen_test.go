package schema_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

var (
	entities   = rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9_.:@-]{0,40}`)
	resources  = rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_./:-]{0,40}`)
	namespaces = rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9_-]{10}`)
	// Names that resemble a field, a prefix or another limit's attribute.
	limitNames = rapid.OneOf(
		rapid.SampledFrom([]string{"rpm", "a_tk", "a", "a.b", "a-b", "b_rpm", "tk", "cp", "l_x_cp", "x_", "a__", "sched", "w_a"}),
		rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.-]{0,30}`).Filter(func(s string) bool { return s != schema.WCU }),
	)
	instants = rapid.Int64Range(0, 1<<43)
)

func buckets(t *rapid.T) store.Bucket {
	return store.Bucket{
		Entity: entities.Draw(t, "entity"), Resource: resources.Draw(t, "resource"),
		Shard: rapid.IntRange(0, schema.MaxShards-1).Draw(t, "shard"),
	}
}

func params(t *rapid.T) store.Params {
	return store.Params{
		Capacity: rapid.Int64Range(1, store.MaxTokens*1000).Draw(t, "capacity"),
		Amount:   rapid.Int64Range(1, store.MaxTokens*1000).Draw(t, "amount"),
		Period:   rapid.Int64Range(1, store.MaxPeriod.Milliseconds()).Draw(t, "period"),
	}
}

// zones are of quotas and schedules; all of an item have one.
var zones = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"})

// renews is when a limit renews, in a zone; nil for a rate.
func renews(t *rapid.T, zone string) *store.Renewal {
	words := rapid.SampledFrom([]string{"", "", "day at 06:30", "month from last day", "week from monday; month", "0 9-17/4 * * mon-fri", "month since 2026-01-31T10:00:00Z"}).Draw(t, "renews")
	if words == "" {
		return nil
	}
	return renewal(words, zone)
}

// renewal is when a quota renews.
func renewal(words, zone string) *store.Renewal {
	r, err := store.ParseRenewal(words, zone)
	if err != nil {
		panic(err)
	}
	return r
}

// varies is when a limit has other parameters, in a zone; nil for never.
func varies(t *rapid.T, zone string) *store.Schedule {
	words := rapid.SampledFrom([]string{"", "", "* 9-17 * * mon-fri x0.5", "0-29 * * * * capacity=7 seconds=1; * * 29 2 * x12.345"}).Draw(t, "varies")
	if words == "" {
		return nil
	}
	return schedule(words, zone)
}

// schedule is when a limit has other parameters.
func schedule(words, zone string) *store.Schedule {
	s, err := store.ParseSchedule(words, zone)
	if err != nil {
		panic(err)
	}
	return s
}

func newLimit(t *rapid.T, name string, renews *store.Renewal, varies *store.Schedule) store.NewLimit {
	p := params(t)
	switch {
	case renews != nil:
		p.Amount, p.Renewal = 0, renews
		if c := carries(t); renews.Session() == 0 {
			p.Carries = store.Carry{Rollover: c.Rollover * store.Milli, Debt: c.Debt}
		}
	case p.Amount > 0:
		p.Varies = varies
	}
	return store.NewLimit{
		SoftUntil:   rapid.SampledFrom([]int64{0, 0, -1, math.MaxInt64}).Draw(t, "soft"),
		NamedParams: store.NamedParams{Limit: name, Params: p},
		Tokens:      rapid.Int64Range(-8*store.MaxTokens*1000, math.MaxInt64).Draw(t, "tokens"),
		Consumed:    rapid.Int64().Draw(t, "consumed"),
	}
}

func carries(t *rapid.T) store.Carry {
	return store.Carry{Rollover: rapid.SampledFrom([]int64{0, 1, 200_000, store.MaxTokens}).Draw(t, "rollover"), Debt: rapid.Bool().Draw(t, "debt")}
}

func creates(t *rapid.T) *store.Create {
	c := &store.Create{
		Bucket:     buckets(t),
		Now:        instants.Draw(t, "now"),
		RefilledAt: instants.Draw(t, "stamp"),
		ShardCount: rapid.IntRange(1, schema.MaxShards).Draw(t, "shards"),
		Writes:     newLimit(t, schema.WCU, nil, nil),
		Owner:      store.Owner{Cascade: rapid.Bool().Draw(t, "cascade")},
		ExpiresAt:  rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "expires"),
	}
	names := rapid.SliceOfNDistinct(limitNames, 0, 12, rapid.ID[string]).Draw(t, "names")
	slices.Sort(names)
	zone := zones.Draw(t, "zone")
	for _, name := range names {
		c.Limits = append(c.Limits, newLimit(t, name, renews(t, zone), varies(t, zone)))
	}
	c.Writes.SoftUntil = 0 // the hidden limit is hard
	c.ValidUntil = store.ValidUntil(c.Now, c.Limits, func(l *store.NewLimit) (store.Params, int64) { return l.Params, l.Opened })
	switch rapid.IntRange(0, 2).Draw(t, "mark") {
	case 1:
		c.Disabled, c.MarkedUntil = true, rapid.Int64Range(0, math.MaxInt64).Draw(t, "until")
	case 2: //nolint:mnd // the third kind
		c.Bypassed, c.MarkedUntil = true, rapid.Int64Range(1, math.MaxInt64).Draw(t, "stamp of the bypass")
	}
	if rapid.Bool().Draw(t, "has parent") {
		c.Owner.Parent = entities.Draw(t, "parent")
	}
	if rapid.Bool().Draw(t, "has record") {
		c.Owner.Generation = rapid.Int64().Draw(t, "generation")
		c.Owner.Incarnation = rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "incarnation")
	}
	return c
}

// image is the expected result of decoding the item that c creates.
func image(c *store.Create) *store.Image {
	state := func(l store.NewLimit) store.LimitState {
		s := store.LimitState{Name: l.Limit, Tokens: l.Tokens, Consumed: l.Consumed, Params: new(l.Params)}
		s.SetExtra(store.Extra{SoftUntil: l.SoftUntil})
		return s
	}
	img := &store.Image{
		Bucket: c.Bucket, ShardCount: c.ShardCount, RefilledAt: c.Stamp(), CreatedAt: c.Now, ExpiresAt: c.ExpiresAt, Hour: diary.HourOf(c.Now),
		Disabled: c.Disabled, Bypassed: c.Bypassed, MarkedUntil: c.MarkedUntil,
		Cascade: c.Owner.Cascade, Parent: c.Owner.Parent,
		ParentGeneration: c.Owner.Generation, Incarnation: c.Owner.Incarnation,
		ValidUntil: c.ValidUntil, HasValidUntil: c.ValidUntil != 0,
		Writes: state(c.Writes),
	}
	for _, l := range c.Limits {
		img.Limits = append(img.Limits, state(l))
	}
	return img
}

func configs(t *rapid.T, k store.ConfigKey) *store.Config {
	c := &store.Config{}
	names := rapid.SliceOfNDistinct(limitNames, 0, 8, rapid.ID[string]).Draw(t, "names")
	slices.Sort(names)
	zone := zones.Draw(t, "zone")
	for _, name := range names {
		soft := rapid.Bool().Draw(t, "soft")
		if r := renews(t, zone); r != nil {
			quota := limiter.Quota(name, rapid.Int64Range(1, store.MaxTokens).Draw(t, "capacity"), r)
			if quota.Soft = soft; r.Session() == 0 {
				quota.Carries = carries(t)
			}
			c.Limits = append(c.Limits, quota)
			continue
		}
		c.Limits = append(c.Limits, store.Limit{
			Name:     name,
			Capacity: rapid.Int64Range(1, store.MaxTokens).Draw(t, "capacity"),
			Amount:   rapid.Int64Range(1, store.MaxTokens).Draw(t, "amount"),
			Period:   time.Duration(rapid.Int64Range(1, int64(store.MaxPeriod/time.Second)).Draw(t, "period")) * time.Second,
			Varies:   varies(t, zone),
			Soft:     soft,
		})
	}
	if k == (store.ConfigKey{}) {
		c.OnUnavailable = rapid.SampledFrom([]store.OnUnavailable{"", store.Block, store.Allow, store.Share}).Draw(t, "on unavailable")
		return c
	}
	policies := rapid.SampledFrom([]store.Policy{store.Inherit, store.Yes, store.No})
	c.Disabled.Policy, c.Cascade = rapid.SampledFrom([]store.Policy{store.Inherit, store.Yes, store.No, store.Bypass}).Draw(t, "disabled"), policies.Draw(t, "cascade")
	if c.Disabled.Policy != store.Inherit {
		c.Disabled.Until = rapid.Int64Range(0, math.MaxInt64).Draw(t, "until")
	}
	return c
}

func configKeys(t *rapid.T) store.ConfigKey {
	switch rapid.IntRange(0, 3).Draw(t, "level") {
	case 0:
		return store.ConfigKey{Entity: entities.Draw(t, "entity"), Resource: resources.Draw(t, "resource")}
	case 1:
		return store.ConfigKey{Entity: entities.Draw(t, "entity"), Resource: limiter.DefaultResource}
	case 2:
		return store.ConfigKey{Resource: resources.Draw(t, "resource")}
	}
	return store.ConfigKey{}
}

// law runs a property over generated values; fuzz lets the fuzzer choose them. Laws do not
// run in parallel, since their shared generators are not safe for that.
func law(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rapid.Check(t, property)
}

func fuzz(f *testing.F, property func(*rapid.T)) {
	f.Helper()
	f.Fuzz(rapid.MakeFuzz(property))
}
