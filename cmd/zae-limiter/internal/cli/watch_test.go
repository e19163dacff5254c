package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A watching is a table whose requests are counted, and fail when told so.
type watching struct {
	*testing.T
	meter *dynamo.Meter
	gone  atomic.Bool
}

// watches runs a test in a bubble, with a table that has limits and an entity that cascades.
func watches(t *testing.T, test func(w *watching)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		engine := dynamolite.New(dynamolite.Options{})
		defer engine.Close()
		w := &watching{T: t, meter: dynamo.NewMeter(engine)}
		for _, line := range []string{
			"table create", "resource set-defaults gpt-4 --limit rpm:60",
			"entity create acme", "entity create key-1 --parent acme --cascade", "acquire key-1 gpt-4 -c rpm=10",
		} {
			w.run(t.Context(), 0, io.Discard, line)
		}
		test(w)
	})
}

// run runs a command line, which must end with an exit code.
func (w *watching) run(ctx context.Context, want int, stdout io.Writer, line string) {
	w.Helper()
	var stderr bytes.Buffer
	code := cli.Run(ctx, cli.Options{
		Args: strings.Fields(line), Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
			return faults.Wrap(w.meter, func(ctx context.Context, _ *faults.Call, next faults.Next) error {
				if w.gone.Load() {
					return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
				return next(ctx)
			}), nil
		},
	})
	if code != want {
		w.Errorf("%s: exit code %d, want %d: %s", line, code, want, &stderr)
	}
}

// Ctrl-C is the way to end a watch, and an interrupt of one that has an end.
func TestAWatchEndsWhenTold(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{"": 0, " --count 100": 130, " --for 1h": 130, " --output json": 0} {
		watches(t, func(w *watching) {
			ctx, cancel := context.WithCancel(w.Context())
			defer cancel()
			looks := 0
			w.run(ctx, want, writerFunc(func(b []byte) (int, error) {
				if looks += bytes.Count(b, []byte("\n")); looks >= 4 {
					cancel()
				}
				return len(b), nil
			}), "watch key-1 gpt-4"+line)
		})
	}
}

// The looks come every second, whatever a look takes, until the time is over.
func TestAWatchKeepsItsRhythm(t *testing.T) {
	t.Parallel()
	watches(t, func(w *watching) {
		var out bytes.Buffer
		began := time.Now()
		w.run(w.Context(), 0, &out, "watch key-1 gpt-4 --for 2500ms --output json")
		var at []time.Duration
		for line := range strings.Lines(out.String()) {
			var look struct{ Timestamp time.Time }
			if err := json.Unmarshal([]byte(line), &look); err != nil {
				t.Fatal(err)
			}
			at = append(at, look.Timestamp.Sub(began.UTC().Truncate(time.Millisecond)))
		}
		if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second}, at); diff != "" || time.Since(began) != 2500*time.Millisecond {
			t.Errorf("it took %v; looks (-want +got):\n%s", time.Since(began), diff)
		}
	})
}

// Help says what a look costs, and that it writes nothing.
func TestALookCostsWhatHelpSays(t *testing.T) {
	t.Parallel()
	watches(t, func(w *watching) {
		cost := func(line string) dynamo.Usage {
			before := w.meter.Totals()
			w.run(w.Context(), 0, io.Discard, line)
			return w.meter.Totals().Sub(before).Sum()
		}
		one, eleven := cost("watch key-1 gpt-4 --count 1"), cost("watch key-1 gpt-4 --count 11")
		if got := (eleven.RCU - one.RCU) / 10; got != 2 || one.WCU+eleven.WCU != 0 {
			t.Errorf("a look at two buckets of one shard costs %v read units, want one for each; %v were written", got, one.WCU+eleven.WCU)
		}
	})
}

