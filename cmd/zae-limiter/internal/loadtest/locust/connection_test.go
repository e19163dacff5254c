package locust_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
)

// A connection that is lost does not stop users. What they do meanwhile is reported once.
func TestAConnectionIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{think: time.Second})
		s.spawn(2, 2, nil)
		pass(10 * time.Second)
		s.becomes(func() { s.down = true })
		pass(40 * time.Second)
		before := len(s.heard(""))
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		pass(10 * time.Second)
		if kinds := s.kinds(before); len(kinds) != 0 {
			t.Errorf("the worker said %v to a master that knows it", kinds)
		}
		if ids := s.distinct(); len(ids) != 1 {
			t.Errorf("IDs %v", ids)
		}
		s.ends()
		if requests, _, _ := s.reported(); requests != s.load.done.Load() || requests < 4*60 {
			t.Errorf("%d requests reported of %d", requests, s.load.done.Load())
		}
	})
}

// A report that cannot be sent is sent later.
func TestAReportIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{think: time.Second})
		s.spawn(1, 2, nil)
		pass(4500 * time.Millisecond)
		s.mu.Lock()
		s.worker.refuses.Store(true)
		s.mu.Unlock()
		pass(10 * time.Second)
		s.ends()
		if requests, failures, texts := s.reported(); requests != s.load.done.Load() || failures != 2 || texts != 2 {
			t.Errorf("%d requests, %d failures with %d texts reported, of %d", requests, failures, texts, s.load.done.Load())
		}
	})
}

// A new master does not know the worker. Its users stop, and it gets nothing that an old
// master asked for.
func TestANewMaster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{think: 400 * time.Millisecond})
		s.spawn(2, 2, nil)
		pass(10 * time.Second)
		before, when := len(s.heard("")), time.Since(s.began)
		s.becomes(func() { s.known = map[string]bool{} })
		pass(20 * time.Second)
		after := s.heard("")[before:]
		ids := s.distinct()
		if len(ids) != 2 || s.last("client_ready").id != ids[1] {
			t.Fatalf("IDs %v", ids)
		}
		if took := s.last("client_ready").at - when; took < 5*time.Second || took > 7*time.Second {
			t.Errorf("announced after %v", took)
		}
		for _, m := range after {
			if m.kind == "stats" && (m.id != ids[1] || number(m.data["stats_total"].(map[string]any)["num_requests"]) != 0) {
				t.Errorf("reported to the new master: %v", m)
			}
		}
		did := s.load.done.Load()
		pass(10 * time.Second)
		if more := s.load.done.Load() - did; more != 0 {
			t.Errorf("%d requests of users that the new master does not know of", more)
		}
		// Its clock may be behind that of the old one.
		s.send("spawn", map[string]any{"timestamp": 1.0, "user_classes_count": map[string]any{"Writer": 3}})
		if got := s.last("spawning_complete"); got.counts() != [2]int64{0, 3} {
			t.Errorf("users %v", got.counts())
		}
		s.ends()
	})
}

// A master that says nothing for a minute counts as gone, connected or not.
func TestASilentMaster(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fakeMaster){
		"connected":    func(m *fakeMaster) { m.silent = true },
		"disconnected": func(m *fakeMaster) { m.down = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, &tasks{holding: hour})
				s.spawn(2, 2, nil)
				pass(10*time.Second + time.Millisecond)
				if name == "connected" {
					s.mu.Lock()
					change(s.fakeMaster)
					s.mu.Unlock()
				} else {
					s.becomes(func() { change(s.fakeMaster) })
				}
				pass(59 * time.Second)
				if got := s.active(); got != 4 {
					t.Errorf("%d operations are under way after 59 s", got)
				}
				pass(3 * time.Second)
				if got := s.active(); got != 0 {
					t.Errorf("%d operations are under way after a minute", got)
				}
				s.mu.Lock()
				s.silent, s.down = false, false
				s.mu.Unlock()
				pass(10 * time.Second)
				if ids := s.distinct(); len(ids) != 2 || !s.known[ids[1]] {
					t.Errorf("IDs %v", ids)
				}
				s.ends()
			})
		})
	}
}

