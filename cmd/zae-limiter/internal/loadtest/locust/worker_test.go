package locust_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/store"
)

const hour = time.Hour

// pass lets time pass, and waits for what happens at its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, master := range []string{"", "master", "master:", ":5557", "master:0", "master:70000", "master:x", "a:b:1"} {
		_, err := locust.New(locust.Options{Master: master, Load: &tasks{}})
		wrong, ok := errors.AsType[*store.ValidationError](err)
		if !ok || wrong.Field != "master" || wrong.Value != master {
			t.Errorf("%q: %v", master, err)
		}
	}
	if _, err := locust.New(locust.Options{Master: "[::1]:5557", Load: &tasks{}}); err != nil {
		t.Error(err)
	}
	if _, err := locust.New(locust.Options{Master: "master:5557"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a load: %v", err)
	}
}

// A master sends absolute numbers at each step of a ramp, and when it shares users out anew.
func TestRamps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{holding: hour, think: time.Second})
		if s.kinds(0)[0] != "client_ready" || !strings.HasPrefix(s.heard("")[0].id, "box_") {
			t.Fatalf("first message: %+v", s.heard("")[0])
		}
		for _, step := range []struct{ readers, writers int }{{1, 0}, {2, 5}, {3, 10}, {3, 4}, {0, 4}, {9, 4}, {0, 0}, {1, 1}} {
			before := len(s.heard(""))
			pass(1500 * time.Millisecond)
			s.spawn(step.readers, step.writers, nil)
			want := [2]int64{int64(step.readers), int64(step.writers)}
			if got := s.last("spawning_complete"); got.counts() != want || number(got.data["user_count"]) != want[0]+want[1] {
				t.Errorf("%+v: %v", step, got.data)
			}
			if diff := cmp.Diff([]string{"spawning", "spawning_complete"}, s.kinds(before)); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", step, diff)
			}
			if got := s.active(); got != want[0]+want[1] {
				t.Errorf("%+v: %d operations are under way", step, got)
			}
			pass(3 * time.Second)
			if got := s.last("stats"); got.counts() != want {
				t.Errorf("%+v: reported %v", step, got.counts())
			}
			if got := s.last("heartbeat").data["state"]; got != "running" {
				t.Errorf("%+v: state %v", step, got)
			}
		}
		if _, err := s.ends(); err != nil {
			t.Error(err)
		}
	})
}

// Messages may overtake each other: the youngest holds.
func TestOldOrdersAreIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{holding: hour})
		order := func(at float64, readers int) {
			s.send("spawn", map[string]any{"timestamp": at, "user_classes_count": map[string]any{"Reader": readers}})
		}
		order(10, 3)
		order(9, 5)
		order(10, 6)
		if got := s.active(); got != 3 {
			t.Errorf("%d users", got)
		}
		order(10.5, 1)
		if got := s.active(); got != 1 {
			t.Errorf("%d users", got)
		}
		s.ends()
	})
}

// In virtual time reports are exact: two users with a request every second.
func TestReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{think: time.Second})
		pass(500 * time.Millisecond)
		s.spawn(1, 1, nil)
		began := s.last("spawning_complete").at
		pass(2500*time.Millisecond + time.Millisecond)
		report := s.last("stats")
		if report.at-began != 2500*time.Millisecond {
			t.Fatalf("report after %v", report.at-began)
		}
		readers := report.data["stats"].([]any)[0].(map[string]any)
		for field, want := range map[string]int64{"num_requests": 3, "num_failures": 1, "num_none_requests": 0, "total_content_length": 9} {
			if got := number(readers[field]); got != want {
				t.Errorf("%s: %d, want %d", field, got, want)
			}
		}
		for field, want := range map[string]float64{"total_response_time": 3, "max_response_time": 2, "min_response_time": 0} {
			if got := readers[field]; got != want {
				t.Errorf("%s: %v, want %v", field, got, want)
			}
		}
		times, perSecond := readers["response_times"].(map[string]any), readers["num_reqs_per_sec"].(map[string]any)
		if len(times) != 3 || len(perSecond) != 3 {
			t.Errorf("response times %v, requests per second %v", times, perSecond)
		}
		pass(3 * time.Second)
		next := s.last("stats").data["stats_total"].(map[string]any)
		if number(next["num_requests"]) != 6 || next["name"] != "Aggregated" || next["min_response_time"] != 3.0 {
			t.Errorf("next report: %v", next)
		}
		s.ends()
		requests, failures, _ := s.reported()
		want := []locust.Total{{Method: "DO", Name: "Reader", Requests: requests / 2, Failures: 1}, {Method: "DO", Name: "Writer", Requests: requests / 2, Failures: 1}}
		if diff := cmp.Diff(want, s.Totals()); diff != "" || failures != 2 || requests != 12 {
			t.Errorf("%d requests, %d failures; books (-want +got):\n%s", requests, failures, diff)
		}
	})
}

