package schema_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

func whole(name string, tokens, consumed, capacity, amount, period int64) store.NewLimit {
	return store.NewLimit{
		NamedParams: store.NamedParams{Limit: name, Params: store.Params{Capacity: capacity, Amount: amount, Period: period}},
		Tokens:      tokens, Consumed: consumed,
	}
}

// anyRoom ignores how many positions there may be, see TestRoomForPositions.
var anyRoom = cmpopts.IgnoreFields(store.Image{}, "PositionCap")

// first are the buckets that the peer created in its recorded flows.
func first() map[string]*store.Create {
	wcu := whole(schema.WCU, schema.WCUCapacity, 0, schema.WCUCapacity, schema.WCUAmount, schema.WCUPeriod)
	return map[string]*store.Create{
		"ns1/BUCKET#user-1#gpt-4#0 #STATE": {
			Bucket: store.Bucket{Entity: "user-1", Resource: "gpt-4"},
			Now:    1700000000000, ShardCount: 1, ExpiresAt: 1700000420, Writes: wcu,
			Limits: []store.NewLimit{
				whole("rpm", 9000, 1000, 10_000, 10_000, 60_000),
				whole("tpm", 900_000, 100_000, 1_000_000, 1_000_000, 60_000),
			},
		},
		"ns1/BUCKET#key-1#gpt-4#0 #STATE": {
			Bucket: store.Bucket{Entity: "key-1", Resource: "gpt-4"},
			Now:    1700000020000, ShardCount: 1, ExpiresAt: 1700000440, Writes: wcu,
			Owner: store.Owner{Cascade: true, Parent: "proj-1", Generation: 1700000020000, Incarnation: "12237d82a08a3bce"},
			Limits: []store.NewLimit{
				whole("rpm", 9000, 1000, 10_000, 10_000, 60_000),
				whole("tpm", 1_000_000, 0, 1_000_000, 1_000_000, 60_000),
			},
		},
		"ns1/BUCKET#user-1#gpt-4#1 #STATE": {
			Bucket: store.Bucket{Entity: "user-1", Resource: "gpt-4", Shard: 1},
			Now:    1700000081000, ShardCount: 2, ExpiresAt: 1700000501, Writes: wcu,
			Limits: []store.NewLimit{
				whole("rpm", 4000, 1000, 10_000, 10_000, 60_000),
				whole("tpm", 500_000, 0, 1_000_000, 1_000_000, 60_000),
			},
		},
	}
}

// peerImage is the image of the item that the peer creates.
func peerImage(c *store.Create) *store.Image {
	img := image(c)
	img.CreatedAt, img.Hour = 0, 0
	return img
}

func TestBucketsAreWrittenAsThePeerWritesThem(t *testing.T) {
	t.Parallel()
	for key, c := range first() {
		ours := schema.EncodeNewBucket("ns1", false, c)
		for _, attr := range []string{schema.Created, schema.OpenHour, schema.Acquires} { // the peer ignores them
			delete(ours, attr)
		}
		if diff := cmp.Diff(wire(peerItem(t, key)), wire(ours)); diff != "" {
			t.Errorf("%s (-peer +ours):\n%s", key, diff)
		}
		got, err := schema.DecodeBucket(peerItem(t, key))
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if diff := cmp.Diff(peerImage(c), got, anyRoom); diff != "" {
			t.Errorf("%s decoded (-want +got):\n%s", key, diff)
		}
	}
}

func bucketLaw(t *rapid.T) {
	c := creates(t)
	got, err := schema.DecodeBucket(schema.EncodeNewBucket(namespaces.Draw(t, "namespace"), rapid.Bool().Draw(t, "spread"), c))
	if err != nil {
		t.Fatal(err)
	}
	want := image(c)
	want.PositionCap = got.PositionCap // see TestRoomForPositions
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("decoded (-want +got):\n%s", diff)
	}
}

func TestBucketRoundTrip(t *testing.T) { law(t, bucketLaw) }

