// Package result has what a load test measured: the figures of each side, phase and class,
// and a sample of every second. A [Result] has a JSON form with stable names, which
// `zae-limiter loadtest run` writes, and which reports and comparisons read.
package result

import "time"

// Format is the version of the JSON form.
const Format = 2

// A Result is the result of a run.
type Result struct {
	Format   int       `json:"format"` // version of this form
	Scenario string    `json:"scenario"`
	About    string    `json:"about,omitempty"` // what the scenario is
	Version  string    `json:"version"`         // of the program
	Target   string    `json:"target"`          // the DynamoDB that carried the load out
	Machine  string    `json:"machine"`         // operating system, architecture, number of processors and GOGC
	Started  time.Time `json:"started_at"`
	Seed     uint64    `json:"seed"`
	// Limiters is the number of limiters that shared the load, as in that many processes.
	Limiters int `json:"limiters"`
	// Namespace is the namespace of the run's items.
	Namespace string `json:"namespace"`
	// Prices says which prices the dollars come from.
	Prices string `json:"prices"`
	// SlowAfter is the duration above which samples count an operation as slow; 0 counts none.
	SlowAfter Milliseconds `json:"slow_after_ms,omitempty"`
	// Interrupted means that the run ended early: what is missing was not measured, and the
	// last phase is shorter than planned.
	Interrupted bool `json:"interrupted"`
	// Unreliable says why the figures are not those of the limiter; "" if they are. The
	// generator itself was late, or did not begin everything that was due.
	Unreliable string `json:"unreliable,omitempty"`
	Sides      []Side `json:"sides"` // one for each side that ran
	// Spent is the consumption of the whole run, set-up and cleanup included.
	Spent Cost `json:"spent"`
}

// A Side is what one system did.
type Side struct {
	Name   string  `json:"name"`   // limiter, shared or bare
	Phases []Phase `json:"phases"` // the phases in their order
	// Samples are of consecutive intervals of the whole side, without the warm-up.
	Samples []Sample `json:"samples"`
	// Limits, Wrong and Balance are about all operations on the buckets, also before the
	// measurement.
	Limits []LimitUse `json:"limits"`
	// Wrong counts wrong answers; nil for a side that is no limiter.
	Wrong *Wrong `json:"wrong_answers,omitempty"`
	// Balance compares the books with the table; nil if that was not possible.
	Balance *Balance `json:"books,omitempty"`
}

// Wrong counts answers that no exact limiter gives.
type Wrong struct {
	// Beyond is the number of tokens admitted beyond what the buckets could admit.
	Beyond int64 `json:"tokens_beyond_entitlement"`
	// Refusals is the number of refusals by buckets whose capacity alone covers all
	// requests so far.
	Refusals int64 `json:"refused_although_covered"`
}

// Answers is the number of wrong answers; tokens beyond the possible count one each.
func (w *Wrong) Answers() int64 { return w.Beyond + w.Refusals }

// A Balance compares what operations consumed, by their answers, with the counters of
// consumed tokens in the table.
type Balance struct {
	// Buckets is the number of buckets compared. Expired is the number of buckets whose
	// items were deleted or made anew during the run, which cannot be compared. Left is the
	// number of those that were not compared because there are too many.
	Buckets int `json:"buckets"`
	Expired int `json:"buckets_expired"`  // buckets that expired before they were read
	Left    int `json:"buckets_left_out"` // buckets that were not compared
	// Booked is the number of tokens that operations consumed by their answers. Open is the
	// number of tokens of operations without an answer: they may have been consumed. Found
	// is the number of tokens that the table counts.
	Booked int64 `json:"booked"`
	Open   int64 `json:"open"`  // tokens of leases that did not end
	Found  int64 `json:"found"` // tokens that the table shows
	// Wrong is the number of counters that are outside of what their books allow. FirstWrong
	// describes the first.
	Wrong      int64  `json:"wrong"`
	FirstWrong string `json:"first_wrong,omitempty"` // the first bucket that is wrong
}

