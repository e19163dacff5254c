package loadtest_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	cliload "github.com/zeroae/zae-limiter-go/internal/cli/loadtest"
	load "github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/result"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
)

// On a terminal, each state replaces the one before, and nothing is left at the end.
func TestTheLiveView(t *testing.T) {
	t.Parallel()
	s, err := scenario.Builtin("attack")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	show, clearAll := cliload.LiveView(&out, s)
	show(load.Progress{Preparing: "making the buckets", Side: "bare", Planned: 40 * time.Second})
	show(load.Progress{Side: "bare", Phase: 1, Done: 10 * time.Second, Planned: 40 * time.Second, Sample: &result.Sample{
		Seconds: 2, Due: 1000, Done: 998, Admitted: 900, Refused: 90, Throttled: 4, Unavailable: 2, Failed: 2,
		P50: 5, P99: 9.5, P999: 20, Lag: 0.5, Cost: result.Cost{WCU: 2000, RCU: 10, Dollars: 0.001}, WritesThrottled: 6, Users: 7, Shards: 2,
	}})
	clearAll()
	const want = "\r\x1b[J" +
		"attack  side bare  making the buckets\n" +
		"[........................................] 0s of 40s\n" +
		"\x1b[2A\r\x1b[J" +
		"attack  side bare  phase attack\n" +
		"[##########..............................] 10s of 40s\n" +
		"asked 500/s   done 499/s   admitted 450/s   refused 45/s   errors 4/s\n" +
		"p50 5ms   p99 9.5ms   p99.9 20ms   generator lag p99 500µs\n" +
		"WCU 1000/s   RCU 5/s   $1.80 an hour   writes throttled 3/s\n" +
		"shards of the busiest bucket 2   users 7\n" +
		"\x1b[6A\r\x1b[J"
	if got := out.String(); got != want {
		t.Errorf("%q, want\n%q", strings.ReplaceAll(got, "\x1b", "ESC"), want)
	}
}

// What the live view costs each second.
func BenchmarkLiveView(b *testing.B) {
	s, err := scenario.Builtin("attack")
	if err != nil {
		b.Fatal(err)
	}
	show, _ := cliload.LiveView(io.Discard, s)
	sample := &result.Sample{Seconds: 1, Due: 50_000, Done: 49_998, Admitted: 900, Refused: 49_000, P50: 5, P99: 9.5, P999: 20, Lag: 0.5}
	for b.Loop() {
		show(load.Progress{Side: "limiter", Done: 10 * time.Second, Planned: 40 * time.Second, Sample: sample})
	}
}