func FuzzBucketRoundTrip(f *testing.F) { fuzz(f, bucketLaw) }

const stateKey = "ns1/BUCKET#user-1#gpt-4#0 #STATE"

// edited is the peer's first bucket with changes; nil deletes.
func edited(tb testing.TB, changes schema.Item) schema.Item {
	tb.Helper()
	item := peerItem(tb, stateKey)
	maps.Copy(item, changes)
	for attr, v := range changes {
		if v == nil {
			delete(item, attr)
		}
	}
	return item
}

func n(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

// softUntil gives the first limit of an image the stamp of a soft one.
func softUntil(at int64) func(*store.Image) {
	return func(i *store.Image) { i.Limits[0].SetExtra(store.Extra{SoftUntil: at}) }
}

func TestDecodeBucket(t *testing.T) {
	t.Parallel()
	base := peerImage(first()[stateKey])
	for name, c := range map[string]struct {
		changes schema.Item
		want    func(*store.Image)
	}{
		"unknown attributes": {
			schema.Item{"x": n("nonsense"), "b_": n("?"), "b_x": n("?"), "b__tk": n("1"), "b_rpm_new": n("?"), "b_1x_tk": n("1"), "b_1x_cp": n("1")},
			func(*store.Image) {},
		},
		"no shard count":    {schema.Item{schema.ShardCount: nil}, func(i *store.Image) { i.ShardCount = 1 }},
		"shard count below": {schema.Item{schema.ShardCount: n("-3")}, func(i *store.Image) { i.ShardCount = 1 }},
		"many shards":       {schema.Item{schema.ShardCount: n("32")}, func(i *store.Image) { i.ShardCount = 32 }},
		"no expiry":         {schema.Item{schema.TTL: nil}, func(i *store.Image) { i.ExpiresAt = 0 }},
		"expired at zero":   {schema.Item{schema.TTL: n("0")}, func(i *store.Image) { i.ExpiresAt = 1 }},
		"trim asked for":    {schema.Item{schema.ValidUntil: n("0")}, func(i *store.Image) { i.HasValidUntil = true }},
		"valid until": {schema.Item{schema.ValidUntil: n("1700006400000")}, func(i *store.Image) {
			i.HasValidUntil, i.ValidUntil = true, 1700006400000
		}},
		"disabled":           {schema.Item{schema.Disabled: schema.Bool(true)}, func(i *store.Image) { i.Disabled = true }},
		"disabled, strange":  {schema.Item{schema.Disabled: schema.S("")}, func(i *store.Image) { i.Disabled = true }},
		"bypassed":           {schema.Item{schema.Bypass: n("99")}, func(i *store.Image) { i.Bypassed, i.MarkedUntil = true, 99 }},
		"bypassed, old":      {schema.Item{schema.Bypass: schema.Bool(true)}, func(i *store.Image) { i.Bypassed, i.MarkedUntil = true, -1 }},
		"bypassed, and off":  {schema.Item{schema.Bypass: n("99"), schema.Disabled: schema.Bool(true)}, func(i *store.Image) { i.Disabled = true }},
		"the end of another": {schema.Item{schema.Bypass: n("99"), schema.DisabledUntil: n("50")}, func(i *store.Image) { i.Bypassed, i.MarkedUntil = true, 99 }},
		"soft":               {schema.Item{"b_rpm_soft": n("99")}, softUntil(99)},
		"soft, before 0.17":  {schema.Item{"b_rpm_soft": schema.Bool(true)}, softUntil(-1)},
		"soft, no instant":   {schema.Item{"b_rpm_soft": n("0")}, softUntil(-1)},
		"in shadow": {schema.Item{"b_rpm_soft": n("99"), "b_rpm_mode": schema.S("shadow"), "b_rpm_wr": n("5000"), "b_rpm_wl": n("7")}, func(i *store.Image) {
			i.Limits[0].SetExtra(store.Extra{SoftUntil: 99, Observed: store.Observed{Mode: store.Shadow, Shadowed: 5000, ShadowedAt: 7}})
		}},
		"off": {schema.Item{"b_rpm_soft": n("99"), "b_rpm_mode": schema.S("off")}, func(i *store.Image) {
			i.Limits[0].SetExtra(store.Extra{SoftUntil: 99, Observed: store.Observed{Mode: store.Off}})
		}},
		"in a mode that is not known":        {schema.Item{"b_rpm_soft": n("99"), "b_rpm_mode": schema.S("haunted")}, softUntil(99)},
		"in a mode, and made hard by a peer": {schema.Item{"b_rpm_mode": schema.S("shadow"), "b_rpm_wr": n("5000"), "b_rpm_wl": n("7")}, func(*store.Image) {}},
		"in a mode, and made soft by an old peer": {schema.Item{"b_rpm_soft": schema.Bool(true), "b_rpm_mode": schema.S("off")}, func(i *store.Image) {
			i.Limits[0].SetExtra(store.Extra{SoftUntil: -1, Observed: store.Observed{Mode: store.Off}})
		}},
		"parameter schedule": {schema.Item{schema.Sched: schema.S("2s500")}, func(i *store.Image) { i.Features, i.VariesByDefault = store.Scheduled, true }},
		"own schedule":       {schema.Item{"b_rpm_sched": schema.S("2s500")}, func(i *store.Image) { i.Features = store.Scheduled }},
		"no own schedule":    {schema.Item{"b_rpm_sched": schema.S("-"), "b_rpm_rsched": schema.S("-")}, func(*store.Image) {}},
		"reset schedule": {schema.Item{schema.RSched: schema.S("1m0h0")}, func(i *store.Image) {
			i.Features, i.RenewsByDefault = store.Quota, true
		}},
		"own reset":          {schema.Item{"b_rpm_rsched": schema.S("1m0h0")}, func(i *store.Image) { i.Features = store.Quota }},
		"session":            {schema.Item{"b_rpm_rsa": n("10")}, func(i *store.Image) { i.Features = store.Quota }},
		"schedule and reset": {schema.Item{"b_rpm_rsa": n("10"), "b_tpm_sched": schema.S("2s500")}, func(i *store.Image) { i.Features = store.Scheduled | store.Quota }},
		"left-over window":   {schema.Item{"b_rpm_ws": n("10"), "b_rpm_wa": n("10")}, func(*store.Image) {}},
		"no rate": {schema.Item{"b_rpm_ra": n("0")}, func(i *store.Image) {
			i.Limits[0].Params = &store.Params{Capacity: i.Limits[0].Capacity, Period: i.Limits[0].Period}
		}},
		"balance without capacity":  {schema.Item{"b_rpm_cp": nil}, func(i *store.Image) { i.Limits = i.Limits[1:] }},
		"capacity without balance":  {schema.Item{"b_rpm_tk": nil, "b_rpm_ra": n("?")}, func(i *store.Image) { i.Limits = i.Limits[1:] }},
		"no limits":                 {schema.Item{"b_rpm_cp": nil, "b_tpm_tk": nil}, func(i *store.Image) { i.Limits = nil }},
		"no hidden limit":           {schema.Item{"b_wcu_tk": nil}, func(i *store.Image) { i.Writes = store.LimitState{} }},
		"nothing counted":           {schema.Item{"b_rpm_tc": nil}, func(i *store.Image) { i.Limits[0].Consumed = 0 }},
		"in debt":                   {schema.Item{"b_rpm_tk": n("-91000")}, func(i *store.Image) { i.Limits[0].Tokens = -91000 }},
		"deep in debt":              {schema.Item{"b_rpm_tk": n("-8000000000000000000")}, func(i *store.Image) { i.Limits[0].Tokens = -8e18 }},
		"deeper in debt":            {schema.Item{"b_rpm_tk": n("-8000000000000000001")}, func(i *store.Image) { i.Limits[0].Tokens = -8e18 }},
		"deepest in debt":           {schema.Item{"b_rpm_tk": n("-99999999999999999999999999999999999999")}, func(i *store.Image) { i.Limits[0].Tokens = -8e18 }},
		"counted to 2^63":           {schema.Item{"b_rpm_tc": n("9223372036854775808"), "b_wcu_tc": n("9223372036854776808")}, countedTo(math.MinInt64, math.MinInt64+1000)},
		"counted to 2^64":           {schema.Item{"b_rpm_tc": n("18446744073709551616"), "b_wcu_tc": n("18446744073709551617")}, countedTo(0, 1)},
		"counted to 10^38":          {schema.Item{"b_rpm_tc": n("99999999999999999999999999999999999999")}, countedTo(687399551400673279, base.Writes.Consumed)},
		"returned beyond 2^63":      {schema.Item{"b_rpm_tc": n("-9223372036854775809")}, countedTo(math.MaxInt64, base.Writes.Consumed)},
		"limit called like a field": {schema.Item{"b_a_tk_tk": n("1"), "b_a_tk_cp": n("2"), "b_a_tk_ra": n("3"), "b_a_tk_rp": n("4")}, addLimit("a_tk", 1, 0, 2, 3, 4)},
		"limit with a dot":          {schema.Item{"b_a.b_tk": n("1"), "b_a.b_cp": n("2"), "b_a.b_ra": n("3"), "b_a.b_rp": n("4"), "b_a.b_tc": n("5")}, addLimit("a.b", 1, 5, 2, 3, 4)},
		"parent": {schema.Item{schema.ParentID: schema.S("p"), schema.PGen: n("3"), schema.PInc: schema.S("abc"), schema.Cascade: schema.Bool(true)}, func(i *store.Image) {
			i.Cascade, i.Parent, i.ParentGeneration, i.Incarnation = true, "p", 3, "abc"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := *base
			want.Limits = append([]store.LimitState(nil), base.Limits...)
			c.want(&want)
			got, err := schema.DecodeBucket(edited(t, c.changes))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, got, anyRoom); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func countedTo(rpm, writes int64) func(*store.Image) {
	return func(i *store.Image) { i.Limits[0].Consumed, i.Writes.Consumed = rpm, writes }
}

func addLimit(name string, tokens, consumed, capacity, amount, period int64) func(*store.Image) {
	return func(i *store.Image) {
		i.Limits = append([]store.LimitState{{
			Name: name, Tokens: tokens, Consumed: consumed,
			Params: &store.Params{Capacity: capacity, Amount: amount, Period: period},
		}}, i.Limits...)
	}
}

// The difference of two counts is exact, wherever they are.
func countsLaw(t *rapid.T) {
	digits := rapid.StringMatching(`-?[1-9][0-9]{0,37}`).Draw(t, "count")
	apart := rapid.Int64().Draw(t, "apart")
	from, _ := new(big.Int).SetString(digits, 10)
	to := new(big.Int).Add(from, big.NewInt(apart))
	it := schema.EncodeNewBucket("ns1", false, first()[stateKey])
	read := func(count *big.Int) int64 {
		it["b_rpm_tc"] = n(count.String())
		img, err := schema.DecodeBucket(it)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := img.Limit("rpm")
		return s.Consumed
	}
	if got := read(to) - read(from); got != apart {
		t.Fatalf("from %v to %v is %d, want %d", from, to, got, apart)
	}
}

func TestCountsThatHaveNoEnd(t *testing.T) { law(t, countsLaw) }

func FuzzCountsThatHaveNoEnd(f *testing.F) { fuzz(f, countsLaw) }

// limitsOf returns count limits, in the form of an item that holds limits.
func limitsOf(count int, attr func(limit, field string) string) schema.Item {
	it := schema.Item{}
	for i := range count {
		for _, field := range []string{schema.FieldTokens, schema.FieldCapacity, schema.FieldAmount, schema.FieldPeriod} {
			it[attr(fmt.Sprintf("l%03d", i), field)] = n("1000")
		}
	}
	return it
}

// A peer may set any number of limits. This library does not evaluate more than a write can
// carry, and returns an error.
func TestMoreLimitsThanAWriteCarries(t *testing.T) {
	t.Parallel()
	const here = 2 // other limits of the peer's item
	for count, feature := range map[int]string{store.MaxLimits: "", store.MaxLimits + 1: "more than 32 limits", 500: "more than 32 limits"} {
		img, err := schema.DecodeBucket(edited(t, limitsOf(count-here, schema.LimitAttr)))
		if err != nil || img.Features.String() != feature || len(img.Limits) != count {
			t.Errorf("a bucket of %d limits: %d, features %q, %v", count, len(img.Limits), img.Features, err)
		}
		it := schema.ConfigKey("ns1", store.ConfigKey{}).Item()
		maps.Copy(it, limitsOf(count, func(limit, field string) string { return "l_" + limit + "_" + field }))
		c, err := schema.DecodeConfig(it)
		if err != nil || c.Features.String() != feature || len(c.Limits) != count {
			t.Errorf("a configuration of %d limits: %d, features %q, %v", count, len(c.Limits), c.Features, err)
		}
	}
}

func TestDamagedBucketsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attr string
		v    types.AttributeValue
	}{
		{schema.RF, nil},
		{schema.RF, n("-1")},
		{schema.RF, n("1.5")},
		{schema.RF, schema.S("1700000000000")},
		{schema.RF, n("99999999999999999999")},
		{schema.TTL, n("x")},
		{schema.ValidUntil, schema.S("")},
		{schema.ShardCount, n("1025")},
		{schema.ShardCount, schema.S("2")},
		{schema.PGen, schema.Bool(true)},
		{"b_rpm_tk", n("1e3")},
		{"b_rpm_cp", n("0")},
		{"b_rpm_cp", n("1000000000000000001")},
		{"b_rpm_ra", n("-1")},
		{"b_rpm_ra", nil},
		{"b_rpm_rp", n("0")},
		{"b_rpm_rp", n("1000000000001")},
		{"b_rpm_rp", nil},
		{"b_rpm_tc", schema.S("0")},
		{"b_wcu_ra", nil},
		{"b_rpm_gc", n("1025")},
		{"b_rpm_gc", schema.S("2")},
		{"b_rpm_tu", n("-1")},
		{"b_rpm_tu", n("1000000000000000001")},
		{schema.PK, schema.S("ns1/ENTITY#user-1")},
		{schema.PK, nil},
	} {
		_, err := schema.DecodeBucket(edited(t, schema.Item{c.attr: c.v}))
		corrupt := (*store.CorruptError)(nil)
		if !errors.As(err, &corrupt) || corrupt.Attr != c.attr || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s = %v: got error %v", c.attr, c.v, err)
		}
	}
	if _, err := schema.DecodeBucket(edited(t, schema.Item{schema.SK: schema.S(schema.MetaSK)})); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("the key of a record: got error %v", err)
	}
}

