//go:build conformance

package locust_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

const locustfile = "testdata/two_classes.py"

// A hand is a running worker.
type hand struct {
	*locust.Worker

	load  *tasks
	leave context.CancelFunc
	ended chan error
}

// hire starts workers of a master.
func hire(t *testing.T, master string, n int) []*hand {
	t.Helper()
	hands := make([]*hand, n)
	for i := range hands {
		load := &tasks{think: 20 * time.Millisecond}
		w, err := locust.New(locust.Options{Master: master, Load: load})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		h := &hand{w, load, cancel, make(chan error, 1)}
		go func() { h.ended <- w.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			<-h.ended
		})
		hands[i] = h
	}
	return hands
}

// ends waits for the end of a worker.
func (h *hand) ends(t *testing.T) {
	t.Helper()
	err := <-h.ended
	h.ended <- err // for the cleanup
	if err != nil {
		t.Errorf("worker: %v", err)
	}
}

type counts struct{ Requests, Failures int64 }

// booked adds up what the workers have counted.
func booked(hands ...*hand) map[string]counts {
	sum := map[string]counts{}
	for _, h := range hands {
		for _, t := range h.Totals() {
			c := sum[t.Method+" "+t.Name]
			sum[t.Method+" "+t.Name] = counts{c.Requests + t.Requests, c.Failures + t.Failures}
		}
	}
	return sum
}

// reported is what the master has counted.
func reported(entries []peers.LocustEntry) map[string]counts {
	sum := map[string]counts{}
	for _, e := range entries {
		if e.Name != "Aggregated" {
			sum[e.Method+" "+e.Name] = counts{e.Requests, e.Failures}
		}
	}
	return sum
}

// users waits until the master counts so many users on each of its workers.
func users(t *testing.T, master *peers.Locust, perWorker ...int) *peers.LocustStats {
	t.Helper()
	var stats *peers.LocustStats
	eventually(t, func() (string, bool) {
		stats = master.Stats(t.Context(), t)
		left := append([]int{}, perWorker...)
		for _, w := range stats.Workers {
			if w.State == "missing" {
				continue
			}
			at := -1
			for i, n := range left {
				if n == w.UserCount {
					at = i
				}
			}
			if at < 0 {
				return fmt.Sprintf("%+v", stats.Workers), false
			}
			left = append(left[:at], left[at+1:]...)
		}
		return fmt.Sprintf("%+v", stats.Workers), len(left) == 0
	})
	return stats
}

// settled waits until the master has counted what the workers have.
func settled(t *testing.T, master *peers.Locust, hands ...*hand) {
	t.Helper()
	eventually(t, func() (string, bool) {
		diff := cmp.Diff(booked(hands...), reported(master.Stats(t.Context(), t).Stats))
		return "books (-) and Locust's totals (+):\n" + diff, diff == ""
	})
}

// A real master leads two workers through ramps up and down, a stop, and a second test.
func TestAMasterLeadsWorkers(t *testing.T) {
	t.Parallel()
	master := peers.StartLocust(t, locustfile)
	hands := hire(t, master.Master, 2)
	users(t, master, 0, 0)

	master.Swarm(t, 40, 20)
	users(t, master, 20, 20)
	master.Swarm(t, 12, 100)
	stats := users(t, master, 6, 6)
	for _, w := range stats.Workers {
		if w.State != "running" || w.Memory == 0 {
			t.Errorf("worker %+v", w)
		}
	}
	// A quarter of the users read.
	if got := classes(hands); got["DO Reader"] == 0 || got["DO Writer"] < 2*got["DO Reader"] {
		t.Errorf("requests by class: %v", got)
	}
	master.Stop(t)
	users(t, master, 0, 0)
	settled(t, master, hands...)
	check(t, master.Stats(t.Context(), t), hands)

	first := booked(hands...)
	master.Swarm(t, 4, 4)
	users(t, master, 2, 2)
	eventually(t, func() (string, bool) {
		got := booked(hands...)
		return fmt.Sprint(got), got["DO Writer"].Requests > 0 && got["DO Writer"].Requests < first["DO Writer"].Requests
	})
	master.Stop(t)
	settled(t, master, hands...)
}

func classes(hands []*hand) map[string]int64 {
	sum := map[string]int64{}
	for name, c := range booked(hands...) {
		sum[name] += c.Requests
	}
	return sum
}

