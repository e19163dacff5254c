package loadtest

import (
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A Result is the result of a run. Its JSON has stable names. Durations are in seconds, or
// in milliseconds where the name ends so.
type Result struct {
	Scenario Scenario `json:"scenario"`
	// Namespace is the namespace of the run's items.
	Namespace string `json:"namespace"`
	Rate      int64  `json:"rate"` // 0 is a closed loop
	Clients   int    `json:"clients"`
	Limiters  int    `json:"limiters"`
	Entities  int    `json:"entities"`
	Seed      uint64 `json:"seed"`
	// Interrupted means that the run ended early. Missing measurements are nil, and the
	// last one is shorter than requested.
	Interrupted bool `json:"interrupted"`

	// Limiter is nil for Attack.
	Limiter *Measurement `json:"limiter,omitempty"`
	// Raw is the measurement of bare writes, if requested.
	Raw *Measurement `json:"raw,omitempty"`
	// Attack is nil for all other scenarios.
	Attack *AttackResult `json:"attack,omitempty"`

	// Spent is the consumption of the whole run, including set-up and cleanup.
	Spent Cost `json:"spent"`
}

// An AttackResult holds the attack on three targets. Bare is one bare item for each entity,
// on a table whose GSI2 projects whole items. Limiter is the limiter with limiters of the
// attacker's own, as in another process. Shared is the limiter with the neighbours'
// limiters, as in the same process.
type AttackResult struct {
	Bare    *AttackSide `json:"bare,omitempty"`
	Limiter *AttackSide `json:"limiter,omitempty"`
	Shared  *AttackSide `json:"shared,omitempty"`
}

// An AttackSide is the result for one target. The attacker has clients of its own.
type AttackSide struct {
	// Quiet measures the neighbours alone. Neighbours and Attacker measure both at the same
	// time afterwards.
	Quiet      *Measurement `json:"quiet,omitempty"`
	Neighbours *Measurement `json:"neighbours,omitempty"`
	Attacker   *Measurement `json:"attacker,omitempty"`
}

// A Measurement is the result of one load.
type Measurement struct {
	// Elapsed is the time from the start to the end of the last operation, and at least the
	// planned time.
	Elapsed time.Duration
	// Due is the number of operations due; in a closed loop, of operations begun.
	Due     int64
	Answers Answers
	// Latency counts from the instant an operation was due.
	Latency Latency
	// Cost is the cost of one operation.
	Cost   Cost
	Writes Writes
	// Limits and Wrong include all operations on the buckets, also those before the
	// measurement. Wrong counts tokens and refusals; it is nil for bare items, which are no
	// limiter.
	Limits []LimitUse
	Wrong  *int64
	// Shards is the number of items of the busiest bucket at the end; 0 means unknown.
	Shards int
}

// PerSecond is the number of answered operations per second.
func (m *Measurement) PerSecond() float64 {
	if m.Elapsed <= 0 {
		return 0
	}
	return float64(m.Answers.Operations) / m.Elapsed.Seconds()
}

// MarshalJSON writes the measurement flat.
func (m *Measurement) MarshalJSON() ([]byte, error) {
	limits := make([]limitUseJSON, len(m.Limits))
	for i, u := range m.Limits {
		limits[i] = limitUseJSON{u, u.Percent()}
	}
	return json.Marshal(struct {
		Seconds   float64 `json:"seconds"`
		PerSecond float64 `json:"operations_per_second"`
		Due       int64   `json:"due"`
		Answers
		Latency Latency        `json:"latency"`
		Cost    Cost           `json:"per_operation"`
		Dollars float64        `json:"dollars_per_million"`
		Writes  Writes         `json:"writes"`
		Limits  []limitUseJSON `json:"limits"`
		Wrong   *int64         `json:"wrong_answers"`
		Shards  int            `json:"shards"`
	}{
		m.Elapsed.Seconds(), m.PerSecond(), m.Due, m.Answers, m.Latency, m.Cost, m.Cost.Dollars() * million,
		m.Writes, limits, m.Wrong, m.Shards,
	})
}

type limitUseJSON struct {
	LimitUse
	Percent float64 `json:"admitted_percent"`
}

// A Latency summarizes the durations of operations.
type Latency struct{ Mean, P50, P95, P99, Max time.Duration }

// MarshalJSON writes milliseconds.
func (l Latency) MarshalJSON() ([]byte, error) {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return json.Marshal(struct {
		Mean float64 `json:"mean_ms"`
		P50  float64 `json:"p50_ms"`
		P95  float64 `json:"p95_ms"`
		P99  float64 `json:"p99_ms"`
		Max  float64 `json:"max_ms"`
	}{ms(l.Mean), ms(l.P50), ms(l.P95), ms(l.P99), ms(l.Max)})
}

// A Cost is the consumption of requests.
type Cost struct {
	RoundTrips float64 `json:"round_trips"`
	RCU        float64 `json:"rcu"`
	WCU        float64 `json:"wcu"`
}

// Dollars per million units, on demand, us-east-1 (seed 001, section 6).
const (
	DollarsPerMillionWCU = 0.625
	DollarsPerMillionRCU = 0.125

	million = 1e6
)

// Dollars is the price.
func (c Cost) Dollars() float64 {
	return (c.WCU*DollarsPerMillionWCU + c.RCU*DollarsPerMillionRCU) / million
}

func costOf(u dynamo.Usage) Cost { return Cost{float64(u.Requests), u.RCU, u.WCU} }

func (c Cost) plus(d Cost) Cost {
	return Cost{c.RoundTrips + d.RoundTrips, c.RCU + d.RCU, c.WCU + d.WCU}
}

// per is the cost of one of n operations.
func (c Cost) per(n int64) Cost {
	if n == 0 {
		return Cost{}
	}
	return Cost{c.RoundTrips / float64(n), c.RCU / float64(n), c.WCU / float64(n)}
}
