package dynamo

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// What the tests see of the inside.
var (
	ConditionFailed = conditionFailed
	ItemSize        = itemSize
	Backoff         = backoff
	BucketWrite     = bucketWrite
	NewNamespaceID  = newNamespaceID
)

// NewJointRetryer is the retryer of a transaction of bucket writes.
func NewJointRetryer() aws.RetryerV2 { return &jointRetryer{} }

// WriteRetryer is the retryer of bucket writes.
var WriteRetryer aws.RetryerV2 = writeRetryer{}

// MaxBackoff bounds any wait.
const MaxBackoff = maxBackoff

// CompareReleases compares two version strings; ok is false if one is none.
func CompareReleases(a, b string) (order int, ok bool) {
	x, okA := parseRelease(a)
	y, okB := parseRelease(b)
	return x.compare(y), okA && okB
}

// Following is o in a process in which as much time passes as its clock says, so that
// a test may let that stand still, or move it.
func Following(o Options) Options {
	first := o.Now()
	o.passed = func() time.Duration { return o.Now().Sub(first) }
	return o
}

// An Estimate is what dates tell of the correction of a clock.
type Estimate struct{ estimate }

// Observe takes in the interval that a date gives, and reports whether it is believed.
func (e *Estimate) Observe(low, high, at, local time.Duration) (believed bool) {
	return e.observe(interval{low, high}, at, local, false) != doubts
}

// Interval is what is known at an instant.
func (e *Estimate) Interval(at time.Duration) (low, high time.Duration) {
	e.age(at)
	return e.in.low, e.in.high
}

// DriftPPM is how fast clocks part at most, and Tolerance by how much dates may
// contradict each other.
const (
	DriftPPM  = driftPPM
	Tolerance = tolerance
)

// Translate is what a store of a table called limits makes of an error.
func Translate(op string, err error) error {
	table := "limits"
	return (&conn{table: &table}).translate(op, err)
}
