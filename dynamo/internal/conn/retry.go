package conn

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// BucketWrite is the option of every write to a single bucket item. Such a write is not
// idempotent: repeated after its answer was lost, it debits twice, unless it has a
// [store.Sequence]. Its caller knows that, and repeats it. So it is retried here only after
// an error that proves that nothing was applied, and soon, because a caller waits for a
// decision.
//
// Throttling proves it, too, but goes to the caller at once. The same item leads to the
// same full partition, which every retry keeps full, while another shard of the bucket
// may be idle. Reads of configuration and administration have no alternative item. They
// keep the retries of their client, within the timeout of [Options].
func BucketWrite(o *dynamodb.Options) {
	Quiet(o)
	o.Retryer = writeRetryer{}
}

const (
	writeAttempts = 3
	writeBackoff  = 25 * time.Millisecond // doubled for each attempt; the wait is drawn from 0 up to it
)

type writeRetryer struct{}

var _ aws.RetryerV2 = writeRetryer{}

// IsErrorRetryable reports whether err proves that nothing was applied, and a retry
// helps.
func (writeRetryer) IsErrorRetryable(err error) bool {
	if _, decided := ConditionFailed(err); decided {
		return false
	}
	if kind := kindOf(codeOf(err)); len(kind) > 0 {
		return errors.Is(kind[0], store.ErrConflict) || isClockSkew(err)
	}
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) && dial.Op == "dial" && !errors.Is(err, context.Canceled)
}

// isClockSkew reports whether the signature was refused because the local clock is
// wrong. The SDK has by now corrected the next signature.
func isClockSkew(err error) bool {
	var skew interface{ RetryableError() bool }
	return errors.As(err, &skew) && skew.RetryableError()
}

// MaxAttempts includes the first attempt.
func (writeRetryer) MaxAttempts() int { return writeAttempts }

// RetryDelay is drawn from 0 up to a bound that doubles.
func (writeRetryer) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return Backoff(writeBackoff, attempt-1), nil
}

// GetRetryToken never refuses: MaxAttempts bounds the attempts.
func (writeRetryer) GetRetryToken(context.Context, error) (func(error) error, error) {
	return keepToken, nil
}

// GetInitialToken belongs to [aws.Retryer], which has no contexts.
func (writeRetryer) GetInitialToken() func(error) error { return keepToken }

// GetAttemptToken never waits.
func (writeRetryer) GetAttemptToken(context.Context) (func(error) error, error) {
	return keepToken, nil
}

func keepToken(error) error { return nil }

// A JointRetryer is the retryer of one transaction of bucket writes. Unlike a single
// write, a transaction is idempotent. The SDK's client gives it a token before the
// first attempt, and DynamoDB does not apply a token's writes twice. So a transaction
// is retried after a lost answer, and if it never reached the server. A conflict with
// another transaction and throttling are answers, and are not retried.
type JointRetryer struct {
	writeRetryer
	// lost reports that an attempt may still be under way. It may be applied after the
	// next one was rejected, so a rejection then proves nothing.
	lost bool
}

// IsErrorRetryable reports whether err leaves the transaction's outcome open, or proves
// that DynamoDB did not evaluate it.
func (r *JointRetryer) IsErrorRetryable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if unsent := r.writeRetryer.IsErrorRetryable(err); unsent || !isUnknown(err) {
		return unsent && !turnedAway(err)
	}
	r.lost = true
	return true
}

// Option gives a request the retryer.
func (r *JointRetryer) Option(o *dynamodb.Options) {
	Quiet(o)
	o.Retryer = r
}

// Verdict returns the error of the last attempt, as a [lostError] if an earlier attempt
// makes it prove nothing.
func (r *JointRetryer) Verdict(err error) error {
	if r.lost && turnedAway(err) {
		return &lostError{err}
	}
	return err
}

// maxBackoff bounds the wait before any attempt.
const maxBackoff = 2 * time.Second

// Backoff draws the wait before attempt n, counted from 0, with full jitter.
func Backoff(base time.Duration, n int) time.Duration {
	return rand.N(min(base<<min(n, 10), maxBackoff))
}

// Sleep waits, or returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if calls.Sleep(ctx, nil, d) != nil {
		return ctx.Err()
	}
	return nil
}
