package aggregate

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go/aggregator"
)

const (
	// others is the label of all buckets that are not told by name. No resource has it: names
	// begin with a letter.
	others = "_other"
	// namesPerDay is how many buckets get series of their own in a day (UTC).
	namesPerDay = 100
)

// A traffic collects the traffic of the last minute. The series at a time are bounded by
// [aggregator.Options.Busiest], and those that a Prometheus stores by namesPerDay: the buckets
// that are busy may be others every minute, and whoever makes requests names them.
type traffic struct {
	last func() aggregator.Traffic
	now  func() time.Time

	writes, left, doublings, throttles *prometheus.Desc

	mu    sync.Mutex
	day   time.Time
	named map[bucketName]bool // in that day
}

type bucketName struct{ namespace, entity, resource string }

func newTraffic(last func() aggregator.Traffic, now func() time.Time) *traffic {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("zae_limiter_aggregator_shard_"+name, help, []string{"namespace_id", "entity", "resource", "shard"}, nil)
	}
	return &traffic{
		last: last, now: now,
		writes:    desc("writes_per_second", "Writes to a shard of a busy bucket in the last minute, whoever wrote."),
		left:      desc("writes_left", "The least that was left of the hidden write limit of the shard in the last minute, of 1000."),
		doublings: desc("doublings", "Doublings of the bucket in the last minute, whoever doubled; shard 0 has them."),
		throttles: desc("throttles", "Writes of the aggregator to the shard that the table throttled in the last minute."),
	}
}

// Describe sends the descriptions of the metrics.
func (c *traffic) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.writes, c.left, c.doublings, c.throttles} {
		to <- d
	}
}

// Collect sends the traffic of the minute before this one, if there was any.
func (c *traffic) Collect(to chan<- prometheus.Metric) {
	t, now := c.last(), c.now()
	if now.Sub(t.To) >= time.Minute {
		return
	}
	send := func(s *aggregator.ShardTraffic, labels ...string) {
		for d, value := range map[*prometheus.Desc]float64{
			c.writes: s.PerSecond(), c.left: float64(s.WritesLeft), c.doublings: float64(s.Doublings), c.throttles: float64(s.Throttles),
		} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
		}
	}
	for i := range t.Shards {
		if s := &t.Shards[i]; c.isNamed(s, now) {
			send(s, s.Namespace, s.Entity, s.Resource, strconv.Itoa(s.Shard))
		} else {
			t.Other.Add(s)
		}
	}
	send(&t.Other, others, others, others, others)
}

// isNamed reports whether a bucket has series of its own. It gets them if there is room today.
func (c *traffic) isNamed(s *aggregator.ShardTraffic, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if day := now.UTC().Truncate(24 * time.Hour); !c.day.Equal(day) {
		c.day, c.named = day, map[bucketName]bool{}
	}
	name := bucketName{s.Namespace, s.Entity, s.Resource}
	if !c.named[name] && len(c.named) < namesPerDay {
		c.named[name] = true
	}
	return c.named[name]
}
