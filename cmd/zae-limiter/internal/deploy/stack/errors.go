package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/awsauth"
	"github.com/zeroae/zae-limiter-go/store"
)

// Conditions that callers branch on.
var (
	// ErrBusy: an operation that somebody started runs on the stack. See [StateError].
	ErrBusy = errors.New("another operation runs on the stack")
	// ErrBlocked: the stack is in a state that allows no change. See [StateError].
	ErrBlocked = errors.New("the stack's state allows no change")
	// ErrStale: another change came between plan and execution. Nothing was changed.
	ErrStale = errors.New("the stack changed after the plan was made")
	// ErrFailed: the operation ran and failed. See [FailedError].
	ErrFailed = errors.New("the operation failed")
	// ErrDataLoss: the change would remove or replace data. See [ReplacementError].
	ErrDataLoss = errors.New("the change would lose data")
	// ErrProtected: a protection that an operator set forbids the deletion. See
	// [ProtectedError].
	ErrProtected = errors.New("protected against deletion")
	// ErrNoStacks: the server answers, but not as CloudFormation does. DynamoDB Local and
	// the embedded engine have tables only.
	ErrNoStacks = errors.New("this server has no stacks, as DynamoDB Local and zae-limiter local: make a table with zae-limiter table create, or name another server")
)

// A StateError says that a stack's state does not allow an operation. It is [ErrBusy] while
// an operation runs, and [ErrBlocked] otherwise.
type StateError struct {
	Stack  string
	Status string // as CloudFormation calls it
	Reason string // CloudFormation's; may be ""
	Means  string // what the status means
	Next   string // what to do
}

// Error says what the state is and what to do.
func (e *StateError) Error() string {
	s := fmt.Sprintf("stack %s is %s: %s", e.Stack, e.Status, e.Means)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	return s + ": " + e.Next
}

// Is reports whether target is [ErrBusy] or [ErrBlocked], whichever fits the status.
func (e *StateError) Is(target error) bool {
	if isRunning(e.Status) {
		return target == ErrBusy
	}
	return target == ErrBlocked
}

// A FailedError says why an operation failed. It is [ErrFailed].
type FailedError struct {
	Stack  string
	Status string  // in which the operation left the stack
	Cause  Event   // the first failure; zero if CloudFormation names none
	Events []Event // of the operation, in order
	Next   string
}

// Error is one line: the first cause and what to do. The events are not in it.
func (e *FailedError) Error() string {
	s := fmt.Sprintf("stack %s ended as %s", e.Stack, e.Status)
	if c := e.Cause; c.LogicalID != "" {
		s += fmt.Sprintf(": %s (%s) %s: %s", c.LogicalID, c.Type, c.Status, c.Reason)
	}
	return s + ": " + e.Next
}

// Is reports whether target is [ErrFailed].
func (e *FailedError) Is(target error) bool { return target == ErrFailed }

// A ReplacementError says that a change set was refused, because it removes or replaces
// data. Nothing was changed. It is [ErrDataLoss].
type ReplacementError struct {
	Stack   string
	Changes []Change // that remove or replace data
}

// Error names the resources and how to allow the change.
func (e *ReplacementError) Error() string {
	var parts, flags []string
	for _, c := range e.Changes {
		parts = append(parts, c.describe())
		flags = append(flags, "--allow-replacement "+c.LogicalID)
	}
	text := fmt.Sprintf("refused to change stack %s: %s: change the options that cause it, or give %s",
		e.Stack, strings.Join(parts, "; "), strings.Join(flags, " "))
	if slices.ContainsFunc(e.Changes, func(c Change) bool { return c.Type == typeTable && c.Action == string(types.ChangeActionModify) }) {
		text += "; CloudFormation will refuse that, too, because the table has a name: for another table, deploy a stack of another name"
	}
	return text
}

// Is reports whether target is [ErrDataLoss].
func (e *ReplacementError) Is(target error) bool { return target == ErrDataLoss }

// A ProtectedError says that something is protected against deletion. It is [ErrProtected].
type ProtectedError struct {
	Kind, Name string
	Next       string
}

// Error names what is protected and what to do.
func (e *ProtectedError) Error() string {
	return fmt.Sprintf("%s %s is protected against deletion: %s", e.Kind, e.Name, e.Next)
}

// Is reports whether target is [ErrProtected].
func (e *ProtectedError) Is(target error) bool { return target == ErrProtected }

// A ChangeSetError says that CloudFormation could not compute a change set. Nothing was
// changed.
type ChangeSetError struct{ Stack, Reason string }

// Error has CloudFormation's reason.
func (e *ChangeSetError) Error() string {
	return fmt.Sprintf("plan stack %s: CloudFormation made no change set: %s", e.Stack, e.Reason)
}

// An InterruptedError says that the caller stopped to wait for an operation that continues.
type InterruptedError struct {
	Stack string
	Err   error
	Next  string // how to follow the operation
}

// Error says how to follow the operation.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("waiting for stack %s ended: %v: the operation continues in CloudFormation, %s",
		e.Stack, e.Err, e.Next)
}

// Unwrap is the reason for which the wait ended.
func (e *InterruptedError) Unwrap() error { return e.Err }

// Codes of AWS that this package understands. Services name the same condition differently.
var (
	// unknown is what such servers answer, and what the SDK makes of an answer that is not
	// CloudFormation's.
	unknown   = []string{"UnknownError", "InvalidAction", "UnknownOperationException"}
	throttled = []string{"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded", "SlowDown"}
)

// codeOf is the code of an error of AWS, "" for another error.
func codeOf(err error) string {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// textOf is the message of an error of AWS, without the SDK's wrapping.
func textOf(err error) string {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorMessage()
	}
	return err.Error()
}

// isAbsent reports whether CloudFormation says that a stack does not exist. Only the text
// tells this from other validation errors.
func isAbsent(err error) bool {
	return codeOf(err) == "ValidationError" && strings.Contains(textOf(err), "does not exist")
}

// translate gives an error of AWS the condition of package store that callers branch on.
func translate(op string, err error) error {
	code := codeOf(err)
	of := func(codes []string) bool { return slices.Contains(codes, code) }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	case awsauth.OfCode(code) == awsauth.Expired:
		return fmt.Errorf("%s: %w: the credentials have expired, get new ones: %w", op, store.ErrAccessDenied, err)
	case awsauth.OfCode(code) != awsauth.None:
		return fmt.Errorf("%s: %w: %w", op, store.ErrAccessDenied, err)
	case of(throttled):
		return fmt.Errorf("%s: %w: %w", op, store.ErrThrottled, err)
	case of(unknown):
		return fmt.Errorf("%s: %w", op, ErrNoStacks)
	case code == "":
		return fmt.Errorf("%s: %w: %w", op, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
