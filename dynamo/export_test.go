package dynamo

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/middleware"
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

// A Clock is the store's clock.
type Clock struct{ clock }

// NewClock is a clock that corrects local.
func NewClock(local func() time.Time) *Clock { return &Clock{clock{local: local}} }

// Now is the corrected instant.
func (c *Clock) Now() time.Time { return c.now() }

// Sample takes in one measured offset.
func (c *Clock) Sample(offset time.Duration) { c.sample(offset) }

// Learn takes in the answer to a request.
func (c *Clock) Learn(metadata middleware.Metadata, sent, received time.Time) {
	c.learn(metadata, sent, received)
}

// Translate is what a store of a table called limits makes of an error.
func Translate(op string, err error) error {
	table := "limits"
	return (&conn{table: &table}).translate(op, err)
}
