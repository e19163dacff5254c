package dynamolite

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

var (
	// ErrClosed is returned, wrapped, by every operation on a [DB] after [DB.Close].
	ErrClosed = errors.New("dynamolite: database is closed")
	// ErrInUse is returned, wrapped, by [Open] for a directory that another process or database has open.
	ErrInUse = errors.New("dynamolite: the directory is in use")
	// ErrDamaged is returned, wrapped with the place and what can be done, by [Open] for a directory
	// with files that are not as they were written. Nothing has been changed.
	ErrDamaged = errors.New("dynamolite: the data on disk is damaged")
	// ErrDiskFailed is returned, wrapped, by every operation once the disk has failed to take a
	// write: what memory holds is no longer what is on disk. Open the directory again.
	ErrDiskFailed = errors.New("dynamolite: the disk has failed")
)

// OptionError tells which option has a value that it cannot have, and why.
type OptionError struct {
	Option  string // "Limits.Burst", "latency"
	Value   string
	Problem string // reads on after the value
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("dynamolite: option %s: %q %s", e.Option, e.Value, e.Problem)
}

// operationError wraps what went wrong as the SDK's client does. The errors of the value and
// expression packages become what DynamoDB makes of them, a ValidationException.
func operationError(op operation, err error) error {
	if message, ok := userError(err); ok {
		err = validation(message)
	}
	if misfit, ok := errors.AsType[*misfitError](err); ok {
		err = misfit.error
	}
	return &smithy.OperationError{ServiceID: op.service(), OperationName: op.String(), Err: err}
}

// userError tells whether err is a complaint about the request's expressions or values.
func userError(err error) (message string, ok bool) {
	if e, is := errors.AsType[*expr.Error](err); is {
		return e.Message, true
	}
	if e, is := errors.AsType[*value.Error](err); is {
		return e.Message, true
	}
	return "", false
}

// misfitError is the ValidationException of an item that does not fit its table: a key of another
// type or too long, a key to be updated. A transaction is not refused for it, but cancelled.
type misfitError struct{ error }

// Unwrap is the ValidationException.
func (e *misfitError) Unwrap() error { return e.error }

func misfit(format string, args ...any) error { return &misfitError{invalid(format, args...)} }

func validation(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

func validationf(format string, args ...any) error {
	return validation(fmt.Sprintf(format, args...))
}

// invalid is a ValidationException with AWS's usual preamble.
func invalid(format string, args ...any) error {
	return validation("One or more parameter values were invalid: " + fmt.Sprintf(format, args...))
}

func missing(parameter string) error {
	return validationf("The parameter '%s' is required but was not present in the request", parameter)
}

// unsupported refuses a feature that DynamoDB has and this engine has not.
func unsupported(feature, instead string) error {
	return validationf("%s is not supported by dynamolite: %s", feature, instead)
}

func notFound(name string) error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: Table: " + name + " not found")}
}

func conditionFailed(item value.Item) error {
	return &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed"), Item: item}
}

// conflict answers a write of an item that a transaction is about to write.
func conflict() error {
	return &types.TransactionConflictException{Message: aws.String("Transaction is ongoing for the item")}
}

// isConflict tells whether err is that of a write of such an item.
func isConflict(err error) bool {
	_, ok := errors.AsType[*types.TransactionConflictException](err)
	return ok
}
