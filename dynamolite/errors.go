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
	// ErrInUse is returned, wrapped, by [Open] for a directory that another process or database
	// has open.
	ErrInUse = errors.New("dynamolite: the directory is in use")
	// ErrDamaged is returned by [Open] for a directory whose files are not as they were written.
	// It is wrapped with the place and the remedy. Nothing has been changed.
	ErrDamaged = errors.New("dynamolite: the data on disk is damaged")
	// ErrDiskFailed is returned, wrapped, by every operation once the disk has failed to take a
	// write. The data in memory no longer equals the data on disk. Open the directory again.
	ErrDiskFailed = errors.New("dynamolite: the disk has failed")
)

// OptionError names an option with an invalid value and says why the value is invalid.
type OptionError struct {
	Option  string // "Limits.Burst", "latency"
	Value   string
	Problem string // continues the sentence after the value
}

// Error names the option, its value, and what is wrong with it.
func (e *OptionError) Error() string {
	return fmt.Sprintf("dynamolite: option %s: %q %s", e.Option, e.Value, e.Problem)
}

// operationError wraps an error as the SDK's client does. Like DynamoDB, it turns the errors of
// the value and expression packages into a ValidationException.
func operationError(op operation, err error) error {
	if message, ok := userError(err); ok {
		err = validation(message)
	}
	if unfit, ok := errors.AsType[*unfitError](err); ok {
		err = validation(unfit.Error())
	}
	if misfit, ok := errors.AsType[*misfitError](err); ok {
		err = misfit.error
	}
	return &smithy.OperationError{ServiceID: op.service(), OperationName: op.String(), Err: err}
}

// userError reports whether err is about the request's expressions or values.
func userError(err error) (message string, ok bool) {
	if e, is := errors.AsType[*expr.Error](err); is {
		return e.Message, true
	}
	if e, is := errors.AsType[*value.Error](err); is {
		return e.Message, true
	}
	return "", false
}

// misfitError is the ValidationException of an item that does not fit its table: a key of the
// wrong type, a key that is too long, or an update of a key. A transaction is cancelled with it,
// not refused.
type misfitError struct{ error }

// Unwrap returns the ValidationException.
func (e *misfitError) Unwrap() error { return e.error }

func misfit(format string, args ...any) error { return &misfitError{invalid(format, args...)} }

func validation(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

func validationf(format string, args ...any) error {
	return validation(fmt.Sprintf(format, args...))
}

// invalid returns a ValidationException with AWS's usual preamble.
func invalid(format string, args ...any) error {
	return validation("One or more parameter values were invalid: " + fmt.Sprintf(format, args...))
}

func missing(parameter string) error {
	return validationf("The parameter '%s' is required but was not present in the request", parameter)
}

// unsupported returns the error for a DynamoDB feature that this engine does not have.
func unsupported(feature, instead string) error {
	return validationf("%s is not supported by dynamolite: %s", feature, instead)
}

// notFound returns the error for a table that does not exist. Only operations on the table itself
// name it.
func notFound(op operation, name string) error {
	message := "Requested resource not found"
	if op > operations {
		message += ": Table: " + name + " not found"
	}
	return &types.ResourceNotFoundException{Message: &message}
}

func conditionFailed(item value.Item) error {
	return &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed"), Item: item}
}

// conflict returns the error of a write to an item that a transaction is about to write.
func conflict() error {
	return &types.TransactionConflictException{Message: aws.String("Transaction is ongoing for the item")}
}

// isConflict reports whether err is the error of such a write.
func isConflict(err error) bool {
	_, ok := errors.AsType[*types.TransactionConflictException](err)
	return ok
}
