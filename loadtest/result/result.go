// Package result has what a load test measured: the figures of each side, phase and class,
// and a sample of every interval. A [Result] has a JSON form with stable names, which
// `loadtest run` writes, and which reports and comparisons read.
package result

import "time"

// Format is the version of the JSON form.
const Format = 1

// A Result is the result of a run.
type Result struct {
	Format   int       `json:"format"`
	Scenario string    `json:"scenario"`
	About    string    `json:"about,omitempty"`
	Version  string    `json:"version"` // of the program
	Target   string    `json:"target"`  // what carried the load out, for instance an endpoint
	Machine  string    `json:"machine"` // operating system, architecture and number of processors
	Started  time.Time `json:"started"`
	Seed     uint64    `json:"seed"`
	// Namespace is the namespace of the run's items.
	Namespace string `json:"namespace"`
	// Interrupted means that the run ended early: what is missing was not measured, and the
	// last phase is shorter than planned.
	Interrupted bool `json:"interrupted"`
	// Spoiled says why the figures are not those of the limiter, "" if they are: the
	// generator itself was late.
	Spoiled string `json:"spoiled,omitempty"`
	Sides   []Side `json:"sides"`
	// Spent is the consumption of the whole run, with set-up and cleanup.
	Spent Cost `json:"spent"`
}

// A Side is what one system did.
type Side struct {
	Name   string  `json:"name"`
	Phases []Phase `json:"phases"`
	// Samples are of consecutive intervals of the whole side, without warm-up.
	Samples []Sample `json:"samples"`
	// Limits and Wrong are about all operations on the buckets, also before the
	// measurement. Wrong counts tokens admitted beyond what was possible, and refusals that
	// are certainly wrong; it is nil for a side that is no limiter.
	Limits []LimitUse `json:"limits"`
	Wrong  *int64     `json:"wrong_answers,omitempty"`
	// Shards is the number of items of the busiest bucket at the end; 0 is unknown.
	Shards int `json:"shards"`
}

// A Phase is one phase of a side.
type Phase struct {
	Name    string  `json:"name"`
	Classes []Class `json:"classes"`
}

// A Class is the measurement of one class in one phase.
type Class struct {
	Name string `json:"name"`
	// Seconds is the time from the start to the end of the last operation, and at least the
	// planned time.
	Seconds float64 `json:"seconds"`
	// Due is the number of operations due; for users, of operations begun.
	Due     int64   `json:"due"`
	Answers Answers `json:"answers"`
	// Latency counts from the instant at which an operation was due.
	Latency Latency `json:"latency"`
	// Lag is how much later than due the generator itself sent operations, for which a
	// client was free.
	Lag    Latency `json:"generator_lag"`
	Cost   Cost    `json:"cost"` // of all operations of the class together
	Writes Writes  `json:"writes"`
}

// Answers counts operations by their result, without those that an interruption cut off.
type Answers struct {
	Operations int64 `json:"operations"`
	Admitted   int64 `json:"admitted"`
	Refused    int64 `json:"refused"`
	Throttled  int64 `json:"throttled"`
	// Unavailable excludes Throttled.
	Unavailable int64 `json:"unavailable"`
	Failed      int64 `json:"failed"` // all other errors
	// FirstError is the first error of any kind.
	FirstError string `json:"first_error,omitempty"`
}

// Latency summarizes durations. Histogram has the number of durations in each bin.
type Latency struct {
	Mean Milliseconds `json:"mean_ms"`
	P50  Milliseconds `json:"p50_ms"`
	P95  Milliseconds `json:"p95_ms"`
	P99  Milliseconds `json:"p99_ms"`
	P999 Milliseconds `json:"p99_9_ms"`
	Max  Milliseconds `json:"max_ms"`
	// Histogram has bins in order, without empty ones. A bin is at most 2 % wide.
	Histogram []Bin `json:"histogram,omitempty"`
}

// A Bin counts durations up to a bound, above the bound of the bin before.
type Bin struct {
	UpTo  Milliseconds `json:"up_to_ms"`
	Count int64        `json:"count"`
}

// Milliseconds is a duration in milliseconds.
type Milliseconds float64

// Writes counts item writes as the API saw them; a transaction is one.
type Writes struct {
	Sent      int64 `json:"sent"`
	Throttled int64 `json:"throttled"`
	// EarlySent and EarlyThrottled count those of the first two seconds of the phase.
	EarlySent      int64 `json:"early_sent"`
	EarlyThrottled int64 `json:"early_throttled"`
	// Reasons counts throttled writes by DynamoDB's reason, "unknown" without one.
	Reasons map[string]int64 `json:"reasons,omitempty"`
}

// A LimitUse is the demand on one limit of one resource and its result, in tokens, over all
// buckets of one population since they were created. Buckets of parents are a population of
// their own.
type LimitUse struct {
	Population string `json:"population"`
	Resource   string `json:"resource"`
	Limit      string `json:"limit"`
	Demanded   int64  `json:"demanded"`
	// Entitled is the part of the demand that the buckets could admit.
	Entitled int64 `json:"entitled"`
	Admitted int64 `json:"admitted"`
}

// A Sample is what happened in one interval.
type Sample struct {
	Phase int `json:"phase"` // its index
	// At is the start of the interval in seconds since the start of the side's measurement.
	At          float64      `json:"at_seconds"`
	Seconds     float64      `json:"seconds"` // the interval's length
	Due         int64        `json:"due"`
	Done        int64        `json:"done"`
	Admitted    int64        `json:"admitted"`
	Refused     int64        `json:"refused"`
	Throttled   int64        `json:"throttled"`
	Unavailable int64        `json:"unavailable"`
	Failed      int64        `json:"failed"`
	P50         Milliseconds `json:"p50_ms"`
	P99         Milliseconds `json:"p99_ms"`
	P999        Milliseconds `json:"p99_9_ms"`
	Lag         Milliseconds `json:"generator_lag_p99_ms"`
	Cost        Cost         `json:"cost"`
	Writes      int64        `json:"writes"`
	// WritesThrottled are those of Writes that were throttled.
	WritesThrottled int64 `json:"writes_throttled"`
	// Users is the number of users at the end of the interval, 0 for a rate.
	Users int `json:"users"`
	// Shards is the number of items of the busiest bucket, as the limiter knows it; 0 is
	// unknown.
	Shards int `json:"shards"`
}

// A Cost is what requests consumed.
type Cost struct {
	Requests float64 `json:"requests"`
	RCU      float64 `json:"rcu"`
	WCU      float64 `json:"wcu"`
	// Dollars is the price on demand of the units, in the region whose prices the run used.
	Dollars float64 `json:"dollars"`
}
