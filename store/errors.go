package store

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Conditions that callers branch on. An error that carries data answers errors.Is to
// one of these, and errors.As to its type.
var (
	// ErrInvalid: an argument is not acceptable. See [ValidationError].
	ErrInvalid = errors.New("invalid argument")
	// ErrUnavailable: the store could not be reached or did not answer in time. The
	// requested operation may or may not have happened. Throttling is ErrUnavailable
	// too.
	ErrUnavailable = errors.New("store unavailable")
	// ErrThrottled: the store rejected the request for its rate; nothing was applied.
	ErrThrottled = errors.New("store throttled the request")
	// ErrHotPartition: the store rejected the request because of the rate on the one
	// partition that holds the item. More shards relieve that partition if the item is
	// busy; the partitions of an on-demand table that has yet to grow throttle all items.
	// The error is always ErrThrottled too.
	ErrHotPartition = errors.New("partition of the item is too busy")
	// ErrConflict: other writes came first at every attempt; nothing was applied.
	ErrConflict = errors.New("conflicting writes")
	// ErrAccessDenied: the credentials are missing, have expired, or do not permit this
	// operation. The limiter never treats it as an outage.
	ErrAccessDenied = errors.New("access denied")
	// ErrNotFound: the table, namespace or entity does not exist. See
	// [NotFoundError].
	ErrNotFound = errors.New("not found")
	// ErrNotConfigured: a request names a limit that its bucket is not to have. See
	// [NotConfiguredError].
	ErrNotConfigured = errors.New("limit not configured")
	// ErrExists: the thing to be created exists already. See [ExistsError].
	ErrExists = errors.New("already exists")
	// ErrNestedCascade: an entity that is to cascade would be the second level of a
	// cascade. See [NestedCascadeError].
	ErrNestedCascade = errors.New("nested cascade")
	// ErrDisabled: an operator has disabled the entity or the resource. See [DisabledError].
	ErrDisabled = errors.New("resource disabled")
	// ErrUnsupported: an item uses a feature of a peer that this version cannot
	// evaluate. See [UnsupportedError].
	ErrUnsupported = errors.New("unsupported feature")
	// ErrIncomplete: a change was made, but not every bucket that it concerns has
	// followed. See [IncompleteError].
	ErrIncomplete = errors.New("change incomplete")
	// ErrCorrupt: a stored item cannot be decoded. See [CorruptError].
	ErrCorrupt = errors.New("corrupt item")
	// ErrIncompatible: the table requires another version of this library.
	ErrIncompatible = errors.New("incompatible table version")
)

// A ValidationError names an argument that is not acceptable, and how to correct it. It
// is [ErrInvalid].
type ValidationError struct {
	Field  string
	Value  string
	Reason string
}

// Error quotes at most 50 characters of the value.
func (e *ValidationError) Error() string {
	value := e.Value
	if utf8.RuneCountInString(value) > maxQuoted {
		value = string([]rune(value)[:maxQuoted]) + "…"
	}
	return fmt.Sprintf("invalid %s %q: %s", e.Field, value, e.Reason)
}

const maxQuoted = 50

// CheckNotNegative returns a [*ValidationError] if the value of an option is negative. 0
// stands for the option's default.
func CheckNotNegative[T int | time.Duration](field string, value T) error {
	if value >= 0 {
		return nil
	}
	return &ValidationError{Field: field, Value: fmt.Sprint(value), Reason: "use a positive value, or 0 for the default"}
}

// Is reports whether target is [ErrInvalid].
func (e *ValidationError) Is(target error) bool { return target == ErrInvalid }

// A NotFoundError names a thing that does not exist. It is [ErrNotFound].
type NotFoundError struct {
	Kind string // "table", "namespace", "entity"
	Name string
	Hint string // what to do next; may be ""
}

