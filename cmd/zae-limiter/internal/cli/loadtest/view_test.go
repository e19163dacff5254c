package loadtest_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	cliload "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/loadtest"
	load "github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/limitertest"
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
		"asked 500/s   done 499/s   admitted 450/s   refused 45/s   errors 2/s\n" +
		"p50 5ms   p99 9.5ms   p99.9 20ms   generator lag p99 500µs\n" +
		"WCU 1000/s   RCU 5/s   $1.80 an hour   throttled: answers 2/s, writes 3/s\n" +
		"shards of the busiest bucket 2   users 7\n" +
		"\x1b[6A\r\x1b[J"
	if got := out.String(); got != want {
		t.Errorf("%q, want\n%q", strings.ReplaceAll(got, "\x1b", "ESC"), want)
	}
}

// Without a terminal a line has what the view has: throttles are no errors, and the writes
// that were throttled stand beside the write units.
func TestThePlainView(t *testing.T) {
	t.Parallel()
	s, err := scenario.Builtin("attack")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cliload.PlainView(&out, s)(load.Progress{Side: "bare", Phase: 1, Done: 10 * time.Second, Planned: 40 * time.Second, Sample: &result.Sample{
		Seconds: 2, Due: 1000, Done: 998, Admitted: 900, Refused: 90, Throttled: 4, Unavailable: 2, Failed: 2,
		P50: 5, P99: 9.5, P999: 20, Cost: result.Cost{WCU: 2000, RCU: 10, Dollars: 0.001}, WritesThrottled: 6, Shards: 2,
	}})
	const want = "10s of 40s, bare, attack: asked 500/s, done 499/s, admitted 450/s, refused 45/s, throttled 2/s, errors 2/s, " +
		"p50 5ms, p99 9.5ms, p99.9 20ms, 1000 WCU/s, writes throttled 3/s, $1.80 an hour, 2 shards\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
}

// A second's view costs at most a thousandth of what the limiter's decisions of that second
// do. The test measures both in turn, and compares the medians.
func TestTheLiveViewCostsLittle(t *testing.T) {
	s, err := scenario.Builtin("attack")
	if err != nil {
		t.Fatal(err)
	}
	show, _ := cliload.LiveView(io.Discard, s)
	limits := limitertest.New(t, limiter.PerHour("rph", limiter.MaxTokens))
	// About as many operations as one process carries out in a second, and the part of them
	// that is measured.
	const perSecond, part, rounds, most = 50_000, 500, 7, 0.001
	var views, decisions []time.Duration
	for range rounds {
		began := time.Now()
		for range perSecond / part {
			if _, err := limits.Acquire(t.Context(), limiter.Request{Entity: "key", Resource: "api", Consume: map[string]int64{"rph": 1}}); err != nil {
				t.Fatal(err)
			}
		}
		decisions = append(decisions, part*time.Since(began))
		began = time.Now()
		show(load.Progress{Side: "limiter", Done: 10 * time.Second, Planned: 40 * time.Second, Sample: busy})
		views = append(views, time.Since(began))
	}
	slices.Sort(views)
	slices.Sort(decisions)
	share := float64(views[rounds/2]) / float64(decisions[rounds/2])
	t.Logf("a view takes %v, %.5f %% of %d decisions", views[rounds/2], 100*share, perSecond)
	if share > most {
		t.Errorf("a view takes %.2f %% of the time of its decisions, at most %.1f %% is allowed", 100*share, 100*most)
	}
}

// busy is the sample of a busy second.
var busy = &result.Sample{Seconds: 1, Due: 50_000, Done: 49_998, Admitted: 900, Refused: 49_000, P50: 5, P99: 9.5, P999: 20, Lag: 0.5}

// What the live view costs each second.
func BenchmarkLiveView(b *testing.B) {
	s, err := scenario.Builtin("attack")
	if err != nil {
		b.Fatal(err)
	}
	show, _ := cliload.LiveView(io.Discard, s)
	for b.Loop() {
		show(load.Progress{Side: "limiter", Done: 10 * time.Second, Planned: 40 * time.Second, Sample: busy})
	}
}