// items are arbitrary items: known names with values of any type.
func items(t *rapid.T) schema.Item {
	names := rapid.OneOf(
		rapid.SampledFrom([]string{
			schema.PK, schema.SK, schema.RF, schema.ShardCount, schema.TTL, schema.ValidUntil, schema.Disabled, schema.Cascade, schema.ParentID,
			schema.PGen, schema.PInc, schema.Sched, schema.RSched, schema.Metadata, schema.CreatedAt, schema.Name, schema.OnUnavailable, schema.Resources,
			schema.NamespaceID, schema.Status, "b_a_tk", "b_a_cp", "b_a_ra", "b_a_rp", "b_wcu_tk", "b_wcu_cp", "l_a_cp", "l_a_ra", "l_a_rp", "w_a_cp", "l_b_cp",
			schema.OpenHour, schema.ClosedHour, schema.DiaryText, schema.Acquires, "b_a_tc", "do_a", "dp_a", "do_", "dp_",
		}),
		rapid.String(),
	)
	values := rapid.Custom(func(t *rapid.T) types.AttributeValue {
		switch rapid.IntRange(0, 8).Draw(t, "type") {
		case 0:
			return schema.S(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
				"ns1/BUCKET#u#r#0", "ns1/ENTITY#u", "ns1/USAGE#r#3", "2026-06#u#21T20-22T20#3#17", "[,rpm]alyk:5=;", schema.StateSK, schema.MetaSK, "-", "2026-01-02T03:04:05Z", "block",
			})).Draw(t, "string"))
		case 1:
			return n(rapid.StringMatching(`-?[0-9]{0,25}([.eE][0-9]+)?`).Draw(t, "number"))
		case 2:
			return schema.Bool(rapid.Bool().Draw(t, "bool"))
		case 3:
			return &types.AttributeValueMemberNULL{Value: true}
		case 4:
			return schema.Set(rapid.SliceOf(rapid.String()).Draw(t, "set")...)
		case 5:
			return &types.AttributeValueMemberM{Value: schema.Item{"k": n("1"), "l": &types.AttributeValueMemberL{}}}
		case 6:
			return nil
		case 7:
			return (*types.AttributeValueMemberN)(nil)
		}
		return (*types.AttributeValueMemberS)(nil)
	})
	return rapid.MapOf(names, values).Draw(t, "item")
}

