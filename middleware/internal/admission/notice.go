package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	limiter "github.com/zeroae/zae-limiter-go"
)

// mostCauses is how many causes a server tells of.
const mostCauses = 100

// Notices log what cannot be answered, once for each cause: a server may meet one with
// every request. They are safe for concurrent use.
type Notices struct {
	logger *slog.Logger // nil is slog.Default(), at the time of a notice
	mu     sync.Mutex
	told   map[string]struct{}
}

// NewNotices are notices in a log. A nil logger is [slog.Default].
func NewNotices(logger *slog.Logger) *Notices {
	return &Notices{logger: logger, told: make(map[string]struct{})}
}

// Tell logs an error of a request, unless it has told the same.
func (n *Notices) Tell(ctx context.Context, message string, err error, args ...any) {
	if !n.isNew(message + " " + causeOf(err)) {
		return
	}
	logger := n.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.ErrorContext(ctx, message, append(args, "error", err, "logged", "once for each cause")...) //nolint:sloglint // callers give constants
}

func (n *Notices) isNew(cause string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, isTold := n.told[cause]; isTold || len(n.told) >= mostCauses {
		return false
	}
	n.told[cause] = struct{}{}
	return true
}

// IsDefect reports whether an error is no decision: the server's operator, or its developer, may
// have to correct something.
func IsDefect(err error) bool {
	return !errors.Is(err, limiter.ErrExceeded) && !errors.Is(err, limiter.ErrDisabled)
}

// causeOf is what errors of one cause have in common: never what each request has of its own.
func causeOf(err error) string {
	missing, invalid := (*limiter.NotConfiguredError)(nil), (*limiter.ValidationError)(nil)
	switch kind := limiter.ErrorKind(err); {
	case errors.As(err, &missing):
		return fmt.Sprint(kind, missing.Resource, missing.Limits)
	case errors.As(err, &invalid):
		return kind + invalid.Field
	default:
		return kind
	}
}

// Advice tells a client why the server cannot decide, and the server's developer what to do. It
// names no entity, and nothing of the table.
func Advice(err error) string {
	missing := (*limiter.NotConfiguredError)(nil)
	reason := "The rate limiter cannot decide about this request."
	switch {
	case errors.As(err, &missing):
		reason = notConfigured(missing)
	case errors.Is(err, limiter.ErrAccessDenied):
		reason = "The server's credentials do not permit the rate limiter to use its table."
	case errors.Is(err, limiter.ErrNotFound):
		reason = "The rate limiter's table or namespace does not exist."
	}
	return reason + " The server's log has the error."
}

// notConfigured names the limits that are missing.
func notConfigured(e *limiter.NotConfiguredError) string {
	missing, known := strings.Join(e.Limits, " and "), strings.Join(e.Known, " and ")
	switch {
	case e.Slots:
		return fmt.Sprintf("The server has no slots %s for %s: set some, or set Options.SlotFallback.", missing, e.Resource)
	case missing == "":
		return fmt.Sprintf("The server has no limits for %s: configure some, or set Options.Fallback.", e.Resource)
	case e.Level == "" && known != "":
		return fmt.Sprintf("The server has no limit %s for %s: no limits are configured, and Options.Fallback has only %s.", missing, e.Resource, known)
	case known == "":
		return fmt.Sprintf("The server has no limit %s for %s: configure it, or set Options.Fallback.", missing, e.Resource)
	}
	return fmt.Sprintf("The server has no limit %s for %s: what is configured for this client has only %s. Configure it there, too.", missing, e.Resource, known)
}
