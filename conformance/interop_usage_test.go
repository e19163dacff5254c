//go:build conformance

package conformance_test

import (
	"encoding/json"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A peerSnapshot is a usage snapshot as the peer shows it.
type peerSnapshot struct {
	Entity   string `json:"entity_id"`
	Resource string
	Start    string           `json:"window_start"`
	End      string           `json:"window_end"`
	Window   string           `json:"window_type"`
	Counters map[string]int64 `json:"counters"`
	Events   int64            `json:"total_events"`
}

// snapshots asks the peer.
func (b *both) snapshots(query args) (snapshots []peerSnapshot) {
	b.Helper()
	var answer []json.RawMessage // the snapshots, and where to go on
	b.py.call("get_usage_snapshots", query, &answer)
	b.must(json.Unmarshal(answer[0], &snapshots))
	return snapshots
}

var usageCases = []interopCase{
	{"Python reads the usage that Go counts", func(b *both) {
		newYear := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, w := range []dynamo.Window{dynamo.Hourly, dynamo.Daily, dynamo.Monthly} {
			for i, at := range []time.Time{newYear, newYear.AddDate(0, 0, 40)} {
				b.must(b.store.AddUsage(b.Context(), &dynamo.UsageDelta{
					UsageKey: dynamo.UsageKey{Entity: "user", Resource: "gpt-4", Window: w, Start: w.Start(at)},
					Steps: []dynamo.UsageStep{
						{Shard: i, Sequence: "300000000000000499659", Events: 1, Tokens: []limiter.Amount{{Limit: "rpm", Milli: 1000}, {Limit: "tpm", Milli: 500_000}}},
						{Shard: 2, Sequence: "300000000000000499660", Events: 1, Tokens: []limiter.Amount{{Limit: "rpm", Milli: 1000}, {Limit: "ttl", Milli: 3000}}},
					},
				}))
			}
		}
		shows := func(window, start, end string) peerSnapshot {
			return peerSnapshot{"user", "gpt-4", start, end, window, map[string]int64{"rpm": 2, "tpm": 500, "#ttl": 3}, 2}
		}
		want := []peerSnapshot{
			shows("daily", "2025-02-10T00:00:00Z", "2025-02-10T23:59:59Z"),
			shows("daily", "2025-01-01T00:00:00Z", "2025-01-01T23:59:59Z"),
		}
		query := args{"entity_id": "user", "resource": "gpt-4", "window_type": "daily"}
		if diff := cmp.Diff(want, b.snapshots(query)); diff != "" {
			b.Errorf("by entity and resource (-want +Python):\n%s", diff)
		}
		if got := b.snapshots(args{"entity_id": "user", "window_type": "monthly"}); len(got) != 2 {
			b.Errorf("by entity: %+v", got)
		}
		if b.table == tableMadeBy("python") { // ours keeps keys only in the index that it asks
			if diff := cmp.Diff(want, b.snapshots(args{"resource": "gpt-4", "window_type": "daily"})); diff != "" {
				b.Errorf("by resource (-want +Python):\n%s", diff)
			}
		}
		var sum struct {
			Snapshots int `json:"snapshot_count"`
			Total     map[string]int64
			Average   map[string]float64
		}
		b.py.call("get_usage_summary", query, &sum)
		if diff := cmp.Diff(map[string]int64{"rpm": 4, "tpm": 1000, "#ttl": 6}, sum.Total); diff != "" || sum.Snapshots != 2 || sum.Average["tpm"] != 500 {
			b.Errorf("the summary is %+v", sum)
		}
	}},
}

// readUsage checks that Go adds an entity's usage up to what is wanted.
func (b *both) readUsage(entity string, want map[string]int64) {
	b.Helper()
	for _, q := range []dynamo.UsageQuery{{Entity: entity}, {Entity: entity, Resource: "gpt-4"}, {Resource: "gpt-4"}} {
		q.Window = dynamo.Daily
		page, err := b.store.Usage(b.Context(), q)
		b.must(err)
		got := map[string]int64{}
		for _, u := range page.Snapshots {
			for _, a := range u.Tokens {
				if u.Entity == entity {
					got[a.Limit] += a.Milli / 1000
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("%+v (-want +Go):\n%s", q, diff)
		}
	}
}