// Without a master, the worker gives up after five minutes, or what it is told.
func TestNoMaster(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fakeMaster){
		"no connection": func(m *fakeMaster) { m.down = true },
		"no answer":     func(m *fakeMaster) { m.silent = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMaster(t)
				change(m)
				hasty := newMaster(t)
				change(hasty)
				s, other := start(t, m, &tasks{}), startWith(t, hasty, locust.Options{Load: &tasks{}, Patience: 30 * time.Second})
				if err := <-other.ended; !strings.Contains(err.Error(), "for 30s") {
					t.Error(err)
				}
				if took := time.Since(m.began); took < 30*time.Second || took > 32*time.Second {
					t.Errorf("after %v", took)
				}
				err := <-s.ended
				gone, ok := errors.AsType[*locust.UnreachableError](err)
				if took := time.Since(m.began); !ok || took < 300*time.Second || took > 302*time.Second {
					t.Fatalf("after %v: %v", took, err)
				}
				if gone.Master != "master:5557" || !strings.Contains(err.Error(), "locust --master") || errors.Is(err, errDown) != m.down {
					t.Error(err)
				}
				if n := len(m.heard("client_ready")); m.silent && (n < 59 || n > 61) {
					t.Errorf("%d announcements", n)
				}
			})
		})
	}
}

// A worker that has announced itself on a connection that is lost does so at once on the
// next one.
func TestTheFirstConnectionIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMaster(t)
		m.silent = true
		s := start(t, m, &tasks{})
		synctest.Wait()
		m.becomes(func() { m.silent = false })
		pass(1500 * time.Millisecond)
		if n := len(m.heard("client_ready")); n != 2 || len(m.distinct()) != 1 {
			t.Errorf("%d announcements, IDs %v", n, m.distinct())
		}
		s.ends()
	})
}

func TestTheMasterAsksForANewConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{holding: hour})
		s.spawn(1, 1, nil)
		s.mu.Lock()
		before := s.current
		s.mu.Unlock()
		s.send("reconnect", nil)
		pass(10 * time.Second)
		s.mu.Lock()
		same := s.current == before
		s.mu.Unlock()
		if got := s.active(); same || got != 2 || len(s.distinct()) != 1 {
			t.Errorf("same connection: %v; %d users, IDs %v", same, got, s.distinct())
		}
		s.ends()
	})
}

// A master that quits gets the last report. So does one whose worker leaves, and a word.
func TestTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{think: time.Second})
		s.spawn(2, 2, nil)
		pass(4 * time.Second)
		s.send("quit", nil)
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if requests, _, _ := s.reported(); requests != s.load.done.Load() || len(s.heard("quit")) != 0 {
			t.Errorf("%d requests reported of %d", requests, s.load.done.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &tasks{think: time.Second})
		s.spawn(2, 2, nil)
		pass(4 * time.Second)
		if took, err := s.ends(); err != nil || took > time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		synctest.Wait()
		if requests, _, _ := s.reported(); requests != s.load.done.Load() || s.heard("")[len(s.heard(""))-1].kind != "quit" {
			t.Errorf("%d requests reported of %d", requests, s.load.done.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) { // during operations that outlast a quitting master
		s := serve(t, &tasks{holding: 2 * time.Second})
		s.spawn(2, 2, 20)
		pass(4500 * time.Millisecond)
		quit := time.Now()
		s.send("quit", nil)
		if err := <-s.ended; err != nil || time.Since(quit) > 300*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(quit), err)
		}
		if requests, _, _ := s.reported(); requests != s.load.done.Load()+8 { // and 8 that were held to their end
			t.Errorf("%d requests reported of %d", requests, s.load.done.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) { // during operations, which may end
		s := serve(t, &tasks{holding: 10 * time.Second, think: hour})
		s.spawn(2, 2, 20)
		pass(4500 * time.Millisecond)
		before := len(s.heard("heartbeat"))
		if took, err := s.ends(); err != nil || took != 5500*time.Millisecond {
			t.Errorf("after %v: %v", took, err)
		}
		synctest.Wait()
		beats := len(s.heard("heartbeat")) - before
		if requests, _, _ := s.reported(); requests != 8 || s.heard("")[len(s.heard(""))-1].kind != "quit" || beats < 5 {
			t.Errorf("%d requests reported, %d heartbeats", requests, beats)
		}
	})
	synctest.Test(t, func(t *testing.T) { // while there is no master
		m := newMaster(t)
		m.down = true
		s := start(t, m, &tasks{})
		pass(10 * time.Second)
		if took, err := s.ends(); err != nil || took > time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
