package swarm

import (
	"encoding/json"
	"fmt"
	"io"
)

// Format is the version of the JSON form of a [Result].
const Format = 1

// maxSamples bounds the samples of a result: a long run has fewer of them in an hour.
const maxSamples = 1200

// A Sample is a look during the measurement. Locust's rates and quantiles are of about the ten
// seconds before it.
type Sample struct {
	At              float64 `json:"at_seconds"`          // since the measurement began
	Users           int     `json:"users"`               // users that ran
	Workers         int     `json:"workers"`             // workers that were connected
	PerSecond       float64 `json:"requests_per_second"` // requests a second, failures included
	FailedPerSecond float64 `json:"failures_per_second"` // requests a second that failed
	// Absent while Locust has none, or if it charts other quantiles.
	P50 float64 `json:"p50_ms,omitempty"`
	P95 float64 `json:"p95_ms,omitempty"` // as P50
}

// sample keeps a look. When there are too many samples, it keeps every second one.
func (r *run) sample(look *Look) {
	const half = 2
	samples := r.result.Samples
	if len(samples) == maxSamples {
		r.every *= half
		for i := range maxSamples / half {
			samples[i] = samples[half*i]
		}
		samples = samples[:maxSamples/half]
	}
	if r.looks%r.every == 0 {
		samples = append(samples, Sample{
			At: r.o.Now().Sub(r.began).Seconds(), Users: look.Users, Workers: look.Connected(),
			PerSecond: look.PerSecond, FailedPerSecond: look.FailedPerSecond, P50: look.P50, P95: look.P95,
		})
	}
	r.looks++
	r.result.Samples = samples
}

// IsResult reports whether a text in JSON is a result of [Run], of any format.
func IsResult(text []byte) bool {
	var is struct {
		Format *int `json:"swarm_format"`
	}
	return json.Unmarshal(text, &is) == nil && is.Format != nil
}

// Read reads the JSON form of a result. It refuses another format, and anything that is not a
// result, with an error that says so.
func Read(r io.Reader) (*Result, error) {
	result := &Result{}
	if err := json.NewDecoder(r).Decode(result); err != nil {
		return nil, fmt.Errorf("this is no result of a swarm: %w", err)
	}
	if result.Format != Format {
		return nil, fmt.Errorf("this is no result of a swarm in format %d: give what `loadtest swarm run --output json` of this version writes", Format)
	}
	return result, nil
}
