package usage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// The peer's aggregator counts twice what buckets keep. Its counts from before it was switched
// off do not count twice, nor do copies of our days.
func TestPeerCounts(t *testing.T) {
	t.Parallel()
	hour, today := usage.Hourly.Start(start), usage.Daily.Start(start)
	old := usage.Key{Entity: "user", Resource: "gpt-4", Window: usage.Hourly, Start: hour}
	for name, c := range map[string]struct {
		window      string
		start       time.Time
		hasNoPages  bool
		isCopy, now bool
	}{
		"nothing":               {},
		"this hour":             {window: "hourly", start: hour, now: true},
		"the hour before":       {window: "hourly", start: hour.Add(-time.Hour), now: true},
		"two hours before":      {window: "hourly", start: hour.Add(-2 * time.Hour)},
		"today":                 {window: "daily", start: today, now: true},
		"yesterday":             {window: "daily", start: today.AddDate(0, 0, -1)},
		"a copy of ours":        {window: "daily", start: today, isCopy: true},
		"no diary was saved":    {window: "hourly", start: hour, hasNoPages: true},
		"a window of no length": {window: "weekly", start: hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := fixture.NewStore(t)
			_, ns := s.Namespace()
			if !c.hasNoPages {
				for _, resource := range []string{"gpt-4", "other"} {
					d := bucketOf("user", 12)
					d.Resource = resource
					save(t, s, d, 8)
				}
			}
			counted(t, s, f, old, 4, map[string]int64{"rpm": 500}) // by an earlier version
			if c.window != "" {
				it := peerUsage(ns, usage.Key{Entity: "user", Resource: "gpt-4", Start: c.start}, c.window, 9)
				if c.isCopy {
					it[schema.DayRead] = schema.S("1")
				}
				fixture.Put(t, f, it)
			}
			found, err := s.Usage().PeerCounts(t.Context())
			if err != nil || len(found) > 0 != c.now || c.now && !slices.Equal(found, []string{"gpt-4"}) {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}