// An outage is shown, and ends no watch that has begun.
func TestAWatchGoesOnThroughAnOutage(t *testing.T) {
	t.Parallel()
	watches(t, func(w *watching) {
		var out bytes.Buffer
		go func() {
			time.Sleep(1500 * time.Millisecond)
			w.gone.Store(true)
			time.Sleep(time.Second)
			w.gone.Store(false)
		}()
		w.run(w.Context(), 0, &out, "watch key-1 gpt-4 --count 4 --output json")
		var got []string
		for line := range strings.Lines(out.String()) {
			var look struct {
				Error  string
				Limits []struct{ Available int }
			}
			if err := json.Unmarshal([]byte(line), &look); err != nil {
				t.Fatal(err)
			}
			got = append(got, look.Error)
			if (look.Error == "") != (len(look.Limits) == 1) {
				t.Errorf("a look is %s", line)
			}
		}
		if diff := cmp.Diff([]string{"", "", "unavailable", ""}, got); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
	})
}

// On a terminal the bar takes the room that there is, and lines end where the terminal does.
func TestAWatchFitsItsTerminal(t *testing.T) {
	t.Parallel()
	full := limiter.Balance{Status: limiter.Status{Entity: "key-1", Resource: "gpt-4", Limit: limiter.PerMinute("rpm", 60), Available: 60}}
	low := limiter.Balance{
		Status: limiter.Status{Entity: "key-1", Resource: "gpt-4", Limit: limiter.PerHour("tph", 600), Available: -60, RetryAfter: 366 * time.Second},
		Used:   1.1, FullAfter: 66 * time.Minute,
	}
	half := full
	half.Available, half.Used, half.FullAfter = 30, 0.5, 30*time.Second
	before := &limiter.Standing{Entity: "key-1", Resource: "gpt-4", Level: limiter.LevelSystem, Shards: 2, Limits: []limiter.Balance{full, low}}
	now := &limiter.Standing{Entity: "key-1", Resource: "gpt-4", Level: limiter.LevelSystem, Disabled: true, Shards: 2, Limits: []limiter.Balance{half, low}}
	for columns, want := range map[int]string{
		120: "gpt-4 for key-1   1970-01-01T00:00:01Z   every 1s, look 2\n" +
			"ENTITY  LIMIT  AVAILABLE   CHANGE  LEFT                                      TOKEN IN  FULL IN  RATE      SHARDS  LEVEL\n" +
			"key-1   rpm    30 of 60    -30     ####################....................  -         30s      60/min    2       system\n" +
			"key-1   tph    -60 of 600  0       ........................................  6m6s      1h6m0s   600/hour  2       system\n" +
			"gpt-4 is disabled for key-1: nothing can be acquired\n",
		100: "gpt-4 for key-1   1970-01-01T00:00:01Z   every 1s, look 2\n" +
			"ENTITY  LIMIT  AVAILABLE   CHANGE  LEFT                  TOKEN IN  FULL IN  RATE      SHARDS  LEVEL\n" +
			"key-1   rpm    30 of 60    -30     ##########..........  -         30s      60/min    2       system\n" +
			"key-1   tph    -60 of 600  0       ....................  6m6s      1h6m0s   600/hour  2       system\n" +
			"gpt-4 is disabled for key-1: nothing can be acquired\n",
		40: "gpt-4 for key-1   1970-01-01T00:00:01Z…\n" +
			"ENTITY  LIMIT  AVAILABLE   CHANGE  TOKE…\n" +
			"key-1   rpm    30 of 60    -30     -…\n" +
			"key-1   tph    -60 of 600  0       6m6s…\n" +
			"gpt-4 is disabled for key-1: nothing ca…\n",
	} {
		var out bytes.Buffer
		if err := cli.WatchOn(&out, columns, 6, before, now); err != nil {
			t.Fatal(err)
		}
		_, last, _ := strings.Cut(out.String(), "\x1b[4A\r\x1b[J")
		if diff := cmp.Diff(want, last); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", columns, diff)
		}
	}
	if err := cli.WatchOn(writerFunc(func([]byte) (int, error) { return 0, errors.New("gone") }), 80, 24, now); err == nil {
		t.Error("a terminal that is gone is no error")
	}
}
