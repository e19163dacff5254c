package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// StatusClientGone is the status of a request whose client has left before the limiter had
// decided. Nobody receives it; it is for logs. nginx uses the same number.
const StatusClientGone = 499

// Types and title of problems (RFC 9457), from draft-ietf-httpapi-ratelimit-headers-11,
// sections 5.1 and 5.2.
const (
	problemQuota     = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	titleQuota       = "Request cannot be satisfied as assigned quota has been exceeded"
	problemUndefined = "about:blank"
)

// A problem is the body of a refusal. Its members tell nothing of other tenants, nor of the
// server.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// StatusOf returns the status code that answers an error of a limiter, or of a [Key].
//
//	429  ErrExceeded, which ErrSlotsFull is too, and a HeldError of a Transport
//	400  ErrInvalid of an entity, a resource or an amount, which came with the request
//	401  ErrNoKey of APIKey and Claim
//	403  ErrDisabled
//	503  ErrUnavailable, ErrThrottled, ErrConflict, ErrClosed: retry later
//	500  ErrAccessDenied, ErrNotConfigured, ErrInvalid of anything else, and everything
//	     else that only the server's operator can correct
//
// A [RequestError] has a status of its own, 400 by default. A nil error is 200. StatusOf
// does not see the request. So it does not return [StatusClientGone]: the error of a context
// is 503 if it is ErrUnavailable too, or else 500.
func StatusOf(err error) int {
	own, invalid := (*RequestError)(nil), (*limiter.ValidationError)(nil)
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &own) && own.Status != 0:
		return own.Status
	case errors.As(err, &own):
		return http.StatusBadRequest
	case errors.Is(err, limiter.ErrExceeded), errors.Is(err, ErrHeld):
		return http.StatusTooManyRequests
	case errors.Is(err, limiter.ErrDisabled):
		return http.StatusForbidden
	case errors.Is(err, limiter.ErrAccessDenied):
		return http.StatusInternalServerError
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrThrottled), errors.Is(err, limiter.ErrConflict), errors.Is(err, limiter.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.As(err, &invalid) && isClients(invalid.Field):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// isClients reports whether a field that is not valid came with the request: its names or an
// amount, but not the names of limits.
func isClients(field string) bool {
	field = strings.TrimPrefix(field, "also: ") // of a request for several resources
	return field == "entity" || field == "resource" || strings.HasPrefix(field, "consume ")
}

// refuse answers a request that was not admitted. outer is the admission of a middleware
// around this one; nil if there is none.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, entity string, err error, outer *admission.Admission) {
	h := w.Header()
	status := StatusOf(err)
	exceeded, full, held := (*limiter.ExceededError)(nil), (*limiter.SlotsError)(nil), (*HeldError)(nil)
	switch {
	case r.Context().Err() != nil && !errors.As(err, &exceeded):
		w.WriteHeader(StatusClientGone)
		return
	case errors.As(err, &exceeded):
		bound := noBound
		if seconds, ok := exceeded.RetryAfterSeconds(); ok {
			bound = seconds
			h.Set(fieldRetryAfter, strconv.FormatInt(seconds, 10))
		}
		f := fields{units: m.o.Units, x: m.o.XHeaders, outer: outer}
		f.write(h, entity, exceeded.Statuses, bound)
	case errors.As(err, &full): // nobody knows the wait
	case errors.As(err, &held):
		h.Set(fieldRetryAfter, strconv.FormatInt(wholeSeconds(held.RetryAfter), 10))
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		h.Set(fieldRetryAfter, strconv.FormatInt(wholeSeconds(m.ask.RetryUnavailable), 10))
	case status == http.StatusUnauthorized:
		h.Add("WWW-Authenticate", "Bearer")
	}
	if m.o.Refuse != nil {
		m.o.Refuse(w, r, err)
		return
	}
	writeProblem(w, problemOf(err, status, entity, outer))
}

// writeProblem answers with a problem. Fields of middlewares outside stay as they are: one that
// compresses has said so already. Lists get another line. Only a length that somebody has set for
// another body goes, as in [http.Error].
func writeProblem(w http.ResponseWriter, p *problem) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and a number
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Add("Cache-Control", "no-store")
	h.Del("Content-Length")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may have left
}

// problemOf describes an error to the client of an entity.
func problemOf(err error, status int, entity string, outer *admission.Admission) *problem {
	p := &problem{Type: problemUndefined, Title: http.StatusText(status), Status: status}
	own, exceeded, full, held := (*RequestError)(nil), (*limiter.ExceededError)(nil), (*limiter.SlotsError)(nil), (*HeldError)(nil)
	switch {
	case errors.As(err, &own):
		p.Detail = own.Reason
	case errors.As(err, &exceeded):
		p.Type, p.Title = problemQuota, titleQuota
		p.Violated, p.Detail = violated(exceeded, entity, outer)
	case errors.As(err, &full):
		p.Type, p.Title = problemQuota, titleQuota
		p.Violated, p.Detail = []string{outer.PolicyOf(full.Resource, full.Limit)}, admission.Full(full)
	case errors.As(err, &held):
		p.Detail = "The upstream has asked for a pause. " + retryIn(wholeSeconds(held.RetryAfter))
	case status == http.StatusTooManyRequests:
		p.Detail = "Too many requests wait. Retry later."
	case status == http.StatusForbidden:
		p.Detail = "Requests of this client are disabled."
	case status == http.StatusBadRequest:
		p.Detail = "The request gives a name or an amount that is not valid."
	case status == http.StatusServiceUnavailable:
		p.Detail = "The rate limiter is not available. Retry later."
	default:
		p.Detail = admission.Advice(err)
	}
	return p
}

// violated returns the policies that refused, and says which limits of which resource they are,
// and what to do.
func violated(e *limiter.ExceededError, entity string, outer *admission.Admission) (policies []string, detail string) {
	shared, resource := true, ""
	var names []string
	for i := range e.Statuses {
		s := &e.Statuses[i]
		if !s.Exceeded {
			continue
		}
		shared, resource = shared && s.Entity != entity, s.Resource
		if !slices.Contains(names, s.Limit.Name) {
			names, policies = append(names, s.Limit.Name), append(policies, outer.Policy(s))
		}
	}
	subject := "The limit"
	if shared {
		subject = "The shared limit"
	}
	if len(names) != 1 {
		subject += "s"
	}
	seconds, ok := e.RetryAfterSeconds()
	advice := retryIn(seconds)
	if !ok {
		advice = "The request asks for more than the limit can hold: ask for less."
	}
	return policies, fmt.Sprintf("%s %s of %s left no room for this request. %s", subject, strings.Join(names, " and "), resource, advice)
}

func retryIn(seconds int64) string {
	if seconds == 1 {
		return "Retry in 1 second."
	}
	return fmt.Sprintf("Retry in %d seconds.", seconds)
}
