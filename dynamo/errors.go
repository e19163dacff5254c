package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go"
)

// A callError is a failed request: what was being done, the conditions it stands
// for, and the SDK's error.
type callError struct {
	op    string
	is    []error
	cause error
}

// Error leads with the condition that says most.
func (e *callError) Error() string { return e.op + ": " + e.is[0].Error() + ": " + e.cause.Error() }

// Unwrap is the conditions and the cause.
func (e *callError) Unwrap() []error { return append(slices.Clip(e.is), e.cause) }

// translate turns an error of the SDK, or of an engine in its place, into one
// that callers branch on by the errors of package limiter. It is the only place
// that looks at error codes. op says what was being done. The SDK's error stays
// in the chain.
func (c *conn) translate(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	}
	if missing := (*types.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return fmt.Errorf("%s: %w", op, &limiter.NotFoundError{Kind: "table", Name: *c.table, Hint: "create it, or check its name, region and endpoint"})
	}
	if is := conditions(err); is != nil {
		return &callError{op, is, err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// conditions is what err stands for, the most telling first; nil if it is a
// request that will never work.
func conditions(err error) []error {
	code := codeOf(err)
	switch kind := kindOf(code); {
	case kind != nil:
		return kind
	case code != "" && !isServerFault(err):
		return nil
	case isCredentialFailure(err):
		return []error{limiter.ErrAccessDenied}
	case isClientFault(err):
		return nil
	}
	// No answer, half an answer, or a fault of the server.
	return []error{limiter.ErrUnavailable}
}

var (
	throttled = []error{limiter.ErrThrottled, limiter.ErrUnavailable}
	conflict  = []error{limiter.ErrConflict}
	denied    = []error{limiter.ErrAccessDenied}
)

// kindOf is what an error code stands for, nil if the code alone does not tell.
func kindOf(code string) []error {
	switch code {
	case "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded",
		"ThrottlingException", "Throttling", "ThrottlingError",
		"RequestLimitExceeded", "TooManyRequestsException":
		return throttled
	case "TransactionConflictException", "TransactionConflict",
		"TransactionInProgressException", "ReplicatedWriteConflictException",
		"ConditionalCheckFailedException", "ConditionalCheckFailed":
		return conflict
	case "AccessDeniedException", "AccessDenied", "AccessDeniedError",
		"UnrecognizedClientException", "InvalidClientTokenId",
		"InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignatureException", "IncompleteSignature",
		"ExpiredTokenException", "ExpiredToken", "RequestExpired",
		"MissingAuthenticationTokenException", "MissingAuthenticationToken", "MissingAuthentication",
		"AuthFailure", "OptInRequired", "NotAuthorized":
		return denied
	}
	return nil
}

// codeOf is the code of an error that the server sent, "" if it sent none; of a
// cancelled transaction, that of the first action that had one.
func codeOf(err error) string {
	for _, r := range cancellation(err) {
		if r.Code != nil && *r.Code != "None" {
			return *r.Code
		}
	}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func isServerFault(err error) bool {
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorFault() == smithy.FaultServer {
		return true
	}
	response := (*smithyhttp.ResponseError)(nil)
	return errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError
}

// isClientFault reports whether the request was refused before it was sent.
func isClientFault(err error) bool {
	serialization, params := (*smithy.SerializationError)(nil), (*smithy.InvalidParamsError)(nil)
	return errors.As(err, &serialization) || errors.As(err, &params)
}

// isCredentialFailure reports whether there were no credentials to sign with.
// The SDK has no type for that, and what it wraps differs by provider: an empty
// key, a missing file, a metadata service that does not answer. The stage that
// failed is only in the text.
func isCredentialFailure(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "get identity: ")
}

const conditionFailedReason = "ConditionalCheckFailed"

// conditionFailed reports whether a write's condition failed, alone or in a
// transaction, and the item that failed it, if it was asked for and exists.
func conditionFailed(err error) (it map[string]types.AttributeValue, ok bool) {
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		return failed.Item, true
	}
	for _, r := range cancellation(err) {
		if r.Code != nil && *r.Code == conditionFailedReason {
			return r.Item, true
		}
	}
	return nil, false
}

// cancellation is why each action of a transaction was cancelled, in order; nil
// if err is no cancellation.
func cancellation(err error) []types.CancellationReason {
	if cancelled := (*types.TransactionCanceledException)(nil); errors.As(err, &cancelled) {
		return cancelled.CancellationReasons
	}
	return nil
}

// failedAt reports whether the condition of action i of a transaction failed.
func failedAt(err error, i int) bool {
	reasons := cancellation(err)
	return i < len(reasons) && reasons[i].Code != nil && *reasons[i].Code == conditionFailedReason
}
