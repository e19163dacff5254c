package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// problemType is the media type of a problem.
const problemType = "application/problem+json"

// The type and title of a refusal, from draft-ietf-httpapi-ratelimit-headers-11, section 5.1.
const (
	typeExceeded  = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	titleExceeded = "Request cannot be satisfied as assigned quota has been exceeded"
	typeBlank     = "about:blank"
)

// A Problem says why a call was not admitted, in the form of RFC 9457.
type Problem struct {
	// Type is a URI of the kind of the problem; about:blank if the status says it all.
	Type  string `json:"type"`
	Title string `json:"title"` // the kind of the problem, for people
	// Status is the status code of the answer.
	Status int `json:"status"`
	// Detail says what is wrong, and what to do.
	Detail string `json:"detail"`
	// Instance is the ID of a refusal. The page of the service tells of it, see docs/page.md.
	Instance string `json:"instance,omitempty"`
	// Field is the field of the call that is not valid.
	Field string `json:"field,omitempty"`
	// Violated has the names of the limits that refused.
	Violated []string `json:"violated-policies,omitempty"`

	*decide.Decision // of a refusal
}

// problem is a problem whose status code says it all. A detail quotes what a client has sent, which may be anything,
// a lease too: each quotation is cut where no name of a limit is as long.
func problem(code int, detail string) *Problem {
	return &Problem{Type: typeBlank, Title: http.StatusText(code), Status: code, Detail: longQuotes.ReplaceAllString(detail, `$1…"`)}
}

// longQuotes are texts in quotes of more than 64 characters, of which 50 stay.
var longQuotes = regexp.MustCompile(`("(?:[^"\\]|\\.){50})(?:[^"\\]|\\.){14}(?:[^"\\]|\\.)+"`)

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p *Problem) { send(w, p.Status, problemType, p) }

// problemOf is what a caller is told of an error. It has names that the caller has given, and
// nothing of the server.
func problemOf(err error) *Problem {
	invalid, unknown, exceeded, full := (*limiter.ValidationError)(nil), (*limiter.NotConfiguredError)(nil), (*limiter.ExceededError)(nil), (*limiter.SlotsError)(nil)
	switch {
	case errors.As(err, &exceeded):
		return refusal(exceeded)
	case errors.As(err, &full):
		p := Full(full)
		p.Decision = &decide.Decision{Statuses: []decide.Status{}}
		return p
	case errors.Is(err, limiter.ErrExceeded):
		return problem(http.StatusTooManyRequests, "too many calls wait for this limit: retry later, or do not wait")
	case errors.As(err, &invalid):
		p := problem(http.StatusBadRequest, invalid.Error())
		p.Field = fieldOf(invalid.Field)
		return p
	case errors.As(err, &unknown):
		what, remedy, field := "limits", "configure them, or start the service with --fallback", "consume"
		if len(unknown.Limits) > 0 {
			what = "limit " + strings.Join(unknown.Limits, " and ")
		}
		if unknown.Slots {
			what, remedy, field = "slots "+strings.Join(unknown.Limits, " and "), "configure them with set-slots", "slots"
		}
		p := problem(http.StatusUnprocessableEntity, "no level of the configuration has the "+what+" of "+unknown.Resource+" for this entity: "+remedy)
		p.Field = field
		return p
	case errors.Is(err, limiter.ErrSettled):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, limiter.ErrSlotsLost):
		return problem(http.StatusConflict, "the slots of the lease were given back, or their time was over, so it has no more time: its tokens can still be settled")
	case errors.Is(err, limiter.ErrTokenExpired):
		return problem(http.StatusGone, "the lease was made more than 7 days ago, and cannot be settled any more")
	case errors.Is(err, limiter.ErrToken):
		p := problem(http.StatusBadRequest, "the service cannot read or make the lease: give it as an acquire returned it, and start all replicas with the same --lease-key-file and namespace")
		p.Field = "lease"
		return p
	case errors.Is(err, limiter.ErrDisabled):
		return Disabled()
	case errors.Is(err, limiter.ErrAccessDenied):
		return problem(http.StatusInternalServerError, "the credentials of the service do not permit its requests: its log has the error")
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrThrottled), errors.Is(err, limiter.ErrConflict), errors.Is(err, limiter.ErrClosed):
		return problem(http.StatusServiceUnavailable, "the store cannot be reached, or did not answer in time: retry later")
	}
	return problem(http.StatusInternalServerError, "the service cannot decide: its log has the error")
}

// refusal is the problem of a refusal.
func refusal(e *limiter.ExceededError) *Problem {
	p := Told(e)
	d := decide.Refused(e)
	p.Detail, p.Decision = e.Error(), &d
	return p
}

// Told is the problem of a refusal for those who are limited. It tells nothing of entities, which
// may be others' keys.
func Told(e *limiter.ExceededError) *Problem {
	p := &Problem{Type: typeExceeded, Title: titleExceeded, Status: http.StatusTooManyRequests}
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded && !slices.Contains(p.Violated, s.Limit.Name) {
			p.Violated = append(p.Violated, s.Limit.Name)
		}
	}
	p.Detail = "the request asks for more than a limit can hold: ask for less"
	if seconds, helps := e.RetryAfterSeconds(); helps {
		p.Detail = "a limit is reached: retry in " + strconv.FormatInt(seconds, 10) + " s"
	}
	return p
}

// Full is the problem of a refusal by a limit of slots, for those who are limited. Its wait is unknown.
func Full(e *limiter.SlotsError) *Problem {
	p := &Problem{Type: typeExceeded, Title: titleExceeded, Status: http.StatusTooManyRequests, Violated: []string{e.Limit}}
	if p.Detail = "all slots of " + e.Limit + " are held: try again when a request has ended"; e.Slots > e.Of {
		p.Detail = fmt.Sprintf("the request asks for %d slots of %s, and there are only %d: ask for fewer", e.Slots, e.Limit, e.Of)
	}
	return p
}

// Disabled is the problem of a call for a resource that is disabled.
func Disabled() *Problem {
	return problem(http.StatusForbidden, "an operator has disabled the resource for this entity")
}

// fieldOf is the field of a call that a field of a request comes from.
func fieldOf(field string) string {
	also, rest := "", field
	if inside, ok := strings.CutPrefix(field, "also: "); ok {
		also, rest = "also.", inside
	}
	for verb, is := range map[string]string{"consume ": "consume.", "settle ": "consume.", "slots of ": "slots."} {
		if name, ok := strings.CutPrefix(rest, verb); ok {
			rest = is + name
		}
	}
	switch rest {
	case "entity":
		rest = "entity_id"
	case "limit name":
		rest = "consume"
	case "settle":
		rest = "consume"
	case "within":
		rest = "lease_ms"
	}
	return also + rest
}
