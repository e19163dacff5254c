//go:build conformance

package conformance_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// serve runs zae-limiter local.
func serve(t *testing.T, args ...string) *peers.Served {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return peers.Serve(t, path, args...)
}

// TestAggregator passes the engine's stream to the peer's usage aggregator. On a table with our
// clients it should not run: its snapshots have once more what their diaries have. Our reader
// cannot tell, and returns both.
func TestAggregator(t *testing.T) {
	t.Parallel()
	local := serve(t)
	py := tables(t, &local.Local, "stream")
	interop(t, py, func(b *both) {
		b.project(true)
		b.system(perDay("rpd", 1000), perDay("tpd", 50_000))
		b.take("user", "gpt-4", args{"rpd": 1, "tpd": 1000}) // creates the bucket, which the peer's aggregator does not count as consumption
		b.take("user", "gpt-4", args{"rpd": 10, "tpd": 100})
		b.py.take("user", "gpt-4", args{"rpd": 20, "tpd": 200})
		b.take("user", "gpt-4", args{"rpd": 30})
		b.py.take("single", "gpt-4", args{"tpd": 5})
		b.py.take("single", "gpt-4", args{"tpd": 7})
		b.aggregate(local)
		theirs, ours := map[string]int64{"rpd": 60, "tpd": 300}, map[string]int64{"rpd": 61, "tpd": 1300}
		b.usage("user", theirs, ours)
		b.usage("project", theirs, ours)
		b.usage("single", map[string]int64{"tpd": 7}, nil) // no client of ours has made a diary
	})
}

// aggregate runs the peer's aggregator over the whole stream of the table.
func (b *both) aggregate(local *peers.Served) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), peers.Python(b), "python/aggregator.py", b.table)
	cmd.Env = append(local.Environment, "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("aggregator.py: %v\n%s", err, &stderr)
	}
	var answer struct {
		Passed, Processed int
		SnapshotsUpdated  int `json:"snapshots_updated"`
		Errors            []string
	}
	b.must(json.Unmarshal(out, &answer))
	// Three requests for user and as many for its parent, all with two limits but the last,
	// and one for single.
	if answer.Passed != 7 || answer.Processed != 7 || answer.SnapshotsUpdated != 11 || len(answer.Errors) > 0 {
		b.Errorf("the aggregator says %s\n%s", out, &stderr)
	}
}

// usage checks the sum of the snapshots that the peer has counted of an entity, and that Go
// reads them and ours, from diaries. They are of more than one day only if the test ran at
// midnight.
func (b *both) usage(entity string, theirs, ours map[string]int64) {
	b.Helper()
	var answer []json.RawMessage // the snapshots, and where to continue
	b.py.call("get_usage_snapshots", args{"entity_id": entity, "resource": "gpt-4", "window_type": "daily"}, &answer)
	var snapshots []struct {
		Counters map[string]int64
	}
	b.must(json.Unmarshal(answer[0], &snapshots))
	got := map[string]int64{}
	for _, s := range snapshots {
		for limit, n := range s.Counters {
			got[limit] += n
		}
	}
	for limit, n := range theirs {
		if got[limit] != n {
			b.Errorf("%s has used %v, want %v", entity, got, theirs)
			return
		}
	}
	sum := maps.Clone(theirs)
	for limit, n := range ours {
		sum[limit] += n
	}
	b.readUsage(entity, sum)
}
