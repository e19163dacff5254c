package loadtest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// measurement returns one in which all figures differ.
func measurement(shards int, wrong *int64) *loadtest.Measurement {
	return &loadtest.Measurement{
		Elapsed: 10 * time.Second, Due: 20_500,
		Answers: loadtest.Answers{Operations: 20_000, Admitted: 15_000, Refused: 4_000, Throttled: 700, Unavailable: 200, Failed: 100, FirstError: "no route"},
		Latency: loadtest.Latency{Mean: 4 * time.Millisecond, P50: 1234567, P95: 5 * time.Millisecond, P99: 20 * time.Millisecond, Max: 1500 * time.Millisecond},
		Cost:    loadtest.Cost{RoundTrips: 1.5, RCU: 0.25, WCU: 1.125},
		Writes:  loadtest.Writes{Sent: 10_000, Throttled: 800, EarlySent: 2_000, EarlyThrottled: 640, Reasons: map[string]int64{"TableWriteKeyRangeThroughputExceeded": 800}},
		Limits:  []loadtest.LimitUse{{Limit: "rpm", Demanded: 20_000, Entitled: 16_000, Admitted: 15_000}},
		Wrong:   wrong, Shards: shards,
	}
}

func results() map[string]*loadtest.Result {
	none, some := int64(0), int64(3)
	return map[string]*loadtest.Result{
		"hot": {
			Scenario: loadtest.Hot, Namespace: "bench-1", Rate: 2_000, Clients: 64, Limiters: 2, Entities: 1, Seed: 7,
			Limiter: measurement(4, &none), Raw: measurement(1, nil), Spent: loadtest.Cost{RoundTrips: 40_000, RCU: 500, WCU: 24_000},
		},
		"attack": {
			Scenario: loadtest.Attack, Namespace: "bench-2", Rate: 5_000, Clients: 256, Limiters: 1, Entities: 20, Interrupted: true,
			Attack: &loadtest.AttackResult{
				Bare:    &loadtest.AttackSide{Quiet: measurement(0, nil), Neighbours: measurement(1, nil), Attacker: measurement(1, nil)},
				Limiter: &loadtest.AttackSide{Quiet: measurement(0, &some)},
				Shared:  &loadtest.AttackSide{Quiet: measurement(0, &none), Neighbours: measurement(1, &none), Attacker: measurement(8, &some)},
			},
		},
	}
}

func TestJSONIsStable(t *testing.T) {
	t.Parallel()
	for name, r := range results() {
		got, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", string(got)+"\n")
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	for name, r := range results() {
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.Debug)
		header, rows := r.Table()
		for _, row := range append([][]string{header}, rows...) {
			if len(row) != len(header) {
				t.Errorf("%s: row %q has %d cells, the header %d", name, row[0], len(row), len(header))
			}
			if _, err := w.Write([]byte(strings.Join(row, "\t") + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", b.String())
	}
}

func TestFirstErrorsSayWhose(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"hot": {"limiter: no route", "bare writes: no route"},
		"attack": {
			"neighbours, quiet, bare item: no route", "neighbours, bare item: no route", "attacker, bare item: no route",
			"neighbours, quiet, limiter: no route",
			"neighbours, quiet, shared limiter: no route", "neighbours, shared limiter: no route", "attacker, shared limiter: no route",
		},
	}
	for name, r := range results() {
		if diff := cmp.Diff(want[name], r.FirstErrors()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
