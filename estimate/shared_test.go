package estimate_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/estimate"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
)

// Processes that share items lose races for them: for a hot bucket, and for a parent, with
// settlements and limits that are nearly used up. These loads are the ones furthest off.
func TestSharedLoadsCostWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{2, 3, 8} {
		for _, l := range []struct{ name, entities, settle string }{
			{"hot bucket", "{count: 1}", ", settle: {tpm: 100..900}"},
			{"parent", "{count: 20, parents: 1}", ""},
			{"parent, settlements", "{count: 20, parents: 1}", ", settle: {tpm: 100..900}"},
		} {
			t.Run(fmt.Sprintf("%s, %d processes", l.name, processes), func(t *testing.T) {
				t.Parallel()
				checkAccuracy(t, fmt.Sprintf(`
name: shared
seed: 3
limiters: %d
warm-up: 5s
duration: 30s
resources: {r: [tpm:1200000/min]}
entities: {e: %s}
load:
  L:
    from: e
    calls: [{call: acquire, consume: {tpm: 500}%s}]
    rate: 40/s
    poisson: true
`, processes, l.entities, l.settle))
			})
		}
	}
}

// checkAccuracy carries out a scenario on the engine and on the model. It fails if they differ by
// more than Accuracy says. Few reads cost nothing next to the writes.
func checkAccuracy(t *testing.T, text string) {
	t.Helper()
	s, err := scenario.Parse("load", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, o := planned(t, s), estimate.ScenarioOptions{Latency: 5 * ms}
	d := drive(t, p, o)
	r, err := estimate.Scenario(p, o)
	if err != nil {
		t.Fatal(err)
	}
	low, high := estimate.Accuracy(s.Limiters)
	load := sumOf(r.Load)
	for what, units := range map[string][2]float64{
		"operations": {r.Operations, float64(d.operations)},
		"writes":     {load.Writes, d.load.WriteUnits},
		"reads":      {load.Reads, d.load.ReadUnits},
	} {
		estimated, billed := units[0], units[1]
		t.Logf("%s: %.1f estimated, %.1f billed (%+.1f %%)", what, estimated, billed, 100*(estimated/billed-1))
		if much := max(billed, d.load.WriteUnits/100); estimated-billed < -low*much || estimated-billed > high*much {
			t.Errorf("%s: %.1f estimated, %.1f billed, of\n%s", what, estimated, billed, text)
		}
	}
}
