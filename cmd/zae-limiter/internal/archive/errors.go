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

	"github.com/zeroae/zae-limiter-go/internal/awsauth"
	"github.com/zeroae/zae-limiter-go/store"
)

// A callError is a failed request: the operation, its condition, the remedy, and the SDK's
// error.
type callError struct {
	op, hint string
	is       []error
	cause    error
}

// Error begins with the condition.
func (e *callError) Error() string {
	return e.op + ": " + e.is[0].Error() + e.hint + ": " + e.cause.Error()
}

// Unwrap returns the conditions and the cause.
func (e *callError) Unwrap() []error { return append(slices.Clip(e.is), e.cause) }

// translate turns an SDK error into one of package limiter, which callers can branch on. op
// names the operation.
func (a *Archive) translate(op string, err error) error {
	op = fmt.Sprintf("archive %s: %s", a.o.Location, op)
	var missing *types.NoSuchBucket
	var absent *types.NotFound // the error of HeadBucket, whose text does not identify it
	switch status, code := statusOf(err), codeOf(err); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	case errors.As(err, &missing), errors.As(err, &absent), code == "NoSuchBucket":
		return fmt.Errorf("%s: %w", op, &store.NotFoundError{
			Kind: "bucket", Name: a.o.Bucket, Hint: "create it, or correct the archive's URL and endpoint",
		})
	case awsauth.OfCode(code) == awsauth.Expired:
		return &callError{op, ": the credentials have expired, get new ones", []error{store.ErrAccessDenied}, err}
	case awsauth.OfCode(code) == awsauth.Wrong:
		return &callError{op, ": S3 does not know the credentials, or the secret is wrong", []error{store.ErrAccessDenied}, err}
	case status == http.StatusForbidden, status == http.StatusUnauthorized, isCredentialFailure(err):
		return &callError{
			op, ": check the credentials, which need s3:ListBucket of the bucket, and s3:PutObject of its objects",
			[]error{store.ErrAccessDenied},
			err,
		}
	case code == "SlowDown", code == "ServiceUnavailable", status == http.StatusTooManyRequests:
		return &callError{op, "", []error{store.ErrThrottled, store.ErrUnavailable}, err}
	case status == 0 && code == "", status >= http.StatusInternalServerError:
		return &callError{op, "", []error{store.ErrUnavailable}, err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// statusOf returns the HTTP status of an answer, 0 if there was none.
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

// isCredentialFailure reports whether there were no credentials for signing. The SDK has no
// type for that error.
func isCredentialFailure(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "get identity: ")
}

// regionOf returns the region of a bucket if err says that it is in another region than the
// request asked; otherwise "".
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
