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

// odds are the probabilities of a request's fates, and the errors of clocks.
type odds struct {
	throttled   float64 // refused because of its rate, nothing applied
	conflict    float64 // refused because of another transaction, nothing applied
	unreachable float64 // no connection, nothing applied
	lostBefore  float64 // no answer, nothing applied
	lostAfter   float64 // applied, no answer
	hangs       float64 // no answer until the sender gives up; applied or not
	crash       float64 // the client stops, before or after the request is applied
	slow        float64 // takes up to two seconds
	skew        time.Duration
	wandering   clockKind
	operator    bool // an operator deletes entities and creates them again
	hot         bool // buckets run out of writes and partitions throttle
	aggregated  bool // an outside process refills buckets
	followers   int  // aggregators that follow the stream
	// tailed: the followers are processes of their own. Their pauses after a failure do not
	// depend on the seed, so a replay may differ.
	tailed bool
	merged bool // other processes merge their shards
	// dated: answers have dates, with which clients correct clocks that are far off. One
	// client's clock is far ahead, and nothing corrects it.
	dated bool
	// stepped: clocks are set by up to an hour while they are in use, and drift.
	stepped bool
	// crowds: processes whose callers share writes. If two callers join the queue at the
	// same instant, the scheduler decides which is first, so a replay may differ.
	crowds bool
	// patient: callers wait for tokens, several of a process at a time, and extend and
	// reduce open leases. If two wake up at the same instant, the scheduler decides which is
	// first, so a replay may differ.
	patient bool
	// lone: one process uses the buckets, so its callers carry most writes themselves. They share
	// writes, too, as in crowds.
	lone bool
	// quotas: there are quotas among the limits. The run begins so long before an edge of one; 0 is
	// without quotas.
	quotas time.Duration
	// carries: quotas roll over what is left, or carry debts.
	carries bool
	// sessions: some quotas are sessions. No bucket has several shards then.
	sessions bool
	// varied: some limits vary by timetables; the same, with an edge of one if there are no quotas.
	varied time.Duration
	// granted: an operator resets and tops up buckets while they are in use.
	granted bool
	// joint: some requests name several resources.
	joint bool
	// soft: some limits are soft, and edits make them so or hard.
	soft bool
	// modes: some limits are in shadow or off, maybe for a part of the entities, and edits change that.
	modes bool
}

// beforeEdge is how long before an edge a run with quotas begins: callers begin 10 s before it.
const beforeEdge = 25 * time.Second

// clockKind is the kind of a client's clock error.
type clockKind int

const (
	fixedClock clockKind = iota
	driftingClock
	jumpingClock
)

func (o odds) String() string {
	return fmt.Sprintf("throttled %.3f conflict %.3f unreachable %.3f lost before %.3f after %.3f hangs %.3f crash %.4f slow %.3f skew %v clock %d operator %t hot %t aggregated %t crowds %t followers %d tailed %t merged %t dated %t stepped %t patient %t lone %t quotas %v varied %v granted %t soft %t carries %t sessions %t joint %t modes %t",
		o.throttled, o.conflict, o.unreachable, o.lostBefore, o.lostAfter, o.hangs, o.crash, o.slow, o.skew, o.wandering, o.operator, o.hot, o.aggregated, o.crowds, o.followers, o.tailed, o.merged, o.dated, o.stepped, o.patient, o.lone, o.quotas, o.varied, o.granted, o.soft, o.carries, o.sessions, o.joint, o.modes)
}

// faulty reports whether requests can fail.
func (o odds) faulty() bool {
	return o.hot || o.throttled+o.conflict+o.unreachable+o.lostBefore+o.lostAfter+o.hangs+o.crash > 0
}

// drawOdds gives each seed a temper: a quiet run shows what a wild one hides.
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
	o.patient = chance(r, 0.3)
	if chance(d.stream("quotas"), 0.3) {
		o.quotas = beforeEdge
	}
	o.carries = chance(d.stream("carries"), 0.5)
	if chance(d.stream("varied"), 0.3) {
		o.varied = beforeEdge
	}
	o.granted = chance(d.stream("granted"), 0.3)
	o.soft = chance(d.stream("soft"), 0.3)
	o.joint = chance(d.stream("joint"), 0.3)
	o.modes = chance(d.stream("modes"), 0.3)
	if chance(d.stream("sessions"), 0.1) {
		o = o.seated()
	}
	if chance(d.stream("lone"), 0.15) {
		return o.alone()
	}
	return o
}

// alone are the odds of a seed with one process, and nothing else that writes to buckets.
func (o odds) alone() odds {
	o.lone, o.crowds = true, true
	o.hot, o.aggregated, o.followers, o.tailed, o.merged, o.dated = false, false, 0, false, false, false
	return o
}

// seated are the odds of a seed with sessions, in which nothing doubles a bucket.
func (o odds) seated() odds {
	o.sessions, o.quotas = true, beforeEdge
	o.hot, o.aggregated, o.followers, o.tailed, o.merged = false, false, 0, false, false
	return o
}

// A fate is the result of one request.
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

// operationError is the SDK client's wrapper of every error.
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

// errHot is the error for a hot partition of one of some items. The engine names the limit
// that was exceeded; for a transaction, only the item.
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

// errCancelled is the error of a transaction that failed because of one of its items.
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

// errLost is the error for a request that was sent and not answered.
func errLost(r *rand.Rand) error {
	return pick[error](r,
		&smithyhttp.RequestSendError{Err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}},
		&types.InternalServerError{Message: aws.String("internal error")},
	)
}

func errUnreachable() error {
	return &smithyhttp.RequestSendError{Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}
}
