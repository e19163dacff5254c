package value_test

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// TestBinaryForm holds the bytes that are on disk.
func TestBinaryForm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		item value.Item
		want string
	}{
		{nil, "00"},
		{value.Item{"s": str("ab")}, "01 0173 01 02 6162"},
		{value.Item{"s": str("")}, "01 0173 01 00"},
		{value.Item{"n": num("-1.5")}, "01 016e 02 04 2d312e35"},
		{value.Item{"b": bin("\x00")}, "01 0162 03 01 00"},
		{value.Item{"x": boolean(false)}, "01 0178 04"},
		{value.Item{"x": boolean(true)}, "01 0178 05"},
		{value.Item{"x": null()}, "01 0178 06"},
		{value.Item{"x": ss("a", "")}, "01 0178 07 02 0161 00"},
		{value.Item{"x": ns("2", "10")}, "01 0178 08 02 0132 023130"},
		{value.Item{"x": bs("", "b")}, "01 0178 09 02 00 0162"},
		{value.Item{"x": list(null(), list())}, "01 0178 0a 02 06 0a 00"},
		{value.Item{"x": mapped(value.Item{"a": mapped(nil)})}, "01 0178 0b 01 0161 0b 00"},
		{value.Item{strings.Repeat("k", 128): null()}, "01 8001" + strings.Repeat("6b", 128) + "06"},
	} {
		want := unhex(t, tc.want)
		if got := value.Encode(tc.item); got != want {
			t.Errorf("%v: got %x, want %x", tc.item, got, want)
		}
		if got := value.AppendItem([]byte("before"), tc.item); string(got) != "before"+want {
			t.Errorf("%v: appended %x", tc.item, got)
		}
		if got := value.Decode(want); !value.EqualItems(got, tc.item) {
			t.Errorf("%x: got %v, want %v", want, got, tc.item)
		}
	}
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBinaryCorrupt(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"nothing":            "",
		"no varint":          "ff",
		"varint too long":    "8000",
		"varint of 11 bytes": "8080808080808080808001",
		"more than there is": "02 0173 01 00",
		"less than there is": "01 0161 06 0162 06",
		"huge count":         "ffffffffffffffff7f",
		"cut name":           "01 02 61",
		"no value":           "01 0173",
		"tag 0":              "01 0173 00",
		"tag 12":             "01 0173 0c",
		"cut string":         "01 0173 01 02 61",
		"names twice":        "02 0161 06 0161 06",
		"nested names twice": "01 0178 0b 02 0161 06 0161 06",
		"cut list":           "01 0178 0a 02 06",
		"cut map":            "01 0178 0b 01 0161",
		"cut set":            "01 0178 07 02 0161",
		"cut binary set":     "01 0178 09 02 0161",
		"huge list":          "01 0178 0a ffffffffffffffff7f",
		"lists too deep":     "01 0178" + strings.Repeat("0a01", value.MaxDepth+1) + "0a00",
		"maps too deep":      "01 0178" + strings.Repeat("0b010178", value.MaxDepth+1) + "0b00",
	} {
		item, err := value.DecodeItem(unhex(t, in))
		if !errors.Is(err, value.ErrEncoding) || item != nil {
			t.Errorf("%s: got %v, %v", name, item, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Decode let damaged data pass")
		}
	}()
	value.Decode("\x01")
}

// Every item that a store can hold survives the round trip, up to the limits.
func TestBinaryLimits(t *testing.T) {
	t.Parallel()
	for _, item := range []value.Item{
		{"x": num("-0." + strings.Repeat("0", 129) + strings.Repeat("1", 38))},
		{"x": nested(value.MaxDepth, null())},
		{"x": nested(value.MaxDepth-1, mapped(nil))},
		{strings.Repeat("x", 65535): str(strings.Repeat("y", 300000))},
	} {
		if got := value.Decode(value.Encode(item)); !value.EqualItems(got, item) {
			t.Errorf("got %v", got)
		}
	}
}

func TestNoBinaryForm(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("nil was encoded")
		}
	}()
	value.Encode(value.Item{"x": nil})
}

