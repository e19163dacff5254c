package schema_test

import (
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
				var all []lent
				for attr, v := range item {
					s := schema.ScalarOf(v)
					all = append(all, lent{[]byte(attr), []byte(s.Text), s.Kind})
				}
				got, err := schema.DecodeBucketFrom(all, func(a *lent) (string, schema.Scalar) {
					return lend(a.name), schema.Scalar{Kind: a.kind, Text: lend(a.text)}
				}, asked, []string{"rpm"}, nil)
				for _, a := range all {
					clear(a.name)
					clear(a.text)
				}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}
