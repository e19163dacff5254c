package fastclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// served is what the date of an answer says. All answers of a second share it, because
// they have the same date. A nil *served is an answer without a date.
type served struct {
	date     string
	metadata middleware.Metadata
	skew     time.Duration // the server's clock minus ours
}

// heard evaluates the date of an answer, as the SDK does.
func (c *Client) heard(ctx context.Context, date []byte) *served {
	if len(date) == 0 {
		return nil
	}
	if last := c.server.Load(); last != nil && last.date == string(date) {
		return last
	}
	now := &served{date: string(date)}
	answer := &smithyhttp.Response{Response: &http.Response{Header: http.Header{"Date": {now.date}}}}
	record := awsmiddleware.RecordResponseTiming{DisableClockSkewCorrection: c.options.DisableClockSkewCorrection}
	_, now.metadata, _ = record.HandleDeserialize(ctx, middleware.DeserializeInput{}, middleware.DeserializeHandlerFunc(
		func(context.Context, middleware.DeserializeInput) (middleware.DeserializeOutput, middleware.Metadata, error) {
			return middleware.DeserializeOutput{RawResponse: answer}, middleware.Metadata{}, nil
		}))
	now.skew, _ = awsmiddleware.GetAttemptSkew(now.metadata)
	c.server.Store(now)
	return now
}

func (s *served) metadataOf() middleware.Metadata {
	if s == nil {
		return middleware.Metadata{}
	}
	return s.metadata
}

// clockSkew is added to our clock for signatures.
func (s *served) clockSkew() time.Duration {
	if s == nil {
		return 0
	}
	return s.skew
}

// skewThreshold is the SDK's: a smaller difference does not invalidate a signature.
const skewThreshold = 4 * time.Minute

// A clockError is a signature that was refused because of our clock. Retryers of the SDK
// know such an error by its method RetryableError.
type clockError struct{ error }

// RetryableError says that the next signature has another time.
func (*clockError) RetryableError() bool { return true }

// Unwrap returns the server's error.
func (e *clockError) Unwrap() error { return e.error }

// contradicts reports whether an answer refuses a signature because it was made for a time
// that is not the server's. The SDK cannot find that out: it signs for another time, by the
// answers that it has seen itself.
func (s *served) contradicts(used *served, refused error) bool {
	if s == nil || (s.skew-used.clockSkew()).Abs() <= skewThreshold {
		return false
	}
	var api smithy.APIError
	if !errors.As(refused, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure", "RequestTimeTooSkewed", "AccessDeniedException":
		return true
	}
	return false
}
