package swarm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// States of a master and of its workers, in Locust's words.
const (
	Ready    = "ready"
	Spawning = "spawning"
	Running  = "running"
	Stopping = "stopping"
	Stopped  = "stopped"
	Missing  = "missing"
)

// total is the name of the entry that adds up all others.
const total = "Aggregated"

// maxAnswer is the longest answer of a master that is read: 1,000 workers and 500 lines of
// statistics have less than a megabyte.
const maxAnswer = 8 << 20

// A Page is the web page of a Locust master.
type Page struct {
	// URL is that of the page, http://HOST:PORT without a path.
	URL string
	// Client carries out the requests. It must have a timeout.
	Client *http.Client
}

// A Look is what the page shows. Locust keeps it for two seconds.
type Look struct {
	State   string
	Users   int
	Workers []Worker
	// PerSecond and FailedPerSecond are about the last ten seconds.
	PerSecond, FailedPerSecond float64
	// P50 and P95 are of the last ten seconds, in milliseconds; 0 if Locust has none.
	P50, P95 float64
	// Requests are the statistics by method and name, at most 500 of them, and Total adds
	// up all.
	Requests []Request
	Total    Request
	Errors   []Error
}

// Connected is the number of workers that the master hears of.
func (l *Look) Connected() (n int) {
	for _, w := range l.Workers {
		if w.State != Missing {
			n++
		}
	}
	return n
}

// A Worker is a worker of a master.
type Worker struct {
	ID    string
	State string
}

