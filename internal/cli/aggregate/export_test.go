package aggregate

import (
	"net/http"
	"time"
)

// NewHealth is the health of a follower whose progress a test reports.
func NewHealth(now func() time.Time, poll time.Duration) (check http.Handler, progress func(shard string, ended bool)) {
	h := newHealthCheck(now, poll)
	return h, h.progress
}
