package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli"
)

func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Options{
		Args: append([]string{"bench"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" },
	})
	return code, out.String(), errs.String()
}

// In virtual time the command is exact, whatever else the machine does: two concurrent
// operations of 10 ms each.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr := run(t.Context(), "spread", "--local", ":memory:", "--latency", "10ms", "--clients", "2", "--output", "json")
		var got struct {
			Limiter struct {
				Operations int64
				Seconds    float64
				Latency    map[string]float64
			}
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
			t.Fatalf("exit code %d, errors %q, output %q: %v", code, stderr, stdout, err)
		}
		// Two operations on one bucket may take longer; that is rare.
		if g := got.Limiter; g.Operations < 1990 || g.Operations > 2000 || g.Seconds < 10 || g.Seconds > 10.02 || int(g.Latency["p99_ms"]) != 10 {
			t.Errorf("%+v", g)
		}
	})
}

func TestAnInterruptionShowsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		code, stdout, stderr := run(ctx, "warm", "--local", ":memory:", "--latency", "10ms", "--rate", "50", "--entities", "4")
		if code != 1 || stderr != "Error: context canceled\n" {
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
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, `{"error":"canceled",`) {
			t.Errorf("exit code %d, errors %q, output %q", code, stderr, stdout)
		}
	})
}
