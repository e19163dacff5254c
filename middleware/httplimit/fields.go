package httplimit

import (
	"context"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// Header fields of answers, in Go's canonical form. Names of header fields are not
// case-sensitive.
const (
	fieldPolicy     = "Ratelimit-Policy"
	fieldLimit      = "Ratelimit"
	fieldXLimit     = "X-Ratelimit-Limit"
	fieldXRemaining = "X-Ratelimit-Remaining"
	fieldXReset     = "X-Ratelimit-Reset"
	fieldRetryAfter = "Retry-After"
)

// maxInteger is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

// noBound is the bound of an effective window that nothing bounds.
const noBound = int64(1<<63 - 1)

// A fields writes header fields. It has room for the values, so that each costs one string.
type fields struct {
	units map[string]string
	x     bool
	// outer is the middleware around this one, whose fields stay; nil if there is none.
	outer *admission.Admission
	room  [5]string
	used  int
}

// set appends a value to a header field. Fields that are lists may have several lines, so
// what a middleware outside has set stays.
func (f *fields) set(h http.Header, field string, value []byte) {
	f.room[f.used] = string(value)
	if was := h[field]; len(was) > 0 {
		h[field] = append(was, f.room[f.used])
		return
	}
	f.used++
	h[field] = f.room[f.used-1 : f.used : f.used]
}

// usualRoom is the room for a field of a few limits, so that it needs no memory of the heap.
const usualRoom = 192

// write sets the fields for the limits of an entity, whose parent's limits it leaves out. It
// also leaves out soft limits: a client that waits for one waits for nothing. t is at most
// bound seconds.
func (f *fields) write(h http.Header, entity string, statuses []limiter.Status, bound int64) {
	var policyRoom, limitRoom [usualRoom]byte
	policy, limit, tightest := f.append(policyRoom[:0], limitRoom[:0], entity, statuses, bound)
	if tightest == nil {
		return
	}
	f.set(h, fieldPolicy, policy)
	f.set(h, fieldLimit, limit)
	if f.x {
		f.writeX(h, tightest, bound)
	}
}

// append appends the values of both fields, and returns the tightest limit too; nil if no
// limit is the entity's.
func (f *fields) append(policy, limit []byte, entity string, statuses []limiter.Status, bound int64) (policies, limits []byte, tightest *limiter.Status) {
	for i := range statuses {
		s := &statuses[i]
		if s.Entity != entity || !s.Limit.Refuses() {
			continue
		}
		if tightest != nil {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		if tightest == nil || isTighter(s, tightest) {
			tightest = s
		}
		name := f.outer.Policy(s)
		policy = appendPolicy(policy, name, s, f.units[s.Limit.Name])
		limit = appendLimit(limit, name, s, bound)
	}
	return policy, limit, tightest
}

// writeX sets the older fields for the tightest limit: of this middleware and of those
// around it, because these fields are no lists. The limit is the capacity, from which the
// remaining tokens count down, and to which they return with the reset.
func (f *fields) writeX(h http.Header, s *limiter.Status, bound int64) {
	for outer := f.outer; outer != nil; outer = outer.Outer {
		own := outer.Own()
		for i := range own {
			if own[i].Limit.Refuses() && isTighter(&own[i], s) {
				s = &own[i]
			}
		}
	}
	var room [24]byte
	for _, field := range [...]struct {
		name  string
		value int64
	}{
		{fieldXLimit, s.Limit.Capacity}, {fieldXRemaining, min(max(0, s.Available), s.Limit.Capacity)}, {fieldXReset, min(secondsToFull(s), bound)},
	} {
		delete(h, field.name)
		f.set(h, field.name, strconv.AppendInt(room[:0], field.value, 10))
	}
}

// A mark is how many lines the fields have that middlewares have set.
type mark [5]int

var fieldsOfAnswers = [len(mark{})]string{fieldPolicy, fieldLimit, fieldXLimit, fieldXRemaining, fieldXReset}

func marked(h http.Header) (m mark) {
	for i, field := range fieldsOfAnswers {
		m[i] = len(h[field])
	}
	return m
}

// cut drops the lines that a handler has added to fields that middlewares have set: those of an
// upstream, if the handler is a proxy.
func (m *mark) cut(h http.Header) {
	for i, field := range fieldsOfAnswers {
		if lines := h[field]; m[i] > 0 && len(lines) > m[i] {
			h[field] = lines[:m[i]]
		}
	}
}

// isTighter reports whether a limit stops the client before another one does.
func isTighter(s, than *limiter.Status) bool {
	if s.RetryAfter != than.RetryAfter {
		return s.RetryAfter > than.RetryAfter
	}
	return float64(s.Available)/float64(s.Limit.Capacity) < float64(than.Available)/float64(than.Limit.Capacity)
}

// appendPolicy appends an item of RateLimit-Policy. A name has no character that a string
// of a structured field escapes. The window of a quota is the period that is under way: its
// length differs from month to month, and with the clocks.
func appendPolicy(b []byte, name string, s *limiter.Status, unit string) []byte {
	amount, window := s.Limit.Amount, s.Limit.Period
	if s.Limit.Renews != nil {
		amount, window = s.Limit.Capacity, periodOf(s)
	}
	b = append(append(append(b, '"'), name...), `";q=`...)
	b = appendInteger(b, amount)
	b = appendInteger(append(b, ";w="...), wholeSeconds(window))
	if unit != "" {
		b = append(append(append(b, `;qu="`...), unit...), '"')
	}
	if s.Limit.Capacity != amount {
		b = appendInteger(append(b, ";zae-burst="...), s.Limit.Capacity)
	}
	return b
}

// periodOf is the length of the period of a quota that ends with ResetsAt.
func periodOf(s *limiter.Status) time.Duration {
	p := s.Limit.Renews.Period(s.ResetsAt.UnixMilli() - 1) // of a session, the one that begins then
	return time.Duration(p.End-p.Start) * time.Millisecond
}

// appendLimit appends an item of RateLimit.
func appendLimit(b []byte, name string, s *limiter.Status, bound int64) []byte {
	b = append(append(append(b, '"'), name...), `";r=`...)
	b = appendInteger(b, max(0, s.Available))
	if t := min(secondsToFull(s), bound); t > 0 {
		b = appendInteger(append(b, ";t="...), t)
	}
	return b
}

func appendInteger(b []byte, i int64) []byte { return strconv.AppendInt(b, min(i, maxInteger), 10) }

// secondsToFull is the time, in seconds rounded up, after which the bucket is full if
// nobody takes from it.
func secondsToFull(s *limiter.Status) int64 {
	missing := s.Limit.Capacity - s.Available
	if missing > 0 && s.Limit.Renews != nil {
		return wholeSeconds(s.ResetsIn)
	}
	if missing <= 0 || s.Limit.Amount <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(missing), uint64(s.Limit.Period))
	each := uint64(s.Limit.Amount)
	if high >= each {
		return maxInteger
	}
	nanos, rest := bits.Div64(high, low, each)
	seconds := nanos / uint64(time.Second)
	if rest > 0 || nanos%uint64(time.Second) > 0 {
		seconds++
	}
	return int64(min(seconds, maxInteger)) //nolint:gosec // it is at most maxInteger
}

// wholeSeconds is a duration in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// Fields returns the values of the fields RateLimit-Policy and RateLimit for the limits of an
// entity, for other protocols. The context is that of the request, which a middleware outside
// may have admitted already. The statuses are those of a lease or of a refusal. The values
// are "" if none of them is the entity's.
func Fields(ctx context.Context, entity string, statuses []limiter.Status) (policy, limit string) {
	bound := noBound
	refusal := limiter.ExceededError{Statuses: statuses}
	if seconds, ok := refusal.RetryAfterSeconds(); ok && seconds > 0 {
		bound = seconds
	}
	f := fields{outer: admission.From(ctx)}
	var policyRoom, limitRoom [usualRoom]byte
	policies, states, _ := f.append(policyRoom[:0], limitRoom[:0], entity, statuses, bound)
	return string(policies), string(states)
}
