package locust_test

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
)

// recorded are messages as Locust serializes them, by type.
func recorded(tb testing.TB) map[string][]byte {
	tb.Helper()
	text, err := os.ReadFile("testdata/recorded.txt")
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		kind, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if all[kind], err = hex.DecodeString(digits); err != nil {
			tb.Fatal(err)
		}
	}
	return all
}

func TestOurMessagesHaveTheBytesOfLocust(t *testing.T) {
	t.Parallel()
	want := recorded(t)
	for kind, data := range map[string]any{
		"heartbeat":    locust.Heartbeat{State: "running", CPU: 12.5, Memory: 123456789},
		"client_ready": -1,
		"spawning":     nil,
		"exception":    locust.Exception{Message: "a", Traceback: "b"},
	} {
		got, err := locust.Encode(kind, data, "box_1")
		if diff := cmp.Diff(want[kind], got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", kind, err, diff)
		}
	}
	at := time.Unix(1700000000, 250_000_000)
	got, err := locust.Reports(at, 2, "box_1", 0, locust.Event{
		Method: "ACQUIRE", Name: "gpt-4", Took: 147 * time.Millisecond, Size: 3, Err: errors.New("throttled"),
	})
	if diff := cmp.Diff(want["stats"], got); diff != "" || err != nil {
		t.Errorf("stats: %v (-want +got):\n%s", err, diff)
	}
}

// A report that could not be sent is in the next one, as if it had never been made.
func TestReportsAreMerged(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 0)
	failed := errors.New("throttled")
	events := []locust.Event{
		{Method: "DO", Name: "x", Took: 1100 * time.Microsecond, Size: 1, Err: failed},
		{Method: "DO", Name: "x", Took: 900 * time.Microsecond, Size: 2},
		{Method: "DO", Name: "x", Took: 1200 * time.Microsecond, Size: 4, Err: failed},
		{Method: "DO", Name: "x", Took: 1000 * time.Microsecond, Size: 8},
	}
	want, err := locust.Reports(at, 1, "box_1", 0, events...)
	if err != nil {
		t.Fatal(err)
	}
	for unsent := range events {
		got, err := locust.Reports(at, 1, "box_1", unsent, events...)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%d unsent: %v (-want +got):\n%s", unsent, err, diff)
		}
	}
}

func TestMessagesOfTheMaster(t *testing.T) {
	t.Parallel()
	from := recorded(t)
	if kind, _, index, err := locust.Parse(from["ack"]); kind != "ack" || index != 3 || err != nil {
		t.Errorf("ack: %s %d, %v", kind, index, err)
	}
	if kind, _, _, err := locust.Parse(from["stop"]); kind != "stop" || err != nil {
		t.Errorf("stop: %s, %v", kind, err)
	}
	_, order, _, err := locust.Parse(from["spawn"])
	want := &locust.Order{Timestamp: 1700000000.25, Users: map[string]int64{"A": 2, "B": 300}}
	if diff := cmp.Diff(want, order); diff != "" || err != nil {
		t.Errorf("spawn: %v (-want +got):\n%s", err, diff)
	}
}

func spawnOf(tb testing.TB, data any) []byte {
	tb.Helper()
	frame, err := msgpack.Marshal([]any{"spawn", data, "box_1"})
	if err != nil {
		tb.Fatal(err)
	}
	return frame
}

func TestBadOrders(t *testing.T) {
	t.Parallel()
	users := map[string]any{"A": 1}
	for _, c := range []struct {
		data any
		says string // "" is a good one
	}{
		{map[string]any{"timestamp": 1.5, "user_classes_count": users, "stop_timeout": 3}, ""},
		{map[string]any{"timestamp": 1, "user_classes_count": users, "stop_timeout": 2.5}, ""},
		{nil, "no users"},
		{7, "spawn"},
		{map[string]any{"timestamp": 1.5}, "no users"},
		{map[string]any{"timestamp": "now", "user_classes_count": users}, "spawn"},
		{map[string]any{"timestamp": 1.5, "user_classes_count": map[string]any{"A": -1}}, "-1 users of class A"},
		{map[string]any{"timestamp": 1.5, "user_classes_count": map[string]any{"A": 1 << 40}}, "give 0 to 1000000"},
		{map[string]any{"timestamp": 1.5, "user_classes_count": map[string]any{"A": "x"}}, "spawn"},
		{map[string]any{"timestamp": 1.5, "user_classes_count": users, "stop_timeout": -1}, "stop timeout"},
		{map[string]any{"timestamp": 1.5, "user_classes_count": users, "stop_timeout": 1e300}, "stop timeout"},
	} {
		_, _, _, err := locust.Parse(spawnOf(t, c.data))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v", c.data, err)
		}
	}
}

// FuzzParse feeds the parser with what a master may send by mistake. It must not panic, and
// an order that it accepts is one that a worker can carry out.
func FuzzParse(f *testing.F) {
	for _, frame := range recorded(f) {
		f.Add(frame)
	}
	f.Add(spawnOf(f, map[string]any{"timestamp": 1, "user_classes_count": map[string]any{"A": 1}, "stop_timeout": 2.5}))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x93, 0xdb, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		kind, order, index, err := locust.Parse(frame)
		if err != nil {
			return
		}
		if index < -1 || kind == "" && len(frame) < 4 {
			t.Errorf("index %d of %q", index, kind)
		}
		if order == nil {
			return
		}
		for class, n := range order.Users {
			if n < 0 || n > 1_000_000 {
				t.Errorf("%d users of %s", n, class)
			}
		}
		if order.Grace < 0 || order.Grace > 24*time.Hour {
			t.Errorf("grace %v", order.Grace)
		}
	})
}

func TestRounding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ms   float64
		want int64
	}{
		{0, 0},
		{0.4, 0},
		{0.5, 0},
		{1.5, 2},
		{99.4, 99},
		{99.9, 100},
		{100, 100},
		{145, 140},
		{147, 150},
		{155, 160},
		{994, 990},
		{996, 1000},
		{1250, 1200},
		{3432, 3400},
		{9999, 10000},
		{10500, 10000},
		{58760, 59000},
		{123456, 123000},
	} {
		if got := locust.Rounded(c.ms); got != c.want {
			t.Errorf("%v ms rounds to %d, want %d", c.ms, got, c.want)
		}
	}
}

// raw is a message of bytes.
func raw(frame string) zmq4.Msg { return zmq4.NewMsg([]byte(frame)) }
