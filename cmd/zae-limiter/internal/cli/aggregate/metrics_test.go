package aggregate_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/aggregate"
)

// The metrics are the sums of the results.
func TestMetricsAreSumsOfResults(t *testing.T) {
	t.Parallel()
	families, err := aggregate.Measure(
		aggregator.Result{Records: 3, Pages: 2, Refills: 1, Healed: 2, Braked: 1},
		aggregator.Result{Records: 1, Doublings: 1, Healed: 1, Braked: 4},
	).Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetValue())
			}
			got[strings.Join(name, " ")] = m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"zae_limiter_aggregator_stamps_healed_total":   3,
		"zae_limiter_aggregator_refills_braked_total":  5,
		"zae_limiter_aggregator_writes_total page":     2,
		"zae_limiter_aggregator_writes_total refill":   1,
		"zae_limiter_aggregator_writes_total doubling": 1,
		"zae_limiter_aggregator_writes_total merge":    0,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}
