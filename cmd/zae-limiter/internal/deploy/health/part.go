package health

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/smithy-go"
	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/internal/awsauth"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Part is one part of a limiter: read, not readable, or absent. Absent means that the
// limiter has no such part, as a table without a stack has no alarms. Its JSON form is the
// value's, an object with the one field "problem", or null.
type Part[T any] struct {
	Value   *T       // nil if the part is absent or could not be read
	Problem *Problem // nil if the part is absent or was read
}

// Read is a part that was read.
func Read[T any](v T) Part[T] { return Part[T]{Value: &v} }

// Failed is a part that could not be read.
func Failed[T any](call string, err error) Part[T] {
	return Part[T]{Problem: problemOf(call, err)}
}

// Absent reports whether the limiter has no such part.
func (p Part[T]) Absent() bool { return p.Value == nil && p.Problem == nil }

// MarshalJSON writes the value, the problem, or null. An empty list is [] and never null, which
// would say that the part is absent.
func (p Part[T]) MarshalJSON() ([]byte, error) {
	if p.Problem != nil {
		return json.Marshal(map[string]*Problem{"problem": p.Problem})
	}
	return json.Marshal(p.Value, jsonv1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false))
}

// A Kind says why a part could not be read.
type Kind string

// The kinds of problems.
const (
	Denied      Kind = "access_denied" // the credentials do not permit the call
	Expired     Kind = "credentials_expired"
	Wrong       Kind = "credentials_wrong" // the key is unknown, or the signature does not match
	NotFound    Kind = "not_found"         // the stack names the part, and it does not exist
	Throttled   Kind = "throttled"         // AWS refused the call for its rate, repeatedly
	TimedOut    Kind = "timeout"           // no answer within the time limit of the part
	Unavailable Kind = "unavailable"       // the service could not be reached
	Other       Kind = "failed"
)

// A Problem says why a part could not be read.
type Problem struct {
	Kind Kind `json:"kind"` // kind of the problem
	// Call is the action of AWS that failed, "cloudwatch:DescribeAlarms" for instance.
	Call    string `json:"call"`
	Message string `json:"message"`
}

// String says what failed and why.
func (p *Problem) String() string {
	switch p.Kind {
	case Denied:
		return "no permission for " + p.Call
	case Expired:
		return "the credentials have expired"
	case Wrong:
		return "AWS does not know the credentials, or the secret is wrong"
	case TimedOut:
		return "no answer to " + p.Call + " in time"
	case Throttled:
		return "AWS throttles " + p.Call
	case NotFound:
		return "not found by " + p.Call
	case Unavailable, Other:
	}
	return p.Call + ": " + p.Message
}

// Codes of AWS's errors, by any of the names that services give them.
var (
	absentCodes = []string{
		"ResourceNotFoundException", "ResourceNotFound", "NotFound", "NoSuchBucket", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
	}
	throttledCodes = []string{"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestThrottled", "LimitExceededException", "SlowDown"}
)

// problemOf translates an error of AWS, or of the packages on a table.
func problemOf(call string, err error) *Problem {
	p := &Problem{Kind: kindOf(err), Call: call, Message: oneLine(err.Error())}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		p.Message = oneLine(fmt.Sprintf("%s: %s", api.ErrorCode(), api.ErrorMessage()))
	}
	return p
}

func kindOf(err error) Kind {
	code := ""
	api := smithy.APIError(nil)
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	fault := awsauth.OfCode(code)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return TimedOut
	case fault == awsauth.Expired:
		return Expired
	case fault == awsauth.Wrong:
		return Wrong
	case fault == awsauth.Denied, errors.Is(err, store.ErrAccessDenied):
		return Denied
	case errors.Is(err, store.ErrNotFound), slices.Contains(absentCodes, code):
		return NotFound
	case errors.Is(err, store.ErrThrottled), slices.Contains(throttledCodes, code):
		return Throttled
	case errors.Is(err, store.ErrUnavailable), api == nil && !isKnown(err):
		return Unavailable
	}
	return Other
}

// isUnsupported reports whether a server does not have an operation, as DynamoDB Local does
// not have all of DynamoDB's. Nothing can be wrong there.
func isUnsupported(err error) bool {
	api := smithy.APIError(nil)
	return errors.Is(err, admin.ErrNoBackups) || errors.As(err, &api) && api.ErrorCode() == "UnknownOperationException"
}

// isKnown reports whether an error is a condition of this project, and not of the network.
func isKnown(err error) bool {
	for _, known := range []error{store.ErrInvalid, store.ErrConflict, store.ErrCorrupt, store.ErrIncompatible, store.ErrUnsupported, stack.ErrNoStacks, errIncomplete} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// errIncomplete says that a service answered, but not with everything that was asked.
var errIncomplete = errors.New("incomplete answer")
