package schema_test

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

var diaryBucket = store.Bucket{Entity: "user-1", Resource: "gpt-4/x", Shard: 3}

// diaryItem returns a bucket item that counts hour 495022. "old" is a limit that was
// removed from it.
func diaryItem(edit schema.Item) schema.Item {
	it := schema.BucketKey("ns1", diaryBucket).Item()
	maps.Copy(it, schema.Item{
		schema.Created: n("1700000000000"), schema.ShardCount: n("4"),
		schema.OpenHour: n("495022"), schema.ClosedHour: n("495021"), schema.DiaryText: schema.S("[,rpm]alyk:5=;"),
		schema.Acquires: n("17"), "do_": n("15"), "dp_": n("3"),
		"b_rpm_tk": n("1"), "b_rpm_cp": n("1"), "b_rpm_tc": n("9000"), "do_rpm": n("7000"), "dp_rpm": n("-1500"),
		"b_new_tc": n("4000"),
		"b_old_tc": n("100"), "do_old": n("100"), "dp_old": n("50"),
		// The count has wrapped.
		"b_tpm_tc": n("9223372036854775809"), "do_tpm": n("-9223372036854775807"), "dp_tpm": n("0"),
		"b_big_tc": n("9223372036854775809"), "do_big": n("9223372036854775807"),
		"b_wcu_tc": n("17000"), "b_wcu_tk": n("1"),
		"b_a#b_tc": n("1"), "dp_a#b": n("1"), // no limit has such a name
	})
	for attr, v := range edit {
		it[attr] = v
		if v == nil {
			delete(it, attr)
		}
	}
	return it
}

