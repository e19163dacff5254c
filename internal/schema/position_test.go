package schema_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// An item is read with its positions, by name. There may be as many as cost no unit and leave the diary
// 40 bytes. What is no number is nobody's position.
func TestRoomForPositions(t *testing.T) {
	t.Parallel()
	item := func(bytes int, positions ...string) schema.Item {
		it := peerItem(t, stateKey)
		for _, name := range positions {
			it[schema.PositionAttr(name)] = n("1800000000000")
		}
		it["x"] = schema.S("")
		it["x"] = schema.S(strings.Repeat("x", bytes-schema.ItemSize(it)))
		return it
	}
	for _, bytes := range []int{500, 600, 908, 946, 947, 966, 1000, 1100, 2000} {
		img, err := schema.DecodeBucket(item(bytes))
		if err != nil {
			t.Fatal(err)
		}
		// 16 bytes are for counts that grow, 40 for the diary, 4 for the count of positions.
		want := min(store.MostPositions, max(0, (1024-(bytes+16-1)%1024-1-40-4)/19))
		if int(img.PositionCap) != want {
			t.Errorf("%d bytes: %d positions, want %d", bytes, img.PositionCap, want)
		}
	}
	it := item(700, "bbbbbbbb0", "aaaaaaaa1", "aaaaaaaa0", "cccccccc0", "dddddddd0", "eeeeeeee0")
	it[schema.PositionAttr("zzzzzzzz0")], it[schema.PositionCount] = schema.S("?"), n("3006")
	img, err := schema.DecodeBucket(it)
	if err != nil || len(img.Positions) != 6 || img.Positions[0].Name != "aaaaaaaa0" || img.NumberAt("eeeeeeee0") != 1_800_000_000_000 || img.NumberAt("zzzzzzzz0") != 0 || img.PositionCap/store.PositionRound != 3 {
		t.Errorf("positions %v, %v", img, err)
	}
	for _, count := range []string{"-1001", "2147484000", "1e30"} {
		it[schema.PositionCount] = n(count)
		if img, err := schema.DecodeBucket(it); err != nil || img.PositionCap != 0 {
			t.Errorf("a count of %s: %v, %v", count, img, err)
		}
	}
}
