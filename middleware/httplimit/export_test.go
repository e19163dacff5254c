package httplimit

import (
	"fmt"
	"net/http"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// WriteFields sets the header fields of an admitted request.
func WriteFields(h http.Header, entity string, statuses []limiter.Status, units map[string]string) {
	f := fields{units: units}
	f.write(h, entity, statuses, noBound)
}

// PauseOf returns the pause for which a response asks, within five minutes.
func PauseOf(res *http.Response, now time.Time) time.Duration {
	return pauseOf(res, now, DefaultMaxHold)
}

// Remembered returns how many names are remembered after n different routes.
func Remembered(n int) (remembered int) {
	var names names
	for i := range n {
		names.of(fmt.Sprintf("GET /%d", i))
	}
	names.known.Range(func(any, any) bool {
		remembered++
		return true
	})
	return remembered
}
