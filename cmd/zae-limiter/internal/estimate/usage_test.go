package estimate_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
)

// An aggregator takes the records of each batch window, as an event source mapping would.
// The hour and the day stay the same, so that no window is opened while the bill runs.
func TestLongUsageCostsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]trial{
		"few records of few buckets":    {rate: 10, buckets: 5, run: 5 * time.Minute},
		"many records of few buckets":   {rate: 200, buckets: 10, run: time.Minute},
		"many records of many buckets":  {rate: 100, buckets: 300, run: 2 * time.Minute},
		"children and parents, batches": {rate: 7, buckets: 50, parents: 5, run: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr.limits, tr.warm = wide(1), 30*time.Second
			b, l := billed(t, &tr, 2)
			e, err := estimate.New(l)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range e.Parts {
				if p.Name == estimate.PartUsage { // whose requests leave out the units for new windows
					within(t, "write units of usage", p.Requests, b.Usage, estimate.RatesAccuracy)
				}
			}
		})
	}
}
