package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/archive"
	"github.com/zeroae/zae-limiter-go/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Exit codes of the program.
const (
	ExitOK      = 0 // done, or admitted
	ExitError   = 1
	ExitUsage   = 2 // the command line is wrong; nothing was sent
	ExitChanges = 2 // a plan has changes, and the flag --detailed-exitcode asks
	ExitRefused = 3 // an acquire was refused

	// The verdicts of the command status besides [ExitOK] and [ExitError].
	ExitDegraded   = 3
	ExitChanging   = 4
	ExitIncomplete = 5
)

// A CodeError ends a command with an exit code. The result already shows everything, so nothing
// more is reported.
type CodeError int

// Error names the code.
func (e CodeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrRefused ends a command whose acquire was refused. The result already shows the
// refusal, so nothing more is reported.
var ErrRefused = errors.New("refused")

// ErrChanges ends a plan that has changes, if the exit code is to tell. The result
// already shows them, so nothing more is reported.
var ErrChanges = errors.New("there are changes")

// ErrShown ends a command whose result already shows why it failed, so nothing more is
// reported.
var ErrShown = errors.New("failed as shown")

// A UsageError says that the command line is wrong. Nothing was sent.
type UsageError struct{ Err error }

// Error is the text of the error inside.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap is the error inside.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a [UsageError].
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Report writes an error, with the next step if there is one, and returns the exit code.
// command is the command whose help explains the usage.
func (a *App) Report(err error, command string) int {
	if err == nil {
		return ExitOK
	}
	if errors.Is(err, ErrRefused) {
		return ExitRefused
	}
	if code := CodeError(0); errors.As(err, &code) {
		return int(code)
	}
	if errors.Is(err, ErrChanges) {
		return ExitChanges
	}
	if errors.Is(err, ErrShown) {
		return ExitError
	}
	exit := ExitError
	next := a.next(err)
	if usage := (*UsageError)(nil); errors.As(err, &usage) {
		next = command + " --help"
		if !a.DetailedExit { // else the code means something else
			exit = ExitUsage
		}
	}
	message := "Error: " + err.Error() + "\n"
	if next != "" {
		message += "Try: " + next + "\n"
	}
	if a.Flags.JSON() {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(struct { // encoding strings cannot fail
			Error   string `json:"error"`
			Message string `json:"message"`
			Next    string `json:"next,omitempty"`
		}{kindOf(err), err.Error(), next})
		message = b.String()
	}
	_, _ = io.WriteString(a.Stderr, message) // there is nowhere left to report to
	return exit
}

// next is the command that helps, "" if there is none.
func (a *App) next(err error) string {
	missing := (*limiter.NotFoundError)(nil)
	if !errors.As(err, &missing) {
		return ""
	}
	switch missing.Kind {
	case "table":
		stream := ""
		if a.NeedsStream {
			stream = " --stream"
		}
		return "zae-limiter table create" + stream + " -n " + a.Flags.Table + a.Flags.given()
	case "namespace":
		if a.FindsNamespace {
			return "zae-limiter namespace list -n " + a.Flags.Table + a.Flags.given()
		}
		return "zae-limiter namespace register " + missing.Name + " -n " + a.Flags.Table + a.Flags.given()
	}
	return ""
}

// kinds name the conditions in the JSON form of an error. An error may match several: the
// most specific comes first.
var kinds = []struct {
	is   error
	name string
}{
	{context.Canceled, "canceled"},
	{ErrDeclined, "declined"},
	{limiter.ErrInvalid, "invalid"},
	{dynamo.ErrNamespaceInUse, "in_use"},
	{admin.ErrProtected, "protected"},
	{admin.ErrNoBackups, "no_backups"},
	{limiter.ErrThrottled, "throttled"},
	{limiter.ErrAccessDenied, "access_denied"},
	{limiter.ErrUnavailable, "unavailable"},
	{limiter.ErrConflict, "conflict"},
	{limiter.ErrNotFound, "not_found"},
	{limiter.ErrExists, "exists"},
	{limiter.ErrNestedCascade, "nested_cascade"},
	{limiter.ErrDisabled, "disabled"},
	{limiter.ErrUnsupported, "unsupported"},
	{limiter.ErrCorrupt, "corrupt"},
	{limiter.ErrIncompatible, "incompatible"},
	{stack.ErrBusy, "busy"},
	{stack.ErrBlocked, "blocked"},
	{stack.ErrStale, "stale"},
	{stack.ErrDataLoss, "data_loss"},
	{stack.ErrProtected, "protected"},
	{stack.ErrFailed, "stack_failed"},
	{dynamolite.ErrInUse, "in_use"},
	{dynamolite.ErrDamaged, "damaged"},
	{archive.ErrDamaged, "damaged"},
	{dynamolite.ErrDiskFailed, "disk_failed"},
}

func kindOf(err error) string {
	if usage := (*UsageError)(nil); errors.As(err, &usage) {
		return "usage"
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return k.name
		}
	}
	return "failed"
}
