package schema_test

import (
	"maps"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A lent is an attribute whose strings are overwritten after a while.
type lent struct {
	name, text []byte
	kind       schema.Kind
}

func lend(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// decodeLent decodes an item, and then overwrites it.
func decodeLent(item schema.Item, asked store.Bucket, names []string, known *store.Image) (*store.Image, error) {
	var all []lent
	for attr, v := range item {
		s := schema.ScalarOf(v)
		all = append(all, lent{[]byte(attr), []byte(s.Text), s.Kind})
	}
	img, err := schema.DecodeBucketFrom(all, func(a *lent) (string, schema.Scalar) {
		return lend(a.name), schema.Scalar{Kind: a.kind, Text: lend(a.text)}
	}, asked, names, known)
	for _, a := range all {
		clear(a.name)
		clear(a.text)
	}
	return img, err
}

// An image has no string of the memory from which it was decoded.
func TestABucketIsCopied(t *testing.T) {
	t.Parallel()
	text := func(s string) schema.Item { return schema.Item{schema.PInc: schema.S(s), schema.PGen: n("3")} }
	for name, changes := range map[string]schema.Item{
		"no owner":       {},
		"an incarnation": text("incarnation"),
		"a parent":       {schema.ParentID: schema.S("parent")},
		"both":           {schema.ParentID: schema.S("parent"), schema.PInc: schema.S("incarnation"), schema.PGen: n("3")},
		"a diary": {
			schema.OpenHour: n("480000"), schema.ClosedHour: n("479998"), schema.DiaryText: schema.S("[,rpm]aaaa:1,1;"),
			schema.GainedAttr(""): n("3"), schema.GainedAttr("rpm"): n("3000"), "b_gone_tc": n("5"),
		},
		"a limit of long name": {"b_long_name_tk": n("1"), "b_long_name_cp": n("2"), "b_long_name_ra": n("3"), "b_long_name_rp": n("4")},
	} {
		for from, asked := range map[string]store.Bucket{"asked for": {Entity: "user-1", Resource: "gpt-4"}, "another": {}} {
			t.Run(name+", "+from, func(t *testing.T) {
				t.Parallel()
				item := edited(t, changes)
				want, err := schema.DecodeBucket(item)
				if err != nil {
					t.Fatal(err)
				}
				got, err := decodeLent(item, asked, []string{"rpm"}, nil)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}

// The diary of a known image is kept as long as it is that of the item.
func TestAKnownDiaryIsKept(t *testing.T) {
	t.Parallel()
	decode := func(item schema.Item, known *store.Image) *store.Image {
		t.Helper()
		img, err := decodeLent(item, store.Bucket{}, nil, known)
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	kept := schema.Item{schema.OpenHour: n("480000"), schema.ClosedHour: n("479998"), schema.GainedAttr("rpm"): n("3000")}
	open, closed := schema.Item{"b_gone_tc": n("5")}, schema.Item{schema.GainedAttr("gone"): n("5")}
	none := schema.Item{}
	for name, c := range map[string]struct {
		first, then schema.Item
		isKept      bool
	}{
		"unchanged":                         {none, none, true},
		"a limit was removed":               {none, open, false},
		"a removed limit is still there":    {open, open, true},
		"a removed limit was closed":        {open, closed, false},
		"a closed limit is still there":     {closed, closed, true},
		"the last of a limit has gone":      {closed, none, false},
		"another hour":                      {none, schema.Item{schema.OpenHour: n("480001")}, false},
		"another item":                      {none, schema.Item{schema.Created: n("480001")}, false},
		"another hour, and a removed limit": {open, schema.Item{"b_gone_tc": n("5"), schema.OpenHour: n("480001")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := func(changes schema.Item) schema.Item {
				item := edited(t, kept)
				maps.Copy(item, changes)
				return item
			}
			known := decode(with(c.first), nil)
			got := decode(with(c.then), known)
			if diff := cmp.Diff(decode(with(c.then), nil), got); diff != "" || (got.Diary == known.Diary) != c.isKept {
				t.Errorf("kept: %v (-want +got):\n%s", got.Diary == known.Diary, diff)
			}
		})
	}
}