// Error names the missing thing and what to do next.
func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("%s %q not found", e.Kind, e.Name)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Is reports whether target is [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// A NotConfiguredError names limits that a request asks for, and that neither the bucket
// of its entity nor its parent's is to have. The request is well formed: either the
// configuration lacks these limits, or the program asks for the wrong ones. It is
// [ErrNotConfigured], and not [ErrInvalid].
type NotConfiguredError struct {
	Entity, Resource string
	Limits           []string // the limits that are missing; empty if any would do
	Slots            bool     // they are limits of slots
	// Level is the level of configuration that decides, for example "resource gpt-4". It
	// is "" if no level configures limits.
	Level string
	// Known are the limits of that level. If no level configures limits, they are the
	// request's fallback limits.
	Known []string
}

// Error says which limits are missing, which there are, and what to do.
func (e *NotConfiguredError) Error() string {
	switch {
	case e.IsEmpty() && e.Slots:
		return e.Found() + ": set some, or pass SlotFallback with the request"
	case e.IsEmpty():
		return e.Found() + ": configure some, or pass Fallback with the request"
	}
	return e.Found() + ": name one of them, or configure it"
}

// IsEmpty reports whether there are no limits at all, so that no other name would do.
func (e *NotConfiguredError) IsEmpty() bool { return len(e.Known) == 0 }

// Found says which limits are missing, and which limits there are, without advice.
func (e *NotConfiguredError) Found() string {
	missing, verb, what := "limits", "are", "limits"
	if e.Slots {
		what = "slots"
	}
	switch len(e.Limits) {
	case 0: // the request asked for whatever there is
	case 1:
		missing, verb = what[:len(what)-1]+" "+e.Limits[0], "is"
	default:
		missing = what + " " + strings.Join(e.Limits, ", ")
	}
	s := fmt.Sprintf("%s of %s for %s %s not configured: ", missing, e.Resource, e.Entity, verb)
	known := strings.Join(e.Known, ", ")
	switch {
	case e.Level != "":
		return s + "the " + what + " configured for " + e.Level + " are " + known
	case known != "":
		return s + "no level configures " + what + ", and the request's fallback " + what + " are " + known
	}
	return s + "no level configures " + what
}

// Is reports whether target is [ErrNotConfigured].
func (e *NotConfiguredError) Is(target error) bool { return target == ErrNotConfigured }

// An ExistsError names a thing that exists already. It is [ErrExists].
type ExistsError struct {
	Kind string
	Name string
}

// Error names the existing thing.
func (e *ExistsError) Error() string { return fmt.Sprintf("%s %q already exists", e.Kind, e.Name) }

// Is reports whether target is [ErrExists].
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// A NestedCascadeError says that an entity was not created, or not moved, because two cascades
// would follow each other: Child cascades to Entity, and Entity to Parent. A cascade is one
// level, so nothing that Child acquires would be taken from Parent. It is
// [ErrNestedCascade].
type NestedCascadeError struct{ Child, Entity, Parent string }

// Error names the three entities and what to do.
func (e *NestedCascadeError) Error() string {
	return fmt.Sprintf("entity %q cascades to %q, and that to %q: a cascade is one level, so %q would never pay for %q: let only one of the two cascade",
		e.Child, e.Entity, e.Parent, e.Parent, e.Child)
}

// Is reports whether target is [ErrNestedCascade].
func (e *NestedCascadeError) Is(target error) bool { return target == ErrNestedCascade }

// A DisabledError says that an operator has disabled a resource for an entity. It is
// [ErrDisabled].
type DisabledError struct {
	Entity, Resource string
	// Until is when that ends by itself; the zero time if no end is known.
	Until time.Time
}

// Error names the entity, the resource and the end.
func (e *DisabledError) Error() string {
	s := fmt.Sprintf("resource %q is disabled for entity %q", e.Resource, e.Entity)
	if !e.Until.IsZero() {
		s += " until " + e.Until.UTC().Format(time.RFC3339)
	}
	return s
}

// Is reports whether target is [ErrDisabled].
func (e *DisabledError) Is(target error) bool { return target == ErrDisabled }

// An UnsupportedError says that a stored item uses a feature that this version cannot
// evaluate. A decision without that feature would be wrong. So the limiter decided
// nothing and left the item as it is. It is [ErrUnsupported].
type UnsupportedError struct {
	Entity, Resource string
	Feature          string
}

// Error names the item and the feature.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s of entity %q uses a feature this version cannot evaluate (%s): acquire with a client that can, or remove it from the limits",
		e.Resource, e.Entity, e.Feature)
}

// Is reports whether target is [ErrUnsupported].
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// An IncompleteError says that the limits of an entity were changed, or the switch of an
// entity or a resource, but not all buckets follow. To complete the change, make it again.
// Until then, buckets that limiters of this library use follow within their
// [Options.ConfigTTL]. It is [ErrIncomplete], and also the error that kept the other
// buckets from following.
type IncompleteError struct {
	Entity, Resource string // the level that was changed
	// Reached is how many buckets follow, Of how many that were found.
	Reached, Of int
	Err         error
}

// Error says how many buckets follow and what to do.
func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s is changed, and %d of %d buckets follow so far: make the same change again: %v",
		ConfigKey{e.Entity, e.Resource}, e.Reached, e.Of, e.Err)
}

// Is reports whether target is [ErrIncomplete].
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Unwrap returns why the other buckets do not follow.
func (e *IncompleteError) Unwrap() error { return e.Err }

// A CorruptError names a stored item that cannot be decoded. It is
// [ErrCorrupt].
type CorruptError struct {
	Key    string // partition and sort key
	Attr   string
	Reason string
}

// Error names the item, the attribute and the reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("item %s: attribute %s: %s", e.Key, e.Attr, e.Reason)
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