func TestDecodeDiary(t *testing.T) {
	t.Parallel()
	got, err := schema.DecodeDiary(diaryItem(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := &schema.Diary{
		Bucket: diaryBucket, Life: 1_700_000_000_000, Shards: 4,
		Closed: []diary.Entry{
			{Hour: 495_020, Amounts: []store.Amount{{Milli: 5}, {Limit: "rpm", Milli: 5000}}},
			{Hour: 495_021, Amounts: []store.Amount{{Milli: 3}, {Limit: "old", Milli: 50}, {Limit: "rpm", Milli: -1500}}},
		},
		Open: diary.Entry{Hour: 495_022, Amounts: []store.Amount{{Milli: 2}, {Limit: "big", Milli: 2}, {Limit: "new", Milli: 4000}, {Limit: "rpm", Milli: 2000}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		edit         schema.Item
		closed, open int
	}{
		"no diary":         {schema.Item{schema.OpenHour: nil}, 0, 0},
		"no closed hour":   {schema.Item{schema.ClosedHour: nil}, 1, 4},
		"no text":          {schema.Item{schema.DiaryText: nil}, 1, 4},
		"no life":          {schema.Item{schema.Created: nil}, 2, 4},
		"nothing acquired": {schema.Item{schema.Acquires: nil, "do_": nil}, 2, 3},
	} {
		got, err := schema.DecodeDiary(diaryItem(c.edit))
		if err != nil || len(got.Closed) != c.closed || len(got.Open.Amounts) != c.open {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestDamagedDiariesAreNamed(t *testing.T) {
	t.Parallel()
	for attr, v := range map[string]types.AttributeValue{
		schema.OpenHour: n("4950220000"), schema.ClosedHour: schema.S("1"), schema.DiaryText: schema.S("[,rpm]alyk:5="),
		schema.Acquires: n("1.5"), schema.Created: n("x"), "dp_rpm": n("1e3"), "b_rpm_tc": schema.S("0"), "do_rpm": n(""),
		schema.PK: schema.S("ns1/ENTITY#user-1"), schema.SK: schema.S(schema.MetaSK),
	} {
		_, err := schema.DecodeDiary(diaryItem(schema.Item{attr: v}))
		corrupt := (*store.CorruptError)(nil)
		named := attr
		switch attr {
		case schema.SK:
			named = schema.PK
		case "do_rpm":
			named = "b_rpm_tc"
		}
		if !errors.As(err, &corrupt) || corrupt.Attr != named || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s = %v: got error %v", attr, v, err)
		}
	}
}

func drawnPage(t *rapid.T) *schema.Page {
	p := &schema.Page{Bucket: buckets(t), Life: rapid.Int64().Draw(t, "life")}
	month := diary.HourOf(time.Date(2026, time.Month(rapid.IntRange(1, 12).Draw(t, "month")), 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	for _, hour := range rapid.SliceOfNDistinct(rapid.Int32Range(0, 28*24-1), 1, 40, rapid.ID[int32]).Draw(t, "hours") {
		p.Entries = append(p.Entries, diary.Entry{Hour: month + hour, Amounts: []store.Amount{{Limit: "rpm", Milli: rapid.Int64Range(1, math.MaxInt64).Draw(t, "milli")}}})
	}
	return p
}

// A page is read as it was written, and is ordered by month and entity.
func pageLaw(t *rapid.T) {
	ns := namespaces.Draw(t, "namespace")
	p, other := drawnPage(t), drawnPage(t)
	got, err := schema.DecodePage(schema.EncodePage(ns, p, time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Fatalf("decoded (-want +got):\n%s", diff)
	}
	key := p.Key(ns)
	month := schema.Month(p.Entries[0].Hour)
	if !strings.HasPrefix(key.SK, schema.PageSK(month, p.Entity)) || key.PK != schema.PagePK(ns, p.Resource, schema.PagePart(p.Entity)) {
		t.Fatalf("the key is %s", key)
	}
	later := other.Key(ns).SK
	if by := month.Compare(schema.Month(other.Entries[0].Hour)); by != 0 && by != strings.Compare(key.SK, later) ||
		by == 0 && p.Entity != other.Entity && strings.Compare(p.Entity, other.Entity) != strings.Compare(key.SK, later) {
		t.Fatalf("%s and %s are not in the order of month and entity", key.SK, later)
	}
}

func TestPageRoundTrip(t *testing.T) { law(t, pageLaw) }

func FuzzPageRoundTrip(f *testing.F) { fuzz(f, pageLaw) }

// The form of pages is the table's, so it does not change.
func TestPage(t *testing.T) {
	t.Parallel()
	p := &schema.Page{Bucket: diaryBucket, Life: 1_700_000_000_000, Entries: []diary.Entry{
		{Hour: 495_020, Amounts: []store.Amount{{Milli: 5}, {Limit: "rpm", Milli: 5000}}},
		{Hour: 495_044, Amounts: []store.Amount{{Milli: 1}}},
	}}
	want := wire(schema.Item{
		"PK": schema.S("ns1/USAGE#gpt-4/x#4"), "SK": schema.S("2026-06#user-1#21T20-22T20#3#1700000000000"),
		"entity_id": schema.S("user-1"), "resource": schema.S("gpt-4/x"), "dt": schema.S("[,rpm]alyk:5=;o:1;"), "ttl": n("1"),
	})
	if diff := cmp.Diff(want, wire(schema.EncodePage("ns1", p, time.Unix(1, 0)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	month := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	it := schema.PageMonthKey("ns1", month).Item()
	it[schema.Resources] = schema.Set("b", "a")
	got, resources, err := schema.DecodePageMonth(it)
	if err != nil || !got.Equal(month) || !cmp.Equal(resources, []string{"a", "b"}) || schema.KeyOf(it).String() != "ns1/USAGE# 2026-06" {
		t.Errorf("%s has %s of %v, %v", schema.KeyOf(it), resources, got, err)
	}
}

func TestDamagedPagesAreNamed(t *testing.T) {
	t.Parallel()
	good := func() schema.Item {
		return schema.EncodePage("ns1", &schema.Page{Bucket: diaryBucket, Entries: []diary.Entry{{Hour: 495_020, Amounts: []store.Amount{{Milli: 5}}}}}, time.Time{})
	}
	for attr, values := range map[string][]string{
		schema.SK:        {"", "2026-06", "2026-06#user-1#22T20-22T20#3", "2026-06##22T20-22T20#3#0", "2026-06#user-1#22T20-22T20#x#0", "2026-06#user-1#22T20-22T20#3#x"},
		schema.PK:        {"ns1/ENTITY#user-1", "ns1/USAGE##3", "USAGE#gpt-4#3"},
		schema.DiaryText: {"", "[,rpm]alyk:5="},
	} {
		for _, v := range values {
			it := good()
			it[attr] = schema.S(v)
			_, err := schema.DecodePage(it)
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s = %q: got error %v", attr, v, err)
			}
		}
	}
	if _, _, err := schema.DecodePageMonth(schema.Key{PK: "ns1/USAGE#", SK: "June"}.Item()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a month: got error %v", err)
	}
}