// For any item, a decoder returns a value or ErrCorrupt.
func decodeLaw(t *rapid.T) {
	item := items(t)
	img, err := schema.DecodeBucket(item)
	check(t, img != nil, err)
	config, err := schema.DecodeConfig(item)
	check(t, config != nil, err)
	hours, err := schema.DecodeDiary(item)
	check(t, hours != nil, err)
	page, err := schema.DecodePage(item)
	check(t, page != nil, err)
	entity, err := schema.DecodeEntity(item)
	check(t, entity != nil, err)
	_, err = schema.DecodeNamespace(item)
	check(t, err == nil, err)
	schema.DecodeVersion(item)
	schema.DecodeResourceRegistry(item)
	schema.DecodeEntityConfigRegistry(item)
	schema.HasPolicy(item)
}

func check(t *rapid.T, value bool, err error) {
	if value != (err == nil) || err != nil && !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("value: %v, error: %v", value, err)
	}
}

func TestDecodersTakeAnything(t *testing.T) { law(t, decodeLaw) }

func FuzzDecodersTakeAnything(f *testing.F) { fuzz(f, decodeLaw) }

// keptHours are attributes with hours of a diary.
var keptHours = schema.Item{
	schema.OpenHour: n("480000"), schema.ClosedHour: n("479999"), schema.Acquires: n("99"), schema.OpenedAttr(""): n("97"), schema.GainedAttr(""): n("4"),
	schema.OpenedAttr("rpm"): n("7000"), schema.GainedAttr("rpm"): n("3000"),
	schema.DiaryText: schema.S("[,rpm]a66j:1o=;1o=;2o=;3o=;4o=;5o=;6o=;7o=;8o=;9o=;ao=;bo=;"),
}

func TestDecodeBucketAllocates(t *testing.T) {
	kept := edited(t, keptHours)
	known, err := schema.DecodeBucket(kept)
	if err != nil || known.Diary == nil {
		t.Fatal(known, err)
	}
	for name, item := range map[string]schema.Item{"no diary": peerItem(t, stateKey), "a known diary": kept} {
		if got := testing.AllocsPerRun(100, func() {
			if _, err := schema.DecodeBucketAfter(item, known); err != nil {
				t.Fatal(err)
			}
		}); got > 2 {
			t.Errorf("%s: %.0f allocations, want the image and its limits", name, got)
		}
	}
}

func BenchmarkDecodeBucket(b *testing.B) {
	kept := edited(b, keptHours)
	known, err := schema.DecodeBucket(kept)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		item  schema.Item
		known *store.Image
	}{{"no diary", peerItem(b, stateKey), nil}, {"a known diary", kept, known}, {"another diary", kept, nil}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schema.DecodeBucketAfter(c.item, c.known); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
