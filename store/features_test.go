package store_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/store"
)

// An error names the first feature in one order, whatever others there are.
func TestFeaturesAreNamed(t *testing.T) {
	t.Parallel()
	for f, want := range map[store.Features]string{
		0:                              "",
		store.Scheduled:                "parameter schedule",
		store.Scheduled | store.Quota:  "parameter schedule",
		store.Quota | store.ManyLimits: "quota",
		store.ManyLimits:               "more than 32 limits",
		store.ManyLimits | 1<<7:        "more than 32 limits",
		1 << 7:                         "feature 0x80",
	} {
		if got := f.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint8(f), got, want)
		}
	}
	img := store.Image{Features: store.Quota}
	if img.IsEvaluable() || img.Features.Unsupported() != store.Quota {
		t.Error("this version evaluates no feature of a peer yet")
	}
}