// A Request has the statistics of requests of one method and name. Times are in milliseconds
// from the start of a request to its end. Locust rounds quantiles to two digits, and never the
// mean.
type Request struct {
	Method   string  `json:"method"`   // kind of the request
	Name     string  `json:"name"`     // name of the request
	Requests int64   `json:"requests"` // requests, failures included
	Failures int64   `json:"failures"` // requests that failed
	Mean     float64 `json:"mean_ms"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	Min      float64 `json:"min_ms"`
	Max      float64 `json:"max_ms"`
	// PerSecond is the number of requests in a second of the measurement.
	PerSecond float64 `json:"requests_per_second"`
}

// An Error counts failures with one text.
type Error struct {
	Method      string `json:"method"`      // kind of the request
	Name        string `json:"name"`        // name of the request
	Error       string `json:"error"`       // text of the error
	Occurrences int64  `json:"occurrences"` // how often it happened
}

// Look reads the state of the master. An answer without a list of workers is an error: it
// comes from a Locust that has no workers, and means something else than no workers.
func (p *Page) Look(ctx context.Context) (*Look, error) {
	var answer struct {
		State   string    `json:"state"`
		Users   int       `json:"user_count"`
		Workers *[]Worker `json:"workers"`
		RPS     float64   `json:"current_rps"`
		Failing float64   `json:"current_fail_per_sec"`
		Errors  []Error   `json:"errors"`
		Recent  struct {
			P50 float64 `json:"response_time_percentile_0.5"`
			P95 float64 `json:"response_time_percentile_0.95"`
		} `json:"current_response_time_percentiles"`
		Stats []struct {
			Method   string  `json:"method"`
			Name     string  `json:"name"`
			Requests int64   `json:"num_requests"`
			Failures int64   `json:"num_failures"`
			Mean     float64 `json:"avg_response_time"`
			P50      float64 `json:"median_response_time"`
			P95      float64 `json:"response_time_percentile_0.95"`
			P99      float64 `json:"response_time_percentile_0.99"`
			Min      float64 `json:"min_response_time"`
			Max      float64 `json:"max_response_time"`
		} `json:"stats"`
	}
	const op = "ask the Locust master for its workers"
	if err := p.ask(ctx, op, "stats/requests", nil, &answer); err != nil {
		return nil, err
	}
	if answer.Workers == nil || answer.State == "" {
		return nil, fmt.Errorf("%s: its answer has no list of workers: start Locust with --master", op)
	}
	look := &Look{
		State: answer.State, Users: answer.Users, Workers: *answer.Workers,
		PerSecond: answer.RPS, FailedPerSecond: answer.Failing, Errors: answer.Errors,
		P50: answer.Recent.P50, P95: answer.Recent.P95,
	}
	for _, s := range answer.Stats {
		r := Request{Method: s.Method, Name: s.Name, Requests: s.Requests, Failures: s.Failures, Mean: s.Mean, P50: s.P50, P95: s.P95, P99: s.P99, Min: s.Min, Max: s.Max}
		if s.Name == total && s.Method == "" {
			r.Name = ""
			look.Total = r
			continue
		}
		look.Requests = append(look.Requests, r)
	}
	return look, nil
}

// An Order says which users a master is to start.
type Order struct {
	// Users is the number of users, and SpawnRate how many start in a second.
	Users     int
	SpawnRate float64
	// Classes are the classes of the users; none are all. The master needs --class-picker.
	Classes []string
	// Shape is a class of the locustfile that says how many users there are, instead of
	// Users and SpawnRate; "" is none. The master needs --class-picker.
	Shape string
}

// form is the order as the page takes it.
func (o *Order) form() url.Values {
	f := url.Values{
		"user_count": {strconv.Itoa(o.Users)}, "spawn_rate": {strconv.FormatFloat(o.SpawnRate, 'f', -1, 64)},
		"user_classes": o.Classes,
	}
	if o.Shape != "" {
		f.Set("shape_class", o.Shape)
	}
	return f
}

// Start starts users. It fails with what the master says against it. After an error, users
// may run: a master starts those classes that it knows, and ignores the others.
func (p *Page) Start(ctx context.Context, o Order) error {
	const op = "start users at the Locust master"
	var answer struct {
		Success bool     `json:"success"`
		Message string   `json:"message"`
		Classes []string `json:"user_classes"`
	}
	err := p.ask(ctx, op, "swarm", o.form(), &answer)
	switch {
	case err != nil && o.Shape != "":
		return fmt.Errorf("%w: has the locustfile a shape %s?", err, o.Shape)
	case err != nil:
		return err
	case !answer.Success:
		return fmt.Errorf("%s: it refuses: %s", op, cmp.Or(answer.Message, "without a reason"))
	case o.Shape != "" && !strings.Contains(answer.Message, o.Shape):
		return fmt.Errorf("%s: it does not choose among shapes: start it with --class-picker", op)
	case o.Shape != "" || len(o.Classes) == 0: // the answer about a shape has no classes
		return nil
	case answer.Classes == nil:
		return fmt.Errorf("%s: it does not choose among classes: start it with --class-picker, or give no classes", op)
	}
	for _, c := range o.Classes {
		if !slices.Contains(answer.Classes, c) {
			return fmt.Errorf("%s: its locustfile has no class %s: give one of its classes", op, c)
		}
	}
	return nil
}

// Stop stops all users.
func (p *Page) Stop(ctx context.Context) error {
	return p.ask(ctx, "stop the users of the Locust master", "stop", url.Values{}, nil)
}

// Reset sets the statistics to zero.
func (p *Page) Reset(ctx context.Context) error {
	return p.ask(ctx, "reset the statistics of the Locust master", "stats/reset", url.Values{}, nil)
}

// ask gets a path of the page, or posts a form to it. A nil answer ignores the body.
func (p *Page) ask(ctx context.Context, op, path string, form url.Values, answer any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", op, err)
		}
	}()
	method, content := http.MethodGet, ""
	if form != nil {
		method, content = http.MethodPost, "application/x-www-form-urlencoded"
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.URL, "/")+"/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	if content != "" {
		request.Header.Set("Content-Type", content)
	}
	response, err := p.Client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	err = errors.Join(err, response.Body.Close())
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answered %s", response.Status)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("its answer is no JSON: %w", err)
	}
	return nil
}
