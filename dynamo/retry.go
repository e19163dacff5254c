package dynamo

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/store"
)

// bucketWrite is the option of every write to a single bucket item. Such a write
// is not idempotent: sent again after its answer was lost, it debits twice. So
// only what proves that nothing was applied is sent again, and soon, because a
// caller is waiting for a decision.
//
// Throttling proves it too, but is for the caller to know at once: the same item
// again is the same full partition again, which every repetition keeps full,
// while another shard of the bucket may be idle. Reads of configuration and
// administration have nowhere else to go, and keep the retries of the client
// they are sent with, within the timeout of [Options].
func bucketWrite(o *dynamodb.Options) { o.Retryer = writeRetryer{} }

const (
	writeAttempts = 3
	writeBackoff  = 25 * time.Millisecond // doubled for each attempt, then drawn from 0 up to it
)

type writeRetryer struct{}

var _ aws.RetryerV2 = writeRetryer{}

// IsErrorRetryable reports whether err proves that nothing was applied.
func (writeRetryer) IsErrorRetryable(err error) bool {
	if _, decided := conditionFailed(err); decided {
		return false
	}
	if kind := kindOf(codeOf(err)); len(kind) > 0 {
		return errors.Is(kind[0], store.ErrConflict) || isClockSkew(err)
	}
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) && dial.Op == "dial" && !errors.Is(err, context.Canceled)
}

// isClockSkew reports whether the signature was refused for the local clock's
// sake; the SDK has by now corrected the next signature.
func isClockSkew(err error) bool {
	var skew interface{ RetryableError() bool }
	return errors.As(err, &skew) && skew.RetryableError()
}

// MaxAttempts counts the first one.
func (writeRetryer) MaxAttempts() int { return writeAttempts }

// RetryDelay is drawn from 0 up to a bound that doubles.
func (writeRetryer) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return backoff(writeBackoff, attempt-1), nil
}

// GetRetryToken never refuses: three attempts are their own bound.
func (writeRetryer) GetRetryToken(context.Context, error) (func(error) error, error) {
	return keepToken, nil
}

// GetInitialToken is what [aws.Retryer] asks for before it had contexts.
func (writeRetryer) GetInitialToken() func(error) error { return keepToken }

// GetAttemptToken never waits.
func (writeRetryer) GetAttemptToken(context.Context) (func(error) error, error) {
	return keepToken, nil
}

func keepToken(error) error { return nil }

// A jointRetryer is the retryer of one transaction of bucket writes. A
// transaction is idempotent, unlike a single write: the SDK's client gives it a
// token before it first sends it, and what has been applied under that token is
// not applied again. So one whose answer was lost is sent again, like what never
// got through. That another one or the rate was in its way is an answer.
type jointRetryer struct {
	writeRetryer
	// lost says that an attempt may be under way still. It may land after the
	// next one has been turned away, so that this proves nothing any more.
	lost bool
}

// IsErrorRetryable reports whether err leaves open what became of the
// transaction, or proves that it was not looked at.
func (r *jointRetryer) IsErrorRetryable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if unsent := r.writeRetryer.IsErrorRetryable(err); unsent || !isUnknown(err) {
		return unsent && !turnedAway(err)
	}
	r.lost = true
	return true
}

// option gives a request the retryer.
func (r *jointRetryer) option(o *dynamodb.Options) { o.Retryer = r }

// verdict is what the error of the last attempt says, in the light of those
// before it.
func (r *jointRetryer) verdict(err error) error {
	if r.lost && turnedAway(err) {
		return &lostError{err}
	}
	return err
}

// maxBackoff bounds the wait before any attempt.
const maxBackoff = 2 * time.Second

// backoff draws the wait before attempt n, counted from 0, with full jitter.
func backoff(base time.Duration, n int) time.Duration {
	return rand.N(min(base<<min(n, 10), maxBackoff))
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
