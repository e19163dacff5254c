package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxPage is the longest answer of a master that is read: 1,000 workers and 500 lines of
// statistics have less than a megabyte.
const maxPage = 8 << 20

// A Locust is the web page of a Locust master.
type Locust struct {
	// URL is that of the page, http://HOST:PORT without a path.
	URL string
	// Client carries out the requests. It must have a timeout.
	Client *http.Client
}

var _ Master = (*Locust)(nil)

// Look reads the state of the master. An answer without a list of workers is an error: it
// comes from a Locust that has no workers, and means something else than no workers.
func (l *Locust) Look(ctx context.Context) (View, error) {
	const op = "ask the Locust master for its workers"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL+"/stats/requests", http.NoBody)
	if err != nil {
		return View{}, fmt.Errorf("%s: %w", op, err)
	}
	answer, err := l.Client.Do(r)
	if err != nil {
		return View{}, fmt.Errorf("%s: %w", op, err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	err = errors.Join(err, answer.Body.Close())
	switch {
	case err != nil:
		return View{}, fmt.Errorf("%s: %w", op, err)
	case answer.StatusCode != http.StatusOK:
		return View{}, fmt.Errorf("%s: it answered %s", op, answer.Status)
	}
	var page struct {
		State   string `json:"state"`
		Users   int    `json:"user_count"`
		Workers *[]struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return View{}, fmt.Errorf("%s: its answer is no JSON: %w", op, err)
	}
	if page.Workers == nil || page.State == "" {
		return View{}, fmt.Errorf("%s: its answer has no list of workers: start Locust with --master", op)
	}
	v := View{State: page.State, Users: page.Users}
	for _, w := range *page.Workers {
		v.Workers = append(v.Workers, Worker(w))
	}
	return v, nil
}