// ops is a load that notes its operations.
type ops struct{ seen chan locust.Op }

func (*ops) Classes() []string { return []string{"Reader", "Writer"} }

func (l *ops) Do(_ context.Context, op locust.Op, _ func(locust.Event)) time.Duration {
	l.seen <- op
	return time.Second
}

// Workers have different operations, and each test begins with the first ones.
func TestOperationsAreNumbered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMaster(t)
		m.known["another"] = true
		load := &ops{make(chan locust.Op, 100)}
		s := start(t, m, load)
		synctest.Wait()
		for range 2 {
			m.spawn(0, 2, nil)
			pass(time.Second + time.Millisecond)
			for i := range 4 {
				op := <-load.seen
				want := locust.Op{Class: 1, N: locust.OpsOfWorker + int64(i), At: time.Duration(i/2) * time.Second}
				if op != want {
					t.Errorf("operation %+v, want %+v", op, want)
				}
			}
			m.send("stop", nil)
		}
		s.ends()
	})
}

// Without a stop timeout, operations are cut off, and are no failures.
func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{holding: hour})
		s.spawn(2, 3, nil)
		pass(time.Second)
		before := len(s.heard(""))
		s.send("stop", nil)
		if diff := cmp.Diff([]string{"client_stopped", "client_ready"}, s.kinds(before)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := s.active(); got != 0 {
			t.Errorf("%d operations are under way", got)
		}
		requests, failures, _ := s.reported()
		if requests != 5 || failures != 2 { // the first of each class fails
			t.Errorf("%d requests, %d failures", requests, failures)
		}
		pass(time.Second)
		if got := s.last("heartbeat").data["state"]; got != "ready" {
			t.Errorf("state %v", got)
		}
		s.ends()
	})
}

// With a stop timeout, operations end by themselves within it. A spawn message in between
// waits for them.
func TestStopWithGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		grace           float64
		stops           time.Duration
		requests, heldN int64
	}{
		{"long enough", 20, 9 * time.Second, 5, 5},
		{"too short", 2.5, 2500 * time.Millisecond, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, &tasks{holding: 10 * time.Second, think: hour})
				s.spawn(2, 3, c.grace)
				pass(time.Second)
				began := time.Since(s.began)
				s.send("stop", nil)
				s.spawn(1, 0, c.grace)
				if got := s.active(); got != 5 {
					t.Errorf("%d operations are under way after the stop", got)
				}
				pass(c.stops)
				synctest.Wait()
				if took := s.last("client_stopped").at - began; took != c.stops {
					t.Errorf("stopped after %v, want %v", took, c.stops)
				}
				if got := s.active(); got != 1 {
					t.Errorf("%d operations are under way after the spawn", got)
				}
				var held int64
				for _, m := range s.heard("stats") {
					for _, e := range m.data["stats"].([]any) {
						if entry := e.(map[string]any); entry["method"] == "HELD" {
							held += number(entry["num_requests"])
						}
					}
				}
				if held != c.heldN {
					t.Errorf("%d operations ended by themselves, want %d", held, c.heldN)
				}
				s.ends()
			})
		})
	}
}

