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
		aggregator.Result{Records: 3, Pages: 2, Hours: 4, Days: 1, Refills: 1, Healed: 2, Braked: 1},
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
		"zae_limiter_aggregator_writes_total hour":     4,
		"zae_limiter_aggregator_writes_total day":      1,
		"zae_limiter_aggregator_writes_total refill":   1,
		"zae_limiter_aggregator_writes_total doubling": 1,
		"zae_limiter_aggregator_writes_total merge":    0,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}

// The totals have a line about the Python package where there is something to say.
func TestTotalsTellOfThePythonPackage(t *testing.T) {
	t.Parallel()
	const none = "3 records: 2 pages of usage, 0 refills, 0 doublings, 0 mends, 0 merges, 0 audit events archived; 0 failed, 0 cannot be read, 0 errors\n"
	if got := aggregate.Totals(aggregator.Result{Records: 3, Pages: 2}); got != none {
		t.Errorf("without the package: %s", got)
	}
	got := aggregate.Totals(aggregator.Result{Records: 2, Pages: 2, Hours: 4, PeerUsage: 5}, aggregator.Result{Records: 1, Hours: 1, Days: 1, PeerUsage: 2})
	const both = none + "For the Python package: 5 hours closed, 1 days copied\n" +
		"The aggregator of the Python package wrote usage to this table, too, 7 times. Switch it off: what it counts is in the hours of buckets, too\n"
	if got != both {
		t.Errorf("with the package: %s", got)
	}
}
