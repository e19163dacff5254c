package sim_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// odds are how likely a request meets which fate, and how far clocks go wrong.
type odds struct {
	throttled   float64 // refused for its rate, nothing applied
	conflict    float64 // refused for another transaction, nothing applied
	unreachable float64 // no connection, nothing applied
	lostBefore  float64 // no answer, nothing applied
	lostAfter   float64 // applied, no answer
	hangs       float64 // no answer until the sender gives up; applied or not
	crash       float64 // the client stops, before or after it is applied
	slow        float64 // takes up to two seconds
	skew        time.Duration
	wandering   clockKind
	operator    bool // somebody deletes and makes entities again
	hot         bool // buckets run out of writes and partitions throttle
	aggregated  bool // somebody else refills buckets
	followers   int  // aggregators that follow the stream
	// tailed: they are processes of their own, whose pauses after a failure are no
	// seed's, so that a replay may differ.
	tailed bool
	merged bool // somebody else merges their shards
	// dated: answers have dates, by which clients correct clocks that are far off, and
	// there is one with a clock far ahead that nobody corrects.
	dated bool
	// stepped: clocks are set by up to an hour while they are in use, and drift.
	stepped bool
	// crowds: processes whose callers share writes. Who of two that stand in
	// line at the same instant comes first is the scheduler's choice, so that a
	// replay may differ.
	crowds bool
}

// clockKind is how a client's clock is wrong.
type clockKind int

const (
	fixedClock clockKind = iota
	driftingClock
	jumpingClock
)

func (o odds) String() string {
	return fmt.Sprintf("throttled %.3f conflict %.3f unreachable %.3f lost before %.3f after %.3f hangs %.3f crash %.4f slow %.3f skew %v clock %d operator %t hot %t aggregated %t crowds %t followers %d tailed %t merged %t dated %t stepped %t",
		o.throttled, o.conflict, o.unreachable, o.lostBefore, o.lostAfter, o.hangs, o.crash, o.slow, o.skew, o.wandering, o.operator, o.hot, o.aggregated, o.crowds, o.followers, o.tailed, o.merged, o.dated, o.stepped)
}

// faulty reports whether requests can fail.
func (o odds) faulty() bool {
	return o.hot || o.throttled+o.conflict+o.unreachable+o.lostBefore+o.lostAfter+o.hangs+o.crash > 0
}

// drawOdds makes of each seed a run of one temper: a quiet one shows what a
// wild one drowns.
func drawOdds(d dice) odds {
	r := d.stream("odds")
	o := odds{slow: pick(r, 0, 0, 0.02)}
	switch r.IntN(6) {
	case 0: // nothing goes wrong
	case 1:
		o.throttled, o.conflict = 0.1, 0.05
	case 2:
		o.lostBefore, o.lostAfter, o.hangs = 0.03, 0.03, 0.01
	case 3:
		o.crash = 0.004
	default:
		o.throttled, o.conflict, o.unreachable = 0.03, 0.02, 0.01
		o.lostBefore, o.lostAfter, o.hangs = 0.01, 0.01, 0.005
		o.crash = 0.001
	}
	o.skew = pick(r, 0, 100*time.Millisecond, 5*time.Second, 5*time.Second)
	o.wandering = pick(r, fixedClock, driftingClock, jumpingClock)
	o.operator = chance(r, 0.25)
	o.hot = chance(r, 0.75)
	o.aggregated = chance(r, 0.3)
	o.crowds = chance(r, 0.25)
	if chance(r, 0.08) {
		o.followers, o.tailed = 1+r.IntN(2), chance(r, 0.3)
	}
	o.merged = o.hot && chance(r, 0.6)
	if o.dated = chance(r, 0.2); o.dated {
		o.skew = pick(r, 2*time.Second, 2*time.Hour)
	}
	if o.stepped = chance(r, 0.15); o.stepped && !o.dated {
		o.skew = time.Second
	}
	return o
}