// A worker with a bound on the grace ends its users within it when it is interrupted, also
// after a stop of the master. It reports what they did.
func TestMaxGrace(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := startWith(t, newMaster(t), locust.Options{Load: &tasks{holding: hour, think: hour}, MaxGrace: 20 * time.Second})
			synctest.Wait()
			s.spawn(2, 3, 7200)
			pass(time.Second)
			if stopped {
				s.send("stop", nil)
				pass(time.Second)
			}
			if took, err := s.ends(); took != 20*time.Second || err != nil {
				t.Errorf("stopped %v: it ended after %v: %v", stopped, took, err)
			}
			if requests, _, _ := s.reported(); requests != 5 || len(s.heard("quit")) != 1 {
				t.Errorf("stopped %v: %d requests reported, %d farewells", stopped, requests, len(s.heard("quit")))
			}
		})
	}
}

// Messages that are not understood, or that nobody needs, change nothing.
func TestBadMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{holding: hour})
		s.spawn(1, 1, nil)
		before := len(s.heard(""))
		s.send("custom", map[string]any{"a": 1})
		s.send("update_user_class", map[string]any{"user_class_name": "Reader", "weight": 5})
		s.send("spawning_complete", map[string]any{"user_count": 2})
		s.send("ack", "no map")
		s.send("spawn", nil)
		s.send("spawn", map[string]any{"timestamp": 9e18, "user_classes_count": map[string]any{"Reader": -5}})
		s.send("spawn", []int{1, 2})
		for _, frame := range []string{"", "\xc1", "\x93", "\x93\x01\x02\x03", "\x91\xa4stop", "\x94\xa4stop\xc0\xc0\xc0", "\x93\xa4stop\xc0\xa1w!", "\xdd\xff\xff\xff\xff", "\x93\xdb\xff\xff\xff\xffquit"} {
			s.mu.Lock()
			_ = s.current.SendMsg(raw(frame))
			s.mu.Unlock()
			synctest.Wait()
		}
		if kinds := s.kinds(before); len(kinds) != 0 || s.active() != 2 {
			t.Errorf("messages %v, %d users", kinds, s.active())
		}
		pass(2 * time.Second)
		if len(s.heard("")) == before {
			t.Error("the worker is silent")
		}
		s.ends()
	})
}

func TestUnknownClassesAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{holding: hour})
		for i := range 3 { // steps of one ramp
			s.send("spawn", map[string]any{"timestamp": 1 + i, "user_classes_count": map[string]any{"Reader": i, "Zoe": i, "Adam": i}})
		}
		all := s.heard("exception")
		if len(all) != 1 || !strings.Contains(fmt.Sprint(all[0].data["msg"]), "Adam, Zoe. Rename them: the load has Reader, Writer") {
			t.Errorf("exceptions %v", all)
		}
		if got := s.last("spawning_complete"); got.counts() != [2]int64{2, 0} || number(got.data["user_count"]) != 2 {
			t.Errorf("%v", got.data)
		}
		s.ends()
	})
}

// failing is a load whose failures have a text each.
type failing struct{ tasks }

func (*failing) Do(_ context.Context, op locust.Op, report func(locust.Event)) time.Duration {
	report(locust.Event{Method: "DO", Name: "x", Err: fmt.Errorf("failure %d", op.N)})
	return time.Millisecond
}

// Failures that all differ do not make reports long.
func TestManyTextsOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMaster(t)
		s := start(t, m, &failing{})
		synctest.Wait()
		m.spawn(1, 0, nil)
		pass(3 * time.Second)
		synctest.Wait()
		errs := m.last("stats").data["errors"].(map[string]any)
		var sum int64
		for _, e := range errs {
			sum += number(e.(map[string]any)["occurrences"])
		}
		if len(errs) != locust.MaxErrors+1 || sum < 2900 {
			t.Errorf("%d texts of %d failures", len(errs), sum)
		}
		s.ends()
	})
}
