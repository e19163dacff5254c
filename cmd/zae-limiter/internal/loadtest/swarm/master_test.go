package swarm_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/swarm"
)

// A master is a web page of Locust: users start evenly, each sends ten requests a second, and
// workers report every three seconds. Answers are kept for two seconds, as Locust's are.
type master struct {
	mu sync.Mutex

	workers int
	classes []string // of the locustfile
	picks   bool     // --class-picker
	silent  bool
	refuses bool
	lost    int           // users that never start
	ends    time.Duration // after the start, by itself

	state   string
	began   time.Time // of the users
	users   int
	rate    float64
	shape   string
	cleared float64 // requests before the reset
	asked   []url.Values
	stops   int
	kept    []byte
	keptAt  time.Time
}

func newMaster() *master {
	return &master{workers: 2, classes: []string{"Reader", "Writer"}, picks: true, state: swarm.Ready}
}

// page is the page of the master.
func (m *master) page() *swarm.Page {
	return &swarm.Page{URL: "http://master:8089", Client: &http.Client{Transport: m}}
}

// do changes the master.
func (m *master) do(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// RoundTrip answers a request.
func (m *master) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if m.silent {
		return nil, errors.New("connection refused")
	}
	m.settle()
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	var answer any = "ok"
	switch r.Method + " " + r.URL.Path {
	case "GET /stats/requests":
		if m.kept == nil || time.Since(m.keptAt) >= 2*time.Second {
			m.kept, _ = json.Marshal(m.look())
			m.keptAt = time.Now()
		}
		return respond(http.StatusOK, m.kept), nil
	case "POST /swarm":
		answer = m.swarm(form)
	case "POST /stop":
		m.stops++
		m.state = swarm.Stopped
	case "POST /stats/reset":
		m.cleared = m.sent()
		answer = "ok"
	default:
		return respond(http.StatusNotFound, nil), nil
	}
	text, _ := json.Marshal(answer)
	return respond(http.StatusOK, text), nil
}

func respond(code int, body []byte) *http.Response {
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Body: io.NopCloser(strings.NewReader(string(body)))}
}

// swarm starts users.
func (m *master) swarm(form url.Values) any {
	m.asked = append(m.asked, form)
	m.users, _ = strconv.Atoi(form.Get("user_count"))
	m.rate, _ = strconv.ParseFloat(form.Get("spawn_rate"), 64)
	m.state, m.began, m.cleared, m.shape = swarm.Spawning, time.Now(), 0, form.Get("shape_class")
	if m.refuses {
		return map[string]any{"success": false, "message": "no shape"}
	}
	if !m.picks {
		return map[string]any{"success": true, "message": "Swarming started"}
	}
	if m.shape != "" {
		m.users, m.rate = 30, 1000
		return map[string]any{"success": true, "message": "Swarming started using shape class '" + m.shape + "'"}
	}
	picked := []string{}
	for _, c := range m.classes {
		if len(form["user_classes"]) == 0 || strings.Contains(strings.Join(form["user_classes"], " "), c) {
			picked = append(picked, c)
		}
	}
	return map[string]any{"success": true, "user_classes": picked}
}

// settle ends the ramp, and the test.
func (m *master) settle() {
	if m.state == swarm.Spawning && m.running() == m.users-m.lost {
		m.state = swarm.Running
	}
	if m.ends > 0 && m.state == swarm.Running && time.Since(m.began) >= m.ends {
		m.state = swarm.Stopped
	}
}

// running is the number of users.
func (m *master) running() int {
	return min(m.users-m.lost, int(time.Since(m.began).Seconds()*m.rate))
}

// sent is the number of requests that the workers have reported since the start.
func (m *master) sent() float64 {
	if m.began.IsZero() {
		return 0
	}
	at := time.Since(m.began)
	if m.state != swarm.Stopped {
		at = at.Truncate(3 * time.Second)
	}
	ramp := float64(m.users) / m.rate
	s := at.Seconds()
	whole := min(s, ramp)*min(s, ramp)*m.rate/2 + max(s-ramp, 0)*float64(m.users)
	return 10 * whole
}

// look is the state of the master, as Locust writes it.
func (m *master) look() any {
	n := int(m.sent() - m.cleared)
	entry := func(method, name string, n, failed int) map[string]any {
		return map[string]any{
			"method": method, "name": name, "num_requests": n, "num_failures": failed, "avg_response_time": 7.25, "median_response_time": 7,
			"response_time_percentile_0.95": 12.0, "response_time_percentile_0.99": 31, "min_response_time": 5, "max_response_time": 140,
		}
	}
	workers := []map[string]any{{"id": "lost", "state": swarm.Missing}}
	for i := range m.workers {
		workers = append(workers, map[string]any{"id": "w" + strconv.Itoa(i), "state": m.state, "user_count": 1})
	}
	users := 0
	if m.state == swarm.Spawning || m.state == swarm.Running {
		users = m.running()
	}
	return map[string]any{
		"state": m.state, "user_count": users, "workers": workers, "current_rps": 3.5, "current_fail_per_sec": 0.5,
		"current_response_time_percentiles": map[string]any{"response_time_percentile_0.5": 7, "response_time_percentile_0.95": nil},
		"errors":                            []map[string]any{{"method": "ACQUIRE", "name": "api", "error": "throttled", "occurrences": 2, "first_seen": 1.0}},
		"stats":                             []map[string]any{entry("ACQUIRE", "api", n-n/4, 2), entry("COMMIT", "api", n/4, 0), entry("", "Aggregated", n, 2)},
	}
}
