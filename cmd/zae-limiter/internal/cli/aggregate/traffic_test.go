package aggregate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/aggregate"
	"github.com/zeroae/zae-limiter-go/store"
)

// The names of the metrics are as Prometheus wants them.
func TestTrafficPassesTheLinter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	last := aggregator.Traffic{To: now, Shards: []aggregator.ShardTraffic{busy("user", 0)}}
	families, err := aggregate.GatherTraffic(func() aggregator.Traffic { return last }, func() time.Time { return now }).Gather()
	if err != nil || len(families) != 4 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// series are the values of a gatherer, by name and labels.
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{strings.TrimPrefix(f.GetName(), "zae_limiter_aggregator_shard_")}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetValue())
			}
			all[strings.Join(name, " ")] = m.GetGauge().GetValue()
		}
	}
	return all
}

// busy is the traffic of a shard of an entity.
func busy(entity string, shard int) aggregator.ShardTraffic {
	return aggregator.ShardTraffic{
		Namespace: "ns", Bucket: store.Bucket{Entity: entity, Resource: "gpt-4", Shard: shard},
		Writes: 6_000, WritesLeft: 300, Doublings: 1, Throttles: 2,
	}
}

// The metrics are the traffic of the minute before, and nothing once it is longer ago.
func TestTrafficIsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	last := aggregator.Traffic{}
	g := aggregate.GatherTraffic(func() aggregator.Traffic { return last }, func() time.Time { return now })
	if got := series(t, g); len(got) != 0 {
		t.Errorf("before the first minute: %v", got)
	}
	last = aggregator.Traffic{
		From: now.Add(-time.Minute), To: now, Shards: []aggregator.ShardTraffic{busy("user", 0), busy("user", 1)},
		Other: aggregator.ShardTraffic{Writes: 60, WritesLeft: 900},
	}
	now = now.Add(59 * time.Second)
	got := series(t, g)
	for name, want := range map[string]float64{
		"writes_per_second user ns gpt-4 0": 100, "writes_left user ns gpt-4 1": 300, "doublings user ns gpt-4 0": 1, "throttles user ns gpt-4 1": 2,
		"writes_per_second _other _other _other _other": 1, "writes_left _other _other _other _other": 900,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if len(got) != 3*4 {
		t.Errorf("%d series: %v", len(got), got)
	}
	now = now.Add(time.Second)
	if got := series(t, g); len(got) != 0 {
		t.Errorf("a minute later: %v", got)
	}
}

// Other buckets are busy every minute, and no more than 100 of a day have series. The rest is
// with the others, and nothing is lost.
func TestTrafficIsBoundedOverTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0).UTC().Truncate(24 * time.Hour)
	var last aggregator.Traffic
	g := aggregate.GatherTraffic(func() aggregator.Traffic { return last }, func() time.Time { return now })
	for day := range 2 {
		seen := map[string]bool{}
		for minute := range 24 * 60 {
			last = aggregator.Traffic{To: now, Other: aggregator.ShardTraffic{Writes: 60, WritesLeft: 900}}
			for n := range 10 {
				last.Shards = append(last.Shards, busy(fmt.Sprintf("user-%d-%d-%d", day, minute, n), 0))
			}
			sum := 0.0
			for name, value := range series(t, g) {
				seen[name] = true
				if strings.HasPrefix(name, "writes_per_second ") {
					sum += value
				}
			}
			if sum != 1001 {
				t.Fatalf("day %d, minute %d: %v writes a second", day, minute, sum)
			}
			now = now.Add(time.Minute)
		}
		if len(seen) != 4*(100+1) {
			t.Errorf("day %d: %d series", day, len(seen))
		}
	}
}