// TestBinaryRoundTrip: an item survives. A decoded item can be changed, and the change shows in
// no other value. An update of the encoding equals the encoding of the update.
func TestBinaryRoundTrip(t *testing.T) {
	t.Parallel()
	items := rapid.MapOfN(rapid.StringN(1, 8, -1), values(3), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		item, err := value.NormalizeItem(items.Draw(t, "item"))
		if err != nil {
			t.Fatal(err)
		}
		data := value.Encode(item)
		got := value.Decode(data)
		if !value.EqualItems(got, item) || value.Size(got) != value.Size(item) {
			t.Fatalf("got %v, want %v", got, item)
		}
		for name, v := range got {
			scribble(v)
			delete(got, name)
			delete(item, name)
			if !value.EqualItems(got, item) {
				t.Fatalf("writing to %s showed in %v", name, got)
			}
		}
		if item := value.Decode(data); value.Encode(item) == "" || len(value.Encode(item)) != len(data) {
			t.Fatalf("writing to what was decoded showed in the data: %v", item)
		}
		old := value.Decode(data)
		next := maps.Clone(old)
		var touched []string
		for _, name := range slices.Sorted(maps.Keys(old)) {
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				delete(next, name)
				touched = append(touched, name)
			case 1:
				next[name] = num("7")
				touched = append(touched, name)
			}
		}
		for _, name := range []string{"new", "newer"}[rapid.IntRange(0, 2).Draw(t, "more"):] {
			next[name] = str(name)
			touched = append(touched, name)
		}
		touched = append(touched, "in neither")
		if got := value.Decode(value.Update(data, next, touched)); !value.EqualItems(got, next) {
			t.Fatalf("updated to %v, want %v", got, next)
		}
	})
}

// FuzzBinaryItem: bytes are rejected, or they decode to an item that survives encoding and takes
// the same bytes in any order.
func FuzzBinaryItem(f *testing.F) {
	for _, item := range []value.Item{
		nil,
		{"pk": str("a"), "n": num("-1.5"), "b": bin("\x00"), "t": boolean(true), "f": boolean(false), "z": null()},
		{"ss": ss("a", "b"), "ns": ns("1", "2"), "bs": bs("", "a")},
		{"l": list(str("a"), list(), mapped(value.Item{"x": num("100000000000000000000")})), "m": mapped(value.Item{"a": list(null())})},
		{"deep": nested(value.MaxDepth, str("x"))},
	} {
		f.Add(value.Encode(item))
		f.Add(value.Encode(item) + "rest")
	}
	f.Fuzz(func(t *testing.T, data string) {
		item, err := value.DecodeItem(data)
		if err != nil {
			if !errors.Is(err, value.ErrEncoding) || item != nil {
				t.Errorf("got %v, %v", item, err)
			}
			return
		}
		again := value.Encode(item)
		if len(again) != len(data) || !value.EqualItems(value.Decode(again), item) {
			t.Errorf("%x is encoded as %x", data, again)
		}
		for name := range item {
			if got := value.Decode(value.Update(data, item, []string{name})); !value.EqualItems(got, item) {
				t.Errorf("%x: rewriting %q made %v", data, name, got)
			}
		}
	})
}

// tenAttributes returns an item of 400 bytes by AWS's count.
func tenAttributes() value.Item {
	item := value.Item{
		"PK": str("0123456789/ENTITY#user-00000001"), "SK": str("#BUCKET#gpt-4#0"), "entity": str("user-00000001"), "resource": str("gpt-4-turbo-2026"),
		"note": str(strings.Repeat("n", 98)), "tk": num("900000000000000000"), "tc": num("1000"), "rf": num("1790000000000"), "ttl": num("1790000000"), "text": str(""),
	}
	item["text"] = str(strings.Repeat("t", 400-value.Size(item)))
	return item
}

// TestBinaryAllocations: a decoded item is a map, which takes up to four allocations for more
// than eight attributes, and a block for each type. Its strings are the data's own. An encoded
// item is its string, and two more allocations when the pool has no buffer: under the race
// detector the pool drops a quarter of them.
func TestBinaryAllocations(t *testing.T) {
	item := tenAttributes()
	data := value.Encode(item)
	if len(data) > 480 {
		t.Errorf("400 bytes are encoded as %d", len(data))
	}
	buf := make([]byte, 0, len(data))
	for _, tt := range []struct {
		name   string
		budget float64
		do     func()
	}{
		{"Decode", 6, func() { value.Decode(data) }},
		{"AppendItem", 0, func() { buf = value.AppendItem(buf[:0], item) }},
		{"Encode", 2, func() { value.Encode(item) }},
	} {
		if n := testing.AllocsPerRun(100, tt.do); n > tt.budget {
			t.Errorf("%s took %v allocations, want at most %v", tt.name, n, tt.budget)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	item := tenAttributes()
	b.ReportAllocs()
	for b.Loop() {
		value.Encode(item)
	}
	b.ReportMetric(float64(len(value.Encode(item))), "bytes/item")
}

func BenchmarkDecode(b *testing.B) {
	data := value.Encode(tenAttributes())
	b.ReportAllocs()
	for b.Loop() {
		value.Decode(data)
	}
}
