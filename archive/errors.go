package archive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go"
)

// ErrDamaged is what is wrong with an object that is not what was stored. See
// [ObjectError].
var ErrDamaged = errors.New("damaged object")

// An ObjectError is an object that could not be searched, or not all of it.
type ObjectError struct {
	Object string // its URL
	Line   int    // the first that is wrong, from 1; 0 if that is the object as a whole
	Err    error  // [ErrDamaged], [limiter.ErrNotFound] if it was deleted meanwhile, or what S3 says
}

// Error names the object and the line.
func (e *ObjectError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Object, e.Err)
	}
	return fmt.Sprintf("%s, line %d: %v", e.Object, e.Line, e.Err)
}

// Unwrap is why.
func (e *ObjectError) Unwrap() error { return e.Err }

// A callError is a failed request: what was being done, the condition it stands
// for, what to do, and the SDK's error.
type callError struct {
	op, hint string
	is       []error
	cause    error
}

// Error leads with the condition.
func (e *callError) Error() string {
	return e.op + ": " + e.is[0].Error() + e.hint + ": " + e.cause.Error()
}

// Unwrap is the conditions and the cause.
func (e *callError) Unwrap() []error { return append(slices.Clip(e.is), e.cause) }

// translate turns an error of the SDK into one that callers branch on by the
// errors of package limiter. op says what was being done.
func (a *Archive) translate(op string, err error) error {
	op = fmt.Sprintf("archive %s: %s", a.o.Location, op)
	var missing *types.NoSuchBucket
	var absent *types.NotFound // what HeadBucket says, which has no text to be told apart by
	switch status, code := statusOf(err), codeOf(err); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	case errors.As(err, &missing), errors.As(err, &absent), code == "NoSuchBucket":
		return fmt.Errorf("%s: %w", op, &limiter.NotFoundError{
			Kind: "bucket", Name: a.o.Bucket, Hint: "create it, or correct the archive's URL and endpoint",
		})
	case status == http.StatusForbidden, status == http.StatusUnauthorized, code == "ExpiredToken", isCredentialFailure(err):
		return &callError{
			op, ": check the credentials, which need s3:ListBucket of the bucket, and s3:PutObject or s3:GetObject of its objects",
			[]error{limiter.ErrAccessDenied},
			err,
		}
	case code == "SlowDown", code == "ServiceUnavailable", status == http.StatusTooManyRequests:
		return &callError{op, "", []error{limiter.ErrThrottled, limiter.ErrUnavailable}, err}
	case status == 0 && code == "", status >= http.StatusInternalServerError:
		return &callError{op, "", []error{limiter.ErrUnavailable}, err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// statusOf is the status of an answer, 0 if there was none.
func statusOf(err error) int {
	if response := (*smithyhttp.ResponseError)(nil); errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

func codeOf(err error) string {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// isCredentialFailure reports whether there were no credentials to sign with, for
// which the SDK has no type.
func isCredentialFailure(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "get identity: ")
}

// regionOf is the region that a bucket is in, if err says that it is in another
// one than it was asked for in; else "".
func regionOf(err error) string {
	response := (*smithyhttp.ResponseError)(nil)
	if !errors.As(err, &response) || response.Response == nil {
		return ""
	}
	switch response.HTTPStatusCode() {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest:
		return response.Response.Header.Get("X-Amz-Bucket-Region")
	}
	return ""
}