// check compares what the master shows with what the load did.
func check(t *testing.T, stats *peers.LocustStats, hands []*hand) {
	t.Helper()
	var requests, failures, done int64
	for _, e := range stats.Stats {
		if e.Name == "Aggregated" {
			continue
		}
		requests += e.Requests
		failures += e.Failures
		if e.Min != 0 || e.Max > 699 || e.Failures == 0 || e.Failures > e.Requests/failEvery+2 {
			t.Errorf("%+v", e)
		}
	}
	for _, h := range hands {
		done += h.load.done.Load()
	}
	if requests != done {
		t.Errorf("Locust has %d requests, the load has done %d", requests, done)
	}
	for _, e := range stats.Errors {
		failures -= e.Occurrences
		if e.Error != errTask.Error() || e.Method != "DO" {
			t.Errorf("%+v", e)
		}
	}
	if failures != 0 || len(stats.Errors) != 2 {
		t.Errorf("%d failures too many among %+v", failures, stats.Errors)
	}
}

// Workers that leave and come change the share of the others, and no request is lost.
func TestAMasterRebalances(t *testing.T) {
	t.Parallel()
	master := peers.StartLocust(t, locustfile, "--enable-rebalancing")
	hands := hire(t, master.Master, 2)
	users(t, master, 0, 0)
	master.Swarm(t, 12, 100)
	users(t, master, 6, 6)
	hands[0].leave()
	hands[0].ends(t)
	users(t, master, 12)
	hands = append(hands, hire(t, master.Master, 1)...)
	users(t, master, 6, 6)
	master.Stop(t)
	users(t, master, 0, 0)
	settled(t, master, hands...)
}

// A new master at the same address gets the workers of the old one, without their users.
func TestAMasterComesBack(t *testing.T) {
	t.Parallel()
	master := peers.StartLocust(t, locustfile)
	hands := hire(t, master.Master, 2)
	users(t, master, 0, 0)
	master.Swarm(t, 10, 100)
	users(t, master, 5, 5)
	master.Restart(t)
	users(t, master, 0, 0)
	if n := hands[0].load.active.Load() + hands[1].load.active.Load(); n != 0 {
		t.Errorf("%d operations are under way that the new master does not know of", n)
	}
	master.Swarm(t, 4, 100)
	users(t, master, 2, 2)
	master.Stop(t)
	users(t, master, 0, 0)
	settled(t, master, hands...)
}

// A locustfile with a class that the load does not have is an exception at the master.
func TestAMasterHearsOfUnknownClasses(t *testing.T) {
	t.Parallel()
	master := peers.StartLocust(t, "testdata/unknown_class.py")
	hire(t, master.Master, 1)
	users(t, master, 0)
	master.Swarm(t, 2, 100)
	users(t, master, 1)
	eventually(t, func() (string, bool) {
		all := master.Exceptions(t)
		return fmt.Sprint(all), len(all) == 1 && strings.Contains(all[0], "Stranger") && strings.Contains(all[0], "Reader, Writer")
	})
}

// Without its page, a master ends by itself and asks its workers to quit. It then has every
// request, and fails because some failed.
func TestAMasterQuits(t *testing.T) {
	t.Parallel()
	var hands []*hand
	entries, exit := peers.RunLocust(t, locustfile, func(master string) { hands = hire(t, master, 2) },
		"--headless", "-u", "20", "-r", "20", "-t", "5s", "--expect-workers", "2", "--stop-timeout", "5")
	for _, h := range hands {
		h.ends(t)
	}
	got := reported(entries)
	if diff := cmp.Diff(booked(hands...), got); diff != "" || exit != 1 || len(got) != 2 {
		t.Errorf("exit code %d, books (-) and Locust's totals (+):\n%s", exit, diff)
	}
}