// A Phase is one phase of a side.
type Phase struct {
	Name    string  `json:"name"`    // name of the phase
	Classes []Class `json:"classes"` // the classes of operations
	// Populations have what the items of each population cost. Parents are part of theirs.
	Populations []Population `json:"populations"`
	// Cost is that of the whole phase; it includes reads of configuration.
	Cost Cost `json:"cost"`
}

// A Class is the measurement of one class in one phase.
type Class struct {
	Name string `json:"name"` // name of the class
	// Seconds is the time from the start to the end of the last operation, and at least the
	// planned time.
	Seconds float64 `json:"duration_seconds"`
	// Due is the number of operations due; for users, of operations begun.
	Due     int64   `json:"due"`
	Answers Answers `json:"answers"` // how operations ended
	// Latency counts from the instant at which an operation was due.
	Latency Latency `json:"latency"`
	// Lag is how much later than due the generator itself sent operations for which a
	// client was free. It is empty for users: their operations are due when they are sent.
	Lag Latency `json:"generator_lag"`
}

// PerSecond is the number of answered operations per second.
func (c *Class) PerSecond() float64 {
	if c.Seconds <= 0 {
		return 0
	}
	return float64(c.Answers.Operations) / c.Seconds
}

// A Population is what the items of one population cost in one phase.
type Population struct {
	Name   string `json:"name"`   // name of the population
	Cost   Cost   `json:"cost"`   // what its requests cost
	Writes Writes `json:"writes"` // writes to its buckets
	// Shards is the number of items of the population's busiest bucket at the end of the
	// phase; 0 is unknown.
	Shards int `json:"shards"`
}

// Answers counts operations by their result, without those that an interruption cut off.
type Answers struct {
	Operations int64 `json:"operations"` // operations that ended
	Admitted   int64 `json:"admitted"`   // for calls that consume nothing, answered
	Refused    int64 `json:"refused"`    // operations that a limit refused
	Throttled  int64 `json:"throttled"`  // operations that DynamoDB throttled
	// Unavailable excludes Throttled.
	Unavailable int64 `json:"unavailable"`
	Failed      int64 `json:"failed"` // all other errors
	// FirstError is the first error of any kind.
	FirstError string `json:"first_error,omitempty"`
}

// Errors is the number of operations without an answer.
func (a *Answers) Errors() int64 { return a.Throttled + a.Unavailable + a.Failed }

// Latency summarizes durations.
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
	UpTo  Milliseconds `json:"up_to_ms"` // upper bound of the latencies
	Count int64        `json:"count"`    // number of operations
}

// Milliseconds is a duration in milliseconds.
type Milliseconds float64

// InMilliseconds is a duration in milliseconds.
func InMilliseconds(d time.Duration) Milliseconds {
	return Milliseconds(float64(d) / float64(time.Millisecond))
}

// Duration is the duration.
func (m Milliseconds) Duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

// Writes counts item writes as the API saw them; a transaction is one.
type Writes struct {
	Sent      int64 `json:"sent"`      // writes that were sent
	Throttled int64 `json:"throttled"` // writes that DynamoDB throttled
	// EarlySent and EarlyThrottled count those of the first two seconds of the phase, in
	// which an adaptive system may adapt.
	EarlySent      int64 `json:"early_sent"`
	EarlyThrottled int64 `json:"early_throttled"` // of the early ones, how many DynamoDB throttled
	// Reasons counts throttled writes by DynamoDB's reason, "unknown" without one.
	Reasons map[string]int64 `json:"reasons,omitempty"`
}

// Early is the throttled share of the writes in the first two seconds.
func (w *Writes) Early() float64 { return Share(w.EarlyThrottled, w.EarlySent) }

// Late is the throttled share of the later writes.
func (w *Writes) Late() float64 { return Share(w.Throttled-w.EarlyThrottled, w.Sent-w.EarlySent) }

