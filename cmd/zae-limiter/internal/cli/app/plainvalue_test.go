package app_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
)

// Times may have days. The error of a text that is no time, number or truth value does not
// name Go's functions.
func TestPlainValues(t *testing.T) {
	t.Parallel()
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	d, n, seed := set.Duration("for", 0, ""), set.Int("max", 0, ""), set.Uint64("seed", 0, "")
	share, sure := set.Float64("share", 0, ""), set.Bool("sure", false, "")
	set.VisitAll(app.Plain)
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1.5h": 90 * time.Minute, "1d": 24 * time.Hour, "1.5d": 36 * time.Hour, "2d3h": 51 * time.Hour, "-1d1h": -25 * time.Hour,
		"0": 0, "0d": 0, "1m30s": 90 * time.Second,
	} {
		if err := set.Set("for", text); err != nil || *d != want {
			t.Errorf("%s: %v, %v", text, *d, err)
		}
	}
	const aTime, aNumber = "give a time: 90s, 1.5h or 1d for instance", "give a whole number"
	for _, c := range []struct{ flag, value, want string }{
		{"for", "d", aTime},
		{"for", "1w", aTime},
		{"for", "", aTime},
		{"for", "1h1d", aTime},
		{"for", "1d1d", aTime},
		{"for", "200000d", aTime},
		{"for", "-200000d", aTime},
		{"for", "9999999h", aTime},
		{"max", "", aNumber},
		{"max", "1e3", aNumber},
		{"max", "1.5", aNumber},
		{"max", "010", aNumber},
		{"max", "0x10", aNumber},
		{"max", "1_000", aNumber},
		{"max", "--1", aNumber},
		{"seed", "0b1", aNumber},
		{"share", "0x1p-2", "give a number, 0.5 for instance"},
		{"share", "Inf", "give a number, 0.5 for instance"},
		{"share", "NaN", "give a number, 0.5 for instance"},
		{"max", "99999999999999999999", "the number is too large: " + aNumber},
		{"seed", "-1", aNumber},
		{"share", "x", "give a number, 0.5 for instance"},
		{"sure", "maybe", "give true or false"},
	} {
		want := `invalid argument "` + c.value + `" for "--` + c.flag + `" flag: ` + c.want
		if err := set.Set(c.flag, c.value); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := set.Parse([]string{"--sure", "--max", "-3", "--seed", "7", "--share=0.25"}); err != nil || !*sure || *n != -3 || *seed != 7 || *share != 0.25 {
		t.Errorf("%v, %d, %d, %v, %v", *sure, *n, *seed, *share, err)
	}
}