// Times are rounded as Locust does, and Locust reads our messages as we mean them.
func TestLocustAgrees(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var times []float64
	for n := 0.0; n < 30000; n += 2.5 {
		times = append(times, n, math.Nextafter(n, 0), math.Nextafter(n, math.Inf(1)), n*random.Float64())
	}
	const script = `
import json, sys
from locust.rpc.protocol import Message
from locust.stats import StatsError, bucket_response_time
asked = json.load(sys.stdin)
m = Message.unserialize(bytes.fromhex(asked["message"]))
json.dump({
    "rounded": [bucket_response_time(t) for t in asked["times"]],
    "message": [m.type, m.data, m.node_id],
    "key": StatsError.create_key("DO", "name", "text"),
}, sys.stdout)
`
	frame, err := locust.Encode("client_ready", map[string]any{"a": nil, "n": 70000, "f": 1.5, "m": map[int64]int64{7: 200}}, "worker_1")
	if err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(map[string]any{"times": times, "message": hex.EncodeToString(frame)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), peers.LocustPython(t), "-c", script)
	cmd.Stdin = strings.NewReader(string(asked))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var answer struct {
		Rounded []int64
		Message []any
		Key     string
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	for i, ms := range times {
		if got := locust.Rounded(ms); got != answer.Rounded[i] {
			t.Errorf("%v rounds to %d, with Locust to %d", ms, got, answer.Rounded[i])
		}
	}
	want := []any{"client_ready", map[string]any{"a": nil, "n": 70000.0, "f": 1.5, "m": map[string]any{"7": 200.0}}, "worker_1"}
	if diff := cmp.Diff(want, answer.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if got := locust.FailureKey("DO", "name", "text"); got != answer.Key {
		t.Errorf("key of a failure: %s, with Locust %s", got, answer.Key)
	}
	if len(answer.Rounded) != len(times) || len(times) < 40000 {
		t.Errorf("%d times, %d rounded", len(times), len(answer.Rounded))
	}
}

// eventually waits until a condition holds that Locust brings about in its own time. The
// text says what was last seen.
func eventually(t *testing.T, condition func() (seen string, ok bool)) {
	t.Helper()
	const interval, enough = 50 * time.Millisecond, 90 * time.Second
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for end := time.Now().Add(enough); ; <-poll.C {
		seen, ok := condition()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", enough, seen)
		}
	}
}

// A test that package swarm runs has the users and classes that it asked for, stops them, and
// shows what the workers have counted.
func TestASwarmRunsOnAMaster(t *testing.T) {
	t.Parallel()
	master := peers.StartLocust(t, "testdata/shape.py", "--class-picker")
	hands := hire(t, master.Master, 2)
	page := &swarm.Page{URL: master.Page(), Client: &http.Client{Timeout: 5 * time.Second}}
	o := swarm.Options{
		Page: page, Order: swarm.Order{Users: 20, SpawnRate: 20, Classes: []string{"Writer"}}, Duration: 10 * time.Second, Workers: 2, Now: time.Now,
	}
	got, err := swarm.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.LeastUsers != 20 || got.MostUsers != 20 || got.LeastWorkers != 2 || got.EndedEarly || len(got.Requests) != 1 || got.Requests[0].Name != "Writer" {
		t.Errorf("%+v", got)
	}
	// Each user sends nearly fifty requests a second.
	if all, done := got.Total, booked(hands...)["DO Writer"].Requests; all.Requests > done || all.Requests < done/2 || all.PerSecond < 200 || all.PerSecond > 1000 ||
		all.Failures == 0 || len(got.Errors) != 1 || all.Mean < 300 || all.Mean > 400 || all.P50 < 300 || all.P50 > 400 || all.P99 < 650 || all.P99 > 700 {
		t.Errorf("%d requests were done: %+v, %+v", done, all, got.Errors)
	}
	if stats := users(t, master, 0, 0); stats.State != swarm.Stopped {
		t.Errorf("state %s", stats.State)
	}

	o.Order.Classes = []string{"Writer", "Nobody"}
	if _, err := swarm.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has no class Nobody") {
		t.Errorf("an unknown class: %v", err)
	}
	users(t, master, 0, 0)

	// All requests of a shape count: the totals are those of the books.
	o.Order = swarm.Order{Shape: "Short"}
	if got, err = swarm.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sum := map[string]counts{}
	for _, r := range got.Requests {
		sum[r.Method+" "+r.Name] = counts{r.Requests, r.Failures}
	}
	if diff := cmp.Diff(booked(hands...), sum); diff != "" || !got.EndedEarly || got.MostUsers != 8 {
		t.Errorf("books (-) and result (+):\n%s\n%+v", diff, got)
	}
	o.Order.Shape = "Nothing"
	if _, err := swarm.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has the locustfile a shape Nothing?") {
		t.Errorf("an unknown shape: %v", err)
	}
}
