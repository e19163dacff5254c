package loadtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
)

func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	return command(ctx, append([]string{"run"}, args...)...)
}

func command(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Options{
		Args: append([]string{"loadtest"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" },
	})
	return code, out.String(), errs.String()
}

// In virtual time the command is exact, whatever else the machine does: two concurrent
// operations of 10 ms each.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr := run(t.Context(), "spread", "--local", ":memory:", "--latency", "10ms", "--users", "2", "--duration", "10s", "--output", "json")
		r, err := result.Read(strings.NewReader(stdout))
		if err != nil || code != 0 || stderr != "" {
			t.Fatalf("exit code %d, errors %q, output %q: %v", code, stderr, stdout, err)
		}
		// Two operations on one bucket may take longer; that is rare.
		c := r.Sides[0].Phases[0].Classes[0]
		if n := c.Answers.Operations; n < 1990 || n > 2000 || c.Seconds < 10 || c.Seconds > 10.02 || int(c.Latency.P99) != 10 {
			t.Errorf("%+v", c)
		}
	})
}

func TestAnInterruptionShowsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		code, stdout, stderr := run(ctx, "warm", "--local", ":memory:", "--latency", "10ms", "--rate", "50")
		if code != 130 || !strings.HasSuffix(stderr, "Error: context canceled\n") {
			t.Errorf("exit code %d, errors %q", code, stderr)
		}
		if words := strings.Join(strings.Fields(stdout), " "); !strings.Contains(words, "latency p99 10ms") || !strings.Contains(words, "Interrupted: ") {
			t.Errorf("output:\n%s", stdout)
		}
	})
}

// Before the measurement starts, there is nothing to show.
func TestAnInterruptedSetUpShowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		code, stdout, stderr := run(ctx, "spread", "--local", ":memory:", "--latency", "1s", "--output", "json")
		if code != 130 || stdout != "" || !strings.HasPrefix(stderr, `{"error":"canceled",`) {
			t.Errorf("exit code %d, errors %q, output %q", code, stderr, stdout)
		}
	})
}

// A rate that the clients cannot carry out makes the exit code 1, after the figures.
func TestARunThatIsNotReliableFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr := run(t.Context(), "spread", "--local", ":memory:", "--latency", "1s", "--rate", "50", "--clients", "2", "--duration", "20s")
		if code != 1 || !strings.Contains(stdout, "operations/s") || !strings.Contains(stderr, "Error: the figures are not reliable: side limiter, phase all, class Client: ") {
			t.Errorf("exit code %d, errors %q, output %q", code, stderr, stdout)
		}
	})
}

// Where there is no terminal, a line is written every ten seconds.
func TestPlainLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, stderr := run(t.Context(), "hot", "--local", ":memory:", "--latency", "10ms", "--rate", "100", "--duration", "25s")
		var lines []string
		for line := range strings.Lines(stderr) {
			if strings.Contains(line, "asked 100/s, done ") {
				lines = append(lines, line)
			}
		}
		// An operation that ends with a second may count in that one or in the next.
		want := regexp.MustCompile(`^11s of 25s, limiter, all: asked 100/s, done (99|100|101)/s, admitted (99|100|101)/s, refused 0/s, throttled 0/s, errors 0/s, ` +
			`p50 10ms, p99 10ms, p99.9 10ms, (99|100|101) WCU/s, writes throttled 0/s, \$0.2[23] an hour, 1 shards\n$`)
		if len(lines) != 3 || !want.MatchString(lines[1]) {
			t.Errorf("%q", stderr)
		}
	})
}

// The JSON form of a result has stable names.
func TestTheNamesOfAResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, stdout, _ := run(t.Context(), "hot", "--local", ":memory:", "--latency", "10ms", "--rate", "10", "--duration", "1s", "--output", "json")
		var r struct {
			Format int
			Sides  []struct {
				Name   string
				Phases []struct {
					Classes []struct {
						Answers map[string]int
						Latency struct {
							P50 float64 `json:"p50_ms"`
						}
					}
				}
				Samples []map[string]any
				Books   map[string]any
			}
			Spent map[string]float64
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		c := r.Sides[0].Phases[0].Classes[0]
		if r.Format != 2 || r.Sides[0].Name != "limiter" || c.Answers["admitted"] != 10 || c.Latency.P50 != 10 ||
			len(r.Sides[0].Samples) != 1 || r.Sides[0].Books["found"] != 11.0 || r.Spent["wcu"] == 0 {
			t.Errorf("%+v", r)
		}
	})
}

// On an engine whose partitions take 100 writes a second, and with one write for each
// operation, the ceiling of bare writes is what the partition takes.
func TestTheCeilingOfAPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr := command(t.Context(), "ceiling", "--file", "testdata/bare.yaml", "--p99", "1s", "--from", "50",
			"--local", ":memory:", "--partition-limits", "200,200", "--step-duration", "30s", "--warm-up", "5s", "--output", "json")
		var r struct{ Kept, Above float64 }
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" {
			t.Fatalf("exit code %d, errors %q, output %q: %v", code, stderr, stdout, err)
		}
		// Each operation writes the item and its copy in the index; a table that was idle
		// has some capacity saved.
		if r.Kept < 190 || r.Above > 245 {
			t.Errorf("%+v\n%s", r, stdout)
		}
	})
}

func TestTheTextOfASearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr := command(t.Context(), "ceiling", "hot", "--p99", "1s", "--from", "1000", "--to", "1500", "--local", ":memory:", "--latency", "10ms")
		if code != 0 || stderr != "1000/s: kept\n1500/s: kept\n" || !strings.Contains(stdout, "\n1,500  kept     1     1") ||
			!strings.Contains(stdout, "Lowest rate not kept:  none\n") {
			t.Errorf("exit code %d, errors %q, output:\n%s", code, stderr, stdout)
		}
		code, stdout, stderr = command(t.Context(), "tune", "spread", "--max-users", "3", "--local", ":memory:", "--latency", "10ms")
		if code != 0 || !strings.HasPrefix(stderr, "1 users: 100/s, p50 10ms, efficiency 1.00\n3 users: ") || !strings.Contains(stdout, "Processes for 100 users:   34\n") {
			t.Errorf("exit code %d, errors %q, output:\n%s", code, stderr, stdout)
		}
	})
}

// The side bare shows what the limits of a partition do to an item, so an engine of this process
// has them. Where no write was throttled, the run says that it shows nothing of them.
func TestTheSideBareMeetsPartitionLimits(t *testing.T) {
	t.Parallel()
	const nothing = "Side bare: no write was throttled."
	for _, tt := range []struct {
		name      string
		args      []string
		throttled bool
	}{
		{"attack", []string{"attack"}, true},
		{"attack without limits", []string{"attack", "--partition-limits", "off"}, false},
		{"attack with other limits", []string{"attack", "--partition-limits", "100000,100000"}, false},
		{"hot beside bare", []string{"hot", "--side", "bare,limiter", "--rate", "4000"}, true},
		{"little beside bare", []string{"spread", "--side", "bare", "--rate", "100"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				code, stdout, stderr := run(t.Context(), append(tt.args, "--local", ":memory:", "--latency", "5ms", "--duration", "2s")...)
				if code != 0 || strings.Contains(stdout, nothing) == tt.throttled {
					t.Errorf("exit code %d, errors %q, output:\n%s", code, stderr, stdout)
				}
			})
		})
	}
}
