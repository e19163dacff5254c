//go:build conformance

package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// LocustPython returns the interpreter of the virtual environment in which Locust is
// installed.
func LocustPython(tb testing.TB) string {
	tb.Helper()
	return require(tb, "locust", "bin", "python")
}

// Locust is a running master of Locust, with its web page.
type Locust struct {
	// Master is where workers connect, host:port.
	Master string

	web  string
	file string
	port int // of Master
	stop func()
}

// StartLocust starts a master with a locustfile on free loopback ports, waits until its page
// answers, and kills it when the test ends. Further arguments are Locust's.
func StartLocust(tb testing.TB, file string, args ...string) *Locust {
	tb.Helper()
	port, err := freePort(tb.Context())
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	l := &Locust{Master: "127.0.0.1:" + strconv.Itoa(port), file: file, port: port}
	l.start(tb, args...)
	return l
}

// Restart kills the master and starts another one for the same address of workers.
func (l *Locust) Restart(tb testing.TB, args ...string) {
	tb.Helper()
	l.stop()
	l.start(tb, args...)
}

// Page is the URL of the web page.
func (l *Locust) Page() string { return l.web }

// Kill kills the master.
func (l *Locust) Kill() { l.stop() }

func (l *Locust) start(tb testing.TB, args ...string) {
	tb.Helper()
	python := LocustPython(tb)
	s, err := launch(tb, "locust", func(web string) []string {
		return append([]string{
			python, "-m", "locust", "-f", l.file, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", strconv.Itoa(l.port),
			"--web-host", "127.0.0.1", "--web-port", web,
		}, args...)
	}, func(ctx context.Context, endpoint string) error {
		l.web = endpoint
		_, err := l.stats(ctx)
		return err
	})
	if err != nil {
		tb.Fatalf("peers: start Locust: %v", err)
	}
	l.stop = s.stop
	tb.Cleanup(func() { s.tell(tb) })
}

// LocustStats are the statistics of a test.
type LocustStats struct {
	State     string        `json:"state"`
	UserCount int           `json:"user_count"`
	Stats     []LocustEntry `json:"stats"`
	Errors    []struct {
		Method      string `json:"method"`
		Name        string `json:"name"`
		Error       string `json:"error"`
		Occurrences int64  `json:"occurrences"`
	} `json:"errors"`
	Workers []struct {
		ID        string  `json:"id"`
		State     string  `json:"state"`
		UserCount int     `json:"user_count"`
		CPU       float64 `json:"cpu_usage"`
		Memory    uint64  `json:"memory_usage"`
	} `json:"workers"`
}

// LocustEntry are the statistics of requests with one method and name.
type LocustEntry struct {
	Method   string  `json:"method"`
	Name     string  `json:"name"`
	Requests int64   `json:"num_requests"`
	Failures int64   `json:"num_failures"`
	Min      float64 `json:"min_response_time"`
	Max      float64 `json:"max_response_time"`
	Median   float64 `json:"median_response_time"`
}

// Stats asks the master for its statistics.
func (l *Locust) Stats(ctx context.Context, tb testing.TB) *LocustStats {
	tb.Helper()
	s, err := l.stats(ctx)
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	return s
}

func (l *Locust) stats(ctx context.Context) (*LocustStats, error) {
	s := &LocustStats{}
	return s, l.ask(ctx, "stats/requests", nil, s)
}

// Exceptions asks the master for errors that belong to no request.
func (l *Locust) Exceptions(tb testing.TB) (texts []string) {
	tb.Helper()
	var answer struct {
		Exceptions []struct{ Msg string } `json:"exceptions"`
	}
	if err := l.ask(tb.Context(), "exceptions", nil, &answer); err != nil {
		tb.Fatalf("peers: %v", err)
	}
	for _, e := range answer.Exceptions {
		texts = append(texts, e.Msg)
	}
	return texts
}

// Swarm starts a test, or changes the number of users of the one that runs. The rate is how
// many users start or stop a second.
func (l *Locust) Swarm(tb testing.TB, users, rate int) {
	tb.Helper()
	form := url.Values{"user_count": {strconv.Itoa(users)}, "spawn_rate": {strconv.Itoa(rate)}}
	if err := l.ask(tb.Context(), "swarm", form, nil); err != nil {
		tb.Fatalf("peers: %v", err)
	}
}

// Stop stops the test.
func (l *Locust) Stop(tb testing.TB) {
	tb.Helper()
	if err := l.ask(tb.Context(), "stop", url.Values{}, nil); err != nil {
		tb.Fatalf("peers: %v", err)
	}
}

// ask gets a page, or posts a form to it.
func (l *Locust) ask(ctx context.Context, path string, form url.Values, answer any) error {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, l.web+"/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s of Locust: %s: %s", path, response.Status, body)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(body, answer)
}

// RunLocust runs a master without its page until its test ends: give --headless and when it
// ends. listen gets the address for workers before the master starts. The statistics are
// those that Locust writes to a file.
func RunLocust(tb testing.TB, file string, listen func(master string), args ...string) (entries []LocustEntry, exit int) {
	tb.Helper()
	port, err := freePort(tb.Context())
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	listen("127.0.0.1:" + strconv.Itoa(port))
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, LocustPython(tb), append([]string{
		"-m", "locust", "-f", file, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", strconv.Itoa(port),
		"--json", "--only-summary",
	}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		exit = exited.ExitCode()
	} else if err != nil {
		tb.Fatalf("peers: run Locust: %v", err)
	}
	if err := json.Unmarshal(stdout, &entries); err != nil {
		tb.Fatalf("peers: Locust prints %s: %v\n%s", stdout, err, &stderr)
	}
	return entries, exit
}