// Share is a part of a whole, 0 if there is no whole.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// A LimitUse is the demand on one limit of one resource and its result, in tokens, over all
// buckets of one population since they were created. Parents are a population of their own,
// with "-parent" behind the name.
type LimitUse struct {
	Population string `json:"population"` // name of the population
	Resource   string `json:"resource"`
	Limit      string `json:"limit_name"`
	// Demanded is the number of tokens requested; for settled operations, the number used.
	Demanded int64 `json:"demanded"`
	// Entitled is the part of the demand that the buckets could admit.
	Entitled int64 `json:"entitled"`
	Admitted int64 `json:"admitted"` // tokens that were admitted
}

// Percent is the admitted part of the entitlement; 100 if nothing was demanded.
func (u *LimitUse) Percent() float64 {
	if u.Entitled == 0 {
		return 100
	}
	return 100 * Share(u.Admitted, u.Entitled)
}

// A Sample is what happened in one interval, of about a second.
type Sample struct {
	Side  string `json:"-"`
	Phase int    `json:"phase"` // its index
	// At is the start of the interval in seconds since the start of the side's measurement.
	At          float64 `json:"at_seconds"`
	Seconds     float64 `json:"duration_seconds"` // the interval's length
	Due         int64   `json:"due"`              // for users, operations begun
	Done        int64   `json:"done"`             // operations that ended
	Admitted    int64   `json:"admitted"`         // operations that were admitted
	Refused     int64   `json:"refused"`          // operations that a limit refused
	Throttled   int64   `json:"throttled"`        // operations that DynamoDB throttled
	Unavailable int64   `json:"unavailable"`      // operations that could not be decided
	Failed      int64   `json:"failed"`           // operations with other errors
	// Slow is the number of operations that took longer than [Result.SlowAfter].
	Slow int64        `json:"slow,omitempty"`
	P50  Milliseconds `json:"p50_ms"`
	P99  Milliseconds `json:"p99_ms"`
	P999 Milliseconds `json:"p99_9_ms"`
	Lag  Milliseconds `json:"generator_lag_p99_ms"` // 99th percentile of how late operations began
	Cost Cost         `json:"cost"`                 // what the requests cost
	// Writes is the number of item writes, and WritesThrottled those among them that were
	// throttled.
	Writes          int64 `json:"writes"`
	WritesThrottled int64 `json:"writes_throttled"` // writes that DynamoDB throttled
	// Users is the number of users at the end of the interval, 0 for a rate.
	Users int `json:"users"`
	// Shards is the number of items of the busiest bucket; 0 is unknown.
	Shards int `json:"shards"`
	// Classes are the parts of the classes, if the phase has several.
	Classes []ClassSample `json:"classes,omitempty"`
}

// A ClassSample is what one class did in the interval of a sample.
type ClassSample struct {
	Name    string       `json:"name"`    // name of the class
	Done    int64        `json:"done"`    // operations that ended
	Refused int64        `json:"refused"` // operations that a limit refused
	Errors  int64        `json:"errors"`  // operations without an answer
	P50     Milliseconds `json:"p50_ms"`
	P99     Milliseconds `json:"p99_ms"`
	P999    Milliseconds `json:"p99_9_ms"`
	Lag     Milliseconds `json:"generator_lag_p99_ms"` // 99th percentile of how late operations began
}

// A Cost is what requests consumed.
type Cost struct {
	Requests float64 `json:"requests"` // requests to DynamoDB
	RCU      float64 `json:"rcu"`      // read capacity units
	WCU      float64 `json:"wcu"`      // write capacity units
	// Dollars is the price of the units on demand.
	Dollars float64 `json:"dollars"`
}

// Per is the cost of one of n operations.
func (c Cost) Per(n int64) Cost {
	if n == 0 {
		return Cost{}
	}
	f := float64(n)
	return Cost{c.Requests / f, c.RCU / f, c.WCU / f, c.Dollars / f}
}

// Plus is the sum of two costs.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Requests + d.Requests, c.RCU + d.RCU, c.WCU + d.WCU, c.Dollars + d.Dollars}
}
