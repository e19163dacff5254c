package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store"
)

// Exit codes of the program.
const (
	ExitOK      = 0 // done, or admitted
	ExitError   = 1
	ExitUsage   = 2 // an argument is wrong; nothing was changed
	ExitChanges = 2 // a plan has changes, and the flag --detailed-exitcode asks
	ExitRefused = 3 // an acquire was refused
	// ExitInterrupted is what shells report of a command that SIGINT ends. Servers, which
	// only end this way, end with ExitOK.
	ExitInterrupted = 130

	// The verdicts of the command status besides [ExitOK] and [ExitError].
	ExitDegraded    = 3
	ExitChanging    = 4
	ExitIncomplete  = 5
	ExitUnreachable = 6
	ExitForbidden   = 7
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

// An ErrorView is an error in JSON.
type ErrorView struct {
	// Error is the kind of the error, for programs.
	Error string `json:"error"`
	// Message says what failed, why, and what to do.
	Message string `json:"message"`
	// Hint is a command line that helps.
	Hint string `json:"hint,omitempty"`
}

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
	next, text := a.next(err), a.textOf(err)
	if usage := (*UsageError)(nil); errors.As(err, &usage) {
		next, text = command+" --help", shortened(text)
	}
	message := "Error: " + text + "\n"
	if next != "" {
		message += "Try: " + next + "\n"
	}
	if a.Flags.JSON() {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(ErrorView{kindOf(err), text, next}) // encoding strings cannot fail
		message = b.String()
	}
	_, _ = io.WriteString(a.Stderr, Shown(message)) // there is nowhere left to report to
	return a.exitCode(err)
}

// shortened cuts the long words of a text: an argument of thousands of characters is recognized
// by its first ones, and buries what is wrong with it.
func shortened(text string) string {
	const longest, first, last = 300, 50, 2
	words := strings.Split(text, " ")
	for i, word := range words {
		if r := []rune(word); len(r) > longest {
			words[i] = string(r[:first]) + "…" + string(r[len(r)-last:])
		}
	}
	return strings.Join(words, " ")
}

// exitCode is the exit code of an error that is reported.
func (a *App) exitCode(err error) int {
	usage, invalid := (*UsageError)(nil), (*limiter.ValidationError)(nil)
	switch {
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case a.CodeOf != nil && a.CodeOf(err) != 0:
		return a.CodeOf(err)
	case errors.As(err, &usage), errors.As(err, &invalid):
		return ExitUsage
	}
	return ExitError
}

// textOf is the text of an error, with advice for the command line.
func (a *App) textOf(err error) string {
	if invalid := (*limiter.ValidationError)(nil); errors.As(err, &invalid) && invalid.Field == "entity" {
		return err.Error() + encoded(invalid.Value)
	}
	unknown := (*limiter.NotConfiguredError)(nil)
	if !errors.As(err, &unknown) {
		return err.Error()
	}
	if unknown.IsEmpty() && unknown.Slots {
		return unknown.Found() + ": set some, or give --slot-fallback"
	}
	if unknown.IsEmpty() {
		return unknown.Found() + ": configure some, or give --fallback"
	}
	return unknown.Found() + ": name one of them, or configure it"
}

// encoded says which ID stands for a name that cannot be one, "" if none does.
func encoded(name string) string {
	id := limiter.EncodeName(name)
	if name == "" || id == name || store.CheckEntity(id) != nil {
		return ""
	}
	return fmt.Sprintf("; for this name give the ID %s (zae-limiter name encode)", id)
}

// next is the command that helps, "" if there is none.
func (a *App) next(err error) string {
	if unknown := (*limiter.NotConfiguredError)(nil); errors.As(err, &unknown) {
		return a.nextFor(unknown)
	}
	missing := (*limiter.NotFoundError)(nil)
	if !errors.As(err, &missing) {
		return a.nextRequest(err)
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

// nextFor is the command that configures missing limits. It is "" if the level has other
// limits, which the command would replace.
func (a *App) nextFor(e *limiter.NotConfiguredError) string {
	if !e.IsEmpty() {
		return ""
	}
	if e.Slots {
		return CommandLine([]string{"zae-limiter", "resource", "set-slots", e.Resource, "--slots", e.Limits[0] + ":20", "-n", a.Flags.Table, "-N", a.Flags.Namespace}) + a.Flags.given()
	}
	limits := e.Limits
	if len(limits) == 0 {
		limits = []string{"rpm"}
	}
	args := []string{"zae-limiter", "resource", "set-defaults", e.Resource}
	for _, name := range limits {
		args = append(args, "--limit", name+":100/min")
	}
	return CommandLine(append(args, "-n", a.Flags.Table, "-N", a.Flags.Namespace)) + a.Flags.given()
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
	{admin.ErrNamespaceInUse, "in_use"},
	{admin.ErrProtected, "protected"},
	{admin.ErrNoBackups, "no_backups"},
	{stack.ErrNoStacks, "no_stacks"},
	{limiter.ErrThrottled, "throttled"},
	{limiter.ErrAccessDenied, "access_denied"},
	{limiter.ErrSlotsLost, "slots_lost"},
	{limiter.ErrUnavailable, "unavailable"},
	{limiter.ErrConflict, "conflict"},
	{dynamo.ErrKeyUsed, "key_used"},
	{limiter.ErrNotConfigured, "not_configured"},
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
	switch {
	case IsForbidden(err):
		return "access_denied"
	case IsUnreached(err), IsUnanswered(err):
		return "unavailable"
	}
	return "failed"
}
