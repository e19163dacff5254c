package estimate_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// Processes that share items lose races for them: for a hot bucket, and for a parent, with
// settlements and limits that are nearly used up. These loads are the ones furthest off.
func TestLongestSharedLoadsCostWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{2, 3, 8} {
		for _, l := range []struct{ name, entities, settle string }{
			{"hot bucket", "{count: 1}", ", settle: {tpm: 100..900}"},
			{"parent", "{count: 20, parents: 1}", ""},
			{"parent, settlements", "{count: 20, parents: 1}", ", settle: {tpm: 100..900}"},
		} {
			t.Run(fmt.Sprintf("%s, %d processes", l.name, processes), func(t *testing.T) {
				t.Parallel()
				checkScenario(t, parsed(t, fmt.Sprintf(`
name: shared
seed: 3
limiters: %d
duration: 30s
resources: {r: [tpm:1200000/min]}
entities: {e: %s}
load:
  L:
    from: e
    calls: [{call: acquire, consume: {tpm: 500}%s}]
    rate: 40/s
    poisson: true
`, processes, l.entities, l.settle)))
			})
		}
	}
}

// parsed is the plan of a scenario.
func parsed(t *testing.T, text string) *scenario.Plan {
	t.Helper()
	s, err := scenario.Parse("load", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return planned(t, s)
}