// A fate is what becomes of one request.
type fate int

const (
	arrives fate = iota
	isThrottled
	isConflict
	isUnreachable
	isLostBefore
	isLostAfter
	hangsOn
	crashesBefore
	crashesAfter
)

func (o odds) draw(r *rand.Rand) fate {
	p := r.Float64()
	for _, c := range []struct {
		p float64
		f fate
	}{
		{o.throttled, isThrottled},
		{o.conflict, isConflict},
		{o.unreachable, isUnreachable},
		{o.lostBefore, isLostBefore},
		{o.lostAfter, isLostAfter},
		{o.hangs, hangsOn},
		{o.crash, crashesBefore},
		{o.crash, crashesAfter},
	} {
		if p < c.p {
			return c.f
		}
		p -= c.p
	}
	return arrives
}

// latency is the time from the sender to the engine, or back.
func (o odds) latency(r *rand.Rand) time.Duration {
	if chance(r, o.slow) {
		return span(r, 100*time.Millisecond, 2*time.Second)
	}
	return span(r, 500*time.Microsecond, 15*time.Millisecond)
}

// operationError is what the SDK's client wraps around every error.
func operationError(op string, err error) error {
	return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: op, Err: err}
}

func errThrottled(r *rand.Rand) error {
	return pick[error](r,
		&types.ProvisionedThroughputExceededException{Message: aws.String("slow down")},
		&types.RequestLimitExceeded{Message: aws.String("slow down")},
		&types.ThrottlingException{Message: aws.String("slow down")},
	)
}

// errHot says that the partition of one of some items is written to too often.
// The engine says which limit it was; of a transaction only which item.
func errHot(r *rand.Rand, op string, items int) error {
	if op == transacts {
		return errCancelled(r, "ThrottlingError", items)
	}
	reasons := []types.ThrottlingReason{{
		Reason:   aws.String(pick(r, "TableWriteKeyRangeThroughputExceeded", "TableWriteKeyRangeThroughputExceeded", "IndexWriteKeyRangeThroughputExceeded", "TableWriteAccountLimitExceeded")),
		Resource: aws.String("arn:aws:dynamodb:us-east-1:123456789012:table/" + tableName),
	}}
	return pick[error](r,
		&types.ProvisionedThroughputExceededException{Message: aws.String("slow down"), ThrottlingReasons: reasons},
		&types.ThrottlingException{Message: aws.String("slow down"), ThrottlingReasons: reasons},
	)
}

// errCancelled is a transaction that one of its items was in the way of.
func errCancelled(r *rand.Rand, code string, items int) error {
	reasons := make([]types.CancellationReason, max(1, items))
	for i := range reasons {
		reasons[i].Code = aws.String("None")
	}
	reasons[r.IntN(len(reasons))] = types.CancellationReason{Code: &code, Message: aws.String("try again")}
	return &types.TransactionCanceledException{Message: aws.String("transaction cancelled"), CancellationReasons: reasons}
}

// isThrottle reports whether err is one that errHot makes.
func isThrottle(err error) bool {
	provisioned, onDemand, cancelled := (*types.ProvisionedThroughputExceededException)(nil), (*types.ThrottlingException)(nil), (*types.TransactionCanceledException)(nil)
	return errors.As(err, &provisioned) || errors.As(err, &onDemand) ||
		errors.As(err, &cancelled) && slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool { return *r.Code == "ThrottlingError" })
}

func errConflict() error {
	return &types.TransactionConflictException{Message: aws.String("transaction is ongoing for the item")}
}

// errLost says that a request went out and no answer came back.
func errLost(r *rand.Rand) error {
	return pick[error](r,
		&smithyhttp.RequestSendError{Err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}},
		&types.InternalServerError{Message: aws.String("internal error")},
	)
}

func errUnreachable() error {
	return &smithyhttp.RequestSendError{Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}
}
