package dynamo

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Internals that the tests use.
var (
	ConditionFailed = conditionFailed
	ItemSize        = itemSize
	Backoff         = backoff
	BucketWrite     = bucketWrite
	NewNamespaceID  = newNamespaceID
)

// NewJointRetryer returns the retryer of a transaction of bucket writes.
func NewJointRetryer() aws.RetryerV2 { return &jointRetryer{} }

// WriteRetryer is the retryer of bucket writes.
var WriteRetryer aws.RetryerV2 = writeRetryer{}

// MaxBackoff bounds any wait.
const MaxBackoff = maxBackoff

// CompareReleases compares two version strings; ok is false if one is invalid.
func CompareReleases(a, b string) (order int, ok bool) {
	x, okA := parseRelease(a)
	y, okB := parseRelease(b)
	return x.compare(y), okA && okB
}

// Following returns o for a process in which as much time passes as its clock says. So
// a test can stop or move the time.
func Following(o Options) Options {
	first := o.Now()
	o.passed = func() time.Duration { return o.Now().Sub(first) }
	return o
}

// An Estimate is the estimate of a clock's correction, made from dates.
type Estimate struct{ estimate }

// Observe adds the interval that a date gives, and reports whether it is believed.
func (e *Estimate) Observe(low, high, at, local time.Duration) (believed bool) {
	return e.observe(interval{low, high}, at, local, false) != doubts
}

// Interval returns the known interval at an instant.
func (e *Estimate) Interval(at time.Duration) (low, high time.Duration) {
	e.age(at)
	return e.in.low, e.in.high
}

// DriftPPM is the fastest relative drift of two clocks. Tolerance is the most by which
// dates may contradict each other.
const (
	DriftPPM  = driftPPM
	Tolerance = tolerance
)

// Translate returns the error that a store of a table called limits makes of err.
func Translate(op string, err error) error {
	table := "limits"
	return (&conn{table: &table}).translate(op, err)
}
