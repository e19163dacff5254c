package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/awsauth"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// A callError is a failed request: the operation, the conditions that the failure
// stands for, and the SDK's error.
type callError struct {
	op    string
	is    []error
	cause error
}

// Error begins with the most specific condition, after the operation.
func (e *callError) Error() string { return e.op + ": " + e.is[0].Error() + ": " + brief(e.cause) }

// brief is the text of an SDK's error. Without an answer there is no status and no request
// ID, so only the failure to send remains. Of an answer, the first line says what is wrong:
// for a wrong signature the server adds all that it has signed.
func brief(err error) string {
	if unsent := (*smithyhttp.RequestSendError)(nil); errors.As(err, &unsent) {
		return unsent.Err.Error()
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// Unwrap returns the conditions and the cause.
func (e *callError) Unwrap() []error { return append(slices.Clip(e.is), e.cause) }

// Translate turns an error of the SDK, or of an engine in its place, into an error of
// package store that callers branch on. It is the only function that looks at error
// codes. op is the operation. The SDK's error stays in the chain.
func (c *Conn) Translate(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	}
	if missing := (*types.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return fmt.Errorf("%s: %w", op, &store.NotFoundError{Kind: "table", Name: *c.Table, Hint: "create it, or check its name, region and endpoint"})
	}
	if is := conditions(err); is != nil {
		return &callError{op, is, err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// conditions returns what err stands for, the most specific condition first. It returns
// nil for a request that will never succeed.
func conditions(err error) []error {
	code := codeOf(err)
	switch kind := kindOf(code); {
	case kind != nil && isHotPartition(err):
		return hot
	case kind != nil:
		return kind
	case code != "" && !isServerFault(err):
		return nil
	case isCredentialFailure(err):
		return []error{store.ErrAccessDenied}
	case isClientFault(err):
		return nil
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return unsent
	}
	// No answer, half an answer, or a fault of the server.
	return unknown
}

// isUnknown reports whether err leaves open if the request was applied.
func isUnknown(err error) bool {
	is := conditions(err)
	return len(is) > 0 && errors.Is(is[0], store.ErrUnavailable)
}

// turnedAway reports whether err says that nothing was applied, because of another
// write or because of throttling.
func turnedAway(err error) bool {
	kind := kindOf(codeOf(err))
	return len(kind) > 0 && (errors.Is(kind[0], store.ErrConflict) || errors.Is(kind[0], store.ErrThrottled))
}

// A lostError is the last of several attempts, where an earlier attempt may have been
// applied or may still be. The last attempt's error proves nothing, so it is not in the
// chain.
type lostError struct{ last error }

// Error says what is not known, and how the last attempt failed.
func (e *lostError) Error() string {
	return "an attempt was not answered, and may have been applied; the last one: " + e.last.Error()
}

var (
	throttled = []error{store.ErrThrottled, store.ErrUnavailable}
	hot       = []error{store.ErrHotPartition, store.ErrThrottled, store.ErrUnavailable}
	conflict  = []error{store.ErrConflict}
	denied    = []error{store.ErrAccessDenied}
	unknown   = []error{store.ErrUnavailable}
	unsent    = []error{store.ErrUnavailable, calls.ErrUnsent}
)

// kindOf returns what an error code stands for, nil if the code alone does not tell.
func kindOf(code string) []error {
	switch code {
	case "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded",
		"ThrottlingException", "Throttling", "ThrottlingError",
		"RequestLimitExceeded", "TooManyRequestsException":
		return throttled
	case "TransactionConflictException", "TransactionConflict",
		"ReplicatedWriteConflictException",
		"ConditionalCheckFailedException", "ConditionalCheckFailed":
		return conflict
	case "TransactionInProgressException":
		return unknown // an earlier attempt with the same token has not ended
	}
	if awsauth.OfCode(code) != awsauth.None {
		return denied
	}
	return nil
}

// codeOf returns the code of an error that the server sent, "" if it sent none. For a
// cancelled transaction it prefers the code of a failed condition, then that of
// throttling, then that of the first action that has one.
func codeOf(err error) string {
	code := ""
	for _, r := range Cancellation(err) {
		switch {
		case r.Code == nil || *r.Code == "None":
		case *r.Code == conditionFailedReason:
			return conditionFailedReason
		case code == "" || slices.Equal(kindOf(*r.Code), throttled):
			code = *r.Code
		}
	}
	if code != "" {
		return code
	}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// isHotPartition reports whether the request was throttled for the rate at one
// partition of the table. That is a shard's own limit, which more shards relieve if the shard
// is busy; DynamoDB names it, too, where an on-demand table has yet to grow (ADR 043). An
// index partition is shared with other buckets, and the limits of a table or an account
// with all buckets: more shards relieve none of these. The reasons of a cancelled
// transaction do not tell them apart.
func isHotPartition(err error) bool {
	provisioned, onDemand, request := (*types.ProvisionedThroughputExceededException)(nil), (*types.ThrottlingException)(nil), (*types.RequestLimitExceeded)(nil)
	var reasons []types.ThrottlingReason
	switch {
	case errors.As(err, &provisioned):
		reasons = provisioned.ThrottlingReasons
	case errors.As(err, &onDemand):
		reasons = onDemand.ThrottlingReasons
	case errors.As(err, &request):
		reasons = request.ThrottlingReasons
	}
	return slices.ContainsFunc(reasons, func(r types.ThrottlingReason) bool {
		switch aws.ToString(r.Reason) {
		case "TableWriteKeyRangeThroughputExceeded", "TableReadKeyRangeThroughputExceeded":
			return true
		}
		return false
	})
}

func isServerFault(err error) bool {
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorFault() == smithy.FaultServer {
		return true
	}
	response := (*smithyhttp.ResponseError)(nil)
	return errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError
}

// isClientFault reports whether the SDK refused the request before sending it.
func isClientFault(err error) bool {
	serialization, params := (*smithy.SerializationError)(nil), (*smithy.InvalidParamsError)(nil)
	return errors.As(err, &serialization) || errors.As(err, &params)
}

// isCredentialFailure reports whether there were no credentials to sign with. The SDK
// has no type for that, and the wrapped error differs by provider: an empty key, a
// missing file, a metadata service that does not answer. Only the text names the stage
// that failed.
func isCredentialFailure(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "get identity: ")
}

const conditionFailedReason = "ConditionalCheckFailed"

// ConditionFailed reports whether a write's condition failed, alone or in a
// transaction. It returns the item that failed it, if the request asked for the item
// and it exists.
func ConditionFailed(err error) (it map[string]types.AttributeValue, ok bool) {
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		return failed.Item, true
	}
	for _, r := range Cancellation(err) {
		if r.Code != nil && *r.Code == conditionFailedReason {
			return r.Item, true
		}
	}
	return nil, false
}

// Cancellation returns why each action of a transaction was cancelled, in order. It
// returns nil if err is not a Cancellation.
func Cancellation(err error) []types.CancellationReason {
	if cancelled := (*types.TransactionCanceledException)(nil); errors.As(err, &cancelled) {
		return cancelled.CancellationReasons
	}
	return nil
}

// FailedAt reports whether the condition of action i of a transaction failed.
func FailedAt(err error, i int) bool {
	reasons := Cancellation(err)
	return i < len(reasons) && reasons[i].Code != nil && *reasons[i].Code == conditionFailedReason
}

// Throttled reports whether an action of a cancelled transaction was throttled.
func Throttled(r types.CancellationReason) bool {
	return r.Code != nil && slices.Contains(kindOf(*r.Code), store.ErrThrottled)
}
