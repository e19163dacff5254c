package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// Every flag of windows reads both spellings, writes one, and refuses other words with the ones
// that it reads.
func TestWindowsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	found := 0
	for _, path := range cli.CommandPaths() {
		all, _, err := cli.Root().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "window" || f.Value.Type() == "duration" {
				return
			}
			found++
			for _, given := range []string{"hourly", "hour", "daily", "day", "monthly", "month"} {
				cmd := parsed(t, path, "--"+f.Name+"="+given)
				want := map[byte]string{'h': "hourly", 'd': "daily", 'm': "monthly"}[given[0]]
				if got := cmd.Flags().Lookup(f.Name).Value.String(); got != want {
					t.Errorf("%s --%s %s: %q, want %s", cmd.CommandPath(), f.Name, given, got, want)
				}
			}
			cmd, _, _ := cli.Root().Find(path)
			if err := cmd.ParseFlags([]string{"--" + f.Name + "=weekly"}); err == nil || !strings.Contains(err.Error(), "give hourly, daily or monthly") {
				t.Errorf("%s --%s weekly: %v", cmd.CommandPath(), f.Name, err)
			}
		})
	}
	if found < 2 { // usage list and summary
		t.Errorf("%d flags have windows", found)
	}
}
