package limitarg_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	var v limitarg.Slots
	for _, arg := range []string{"inflight:20", "batch:4,gpu:1000000"} {
		if err := v.Set(arg); err != nil {
			t.Fatal(err)
		}
	}
	want := []store.SlotLimit{{Name: "inflight", Slots: 20}, {Name: "batch", Slots: 4}, {Name: "gpu", Slots: 1_000_000}}
	if !slices.Equal(v, want) || v.String() != "inflight:20,batch:4,gpu:1000000" {
		t.Errorf("got %v, written %s", want, v.String())
	}
	if n := limitarg.SlotNumbers(v); !maps.Equal(n, map[string]int64{"inflight": 20, "batch": 4, "gpu": 1_000_000}) {
		t.Errorf("the numbers are %v", n)
	}
	for arg, says := range map[string]string{
		"other":         "write name:slots",
		"other=1":       "write name:slots",
		"inflight:1":    "given before",
		"other:0":       "from 1 to 1000000",
		"other:-1":      "from 1 to 1000000",
		"other:many":    "from 1 to 1000000",
		"other:1000001": "from 1 to 1000000",
		"no name:1":     "name",
		"":              "write name:slots",

		"other:1:shadow":     `invalid mode "shadow": slots are always enforced: give other:1 without a mode`,
		"other:1:shadow=10%": `invalid mode "shadow=10%"`,
	} {
		if err := v.Set(arg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", arg, err, says)
		}
	}
}
