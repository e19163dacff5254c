package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// Named wraps an error as the SDK's client does. Like DynamoDB, it turns the errors of
// the value and expression packages into a ValidationException.
func Named(op Operation, err error) error {
	if message, ok := UserError(err); ok {
		err = Validation(message)
	}
	if unfit, ok := errors.AsType[*unfitError](err); ok {
		err = Validation(unfit.Error())
	}
	if misfit, ok := errors.AsType[*MisfitError](err); ok {
		err = misfit.Err
	}
	return &smithy.OperationError{ServiceID: op.service(), OperationName: op.String(), Err: err}
}

// UserError reports whether err is about the request's expressions or values.
func UserError(err error) (message string, ok bool) {
	if e, is := errors.AsType[*expr.Error](err); is {
		return e.Message, true
	}
	if e, is := errors.AsType[*value.Error](err); is {
		return e.Message, true
	}
	return "", false
}

// MisfitError is the ValidationException of an item that does not fit its table: a key of the
// wrong type, a key that is too long, or an update of a key. A transaction is cancelled with it,
// not refused.
type MisfitError struct{ Err error }

// Error returns the text of the ValidationException.
func (e *MisfitError) Error() string { return e.Err.Error() }

// Unwrap returns the ValidationException.
func (e *MisfitError) Unwrap() error { return e.Err }

// Misfit returns the error of an item that does not fit its table.
func Misfit(format string, args ...any) error { return &MisfitError{Invalid(format, args...)} }

// Validation returns a ValidationException.
func Validation(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

// Validationf returns a ValidationException with a formatted message.
func Validationf(format string, args ...any) error {
	return Validation(fmt.Sprintf(format, args...))
}

// Invalid returns a ValidationException with AWS's usual preamble.
func Invalid(format string, args ...any) error {
	return Validation("One or more parameter values were invalid: " + fmt.Sprintf(format, args...))
}

// Missing returns the error for a required parameter that the request does not have.
func Missing(parameter string) error {
	return Validationf("The parameter '%s' is required but was not present in the request", parameter)
}

// Unsupported returns the error for a DynamoDB feature that this engine does not have.
func Unsupported(feature, instead string) error {
	return Validationf("%s is not supported by dynamolite: %s", feature, instead)
}

// NotFound returns the error for a table that does not exist. Only operations on the table itself
// name it.
func NotFound(op Operation, name string) error {
	message := "Requested resource not found"
	if op > BilledOperations {
		message += ": Table: " + name + " not found"
	}
	return &types.ResourceNotFoundException{Message: &message}
}

// ConditionFailed returns the error of a failed condition, with the item or nil.
func ConditionFailed(item value.Item) error {
	return &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed"), Item: item}
}

// Conflict returns the error of a write to an item that a transaction is about to write.
func Conflict() error {
	return &types.TransactionConflictException{Message: aws.String("Transaction is ongoing for the item")}
}

// IsConflict reports whether err is the error of such a write.
func IsConflict(err error) bool {
	_, ok := errors.AsType[*types.TransactionConflictException](err)
	return ok
}

// unfitError is a ValidationException about a member that does not satisfy the API's model. AWS
// reports all such members of a request at once.
type unfitError struct{ details []string }

// Error returns the text of the ValidationException.
func (e *unfitError) Error() string {
	errors := "errors"
	if len(e.details) == 1 {
		errors = "error"
	}
	return fmt.Sprintf("%d validation %s detected: %s", len(e.details), errors, strings.Join(e.details, "; "))
}

// Unfit returns the error for one member. Value is as in AWS's text: in quotes, or null.
func Unfit(got, field, constraint string) error {
	return &unfitError{[]string{"Value " + got + " at '" + field + "' failed to satisfy constraint: " + constraint}}
}

// AllUnfit returns one error for all members that are unfit, or nil. Other errors come first.
func AllUnfit(errs ...error) error {
	var details []string
	for _, err := range errs {
		e, ok := errors.AsType[*unfitError](err)
		if err != nil && !ok {
			return err
		}
		if ok {
			details = append(details, e.details...)
		}
	}
	if len(details) == 0 {
		return nil
	}
	return &unfitError{details}
}

// InOrder returns the error that AWS returns. A table that does not exist is found out only after
// the members of the request, but an invalid name before them. Callers thus look for the table
// first and keep AWS's order all the same.
func InOrder(table error, members ...error) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](table); table != nil && !ok {
		return table
	}
	if err := AllUnfit(members...); err != nil {
		return err
	}
	return table
}

// OneOf returns an error for a value that is not one of the choices. They are in the order in which
// AWS names them.
func OneOf[T ~string](field string, v T, choices ...T) error {
	if slices.Contains(choices, v) {
		return nil
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = string(c)
	}
	return Unfit("'"+string(v)+"'", field, "Member must satisfy enum value set: ["+strings.Join(names, ", ")+"]")
}

// OneOfOrNone is OneOf for a value that may be left out.
func OneOfOrNone[T ~string](field string, v T, choices ...T) error {
	if v == "" {
		return nil
	}
	return OneOf(field, v, choices...)
}
