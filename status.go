package limiter

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// Never is the wait of a request that no wait can make admissible, because it requests
// more than the limit's capacity.
const Never = plan.Never

// A Status is the state of one limit with respect to a request.
type Status struct {
	Entity, Resource string
	// Limit is the limit that the whole bucket enforces, not divided by the number of
	// shards. If it follows a schedule, this is what it is at the time of the decision. A Soft
	// limit refuses nobody: Exceeded is false, whatever is Available. Neither does one in a mode, which
	// is the one for this entity.
	Limit Limit
	// Available is the balance in whole tokens, rounded down, after the request's
	// debit; negative in debt.
	Available int64
	// Requested is the amount that the request asked of this limit.
	Requested int64
	// Exceeded says that this limit refused the request.
	Exceeded bool
	// WouldRefuse says that this limit is in [Shadow], and would have refused the request if it were
	// enforced. The request was then counted, and Available is as without it.
	WouldRefuse bool
	// Bypassed says that an operator has lifted the limits of the bucket: it admits the request
	// whatever is Available, and counts it.
	Bypassed bool
	// RetryAfter is the smallest wait after which this limit admits the request if
	// nobody else consumes. It is 0 unless Exceeded, and [Never] if Requested is more
	// than the capacity, at all times of a schedule.
	//
	// RetryAfter is exact, to the millisecond, for the state of the bucket on which it
	// rests. If the limiter asked the store, that is the state in the answer. A refusal
	// from memory rests on a state seen up to [Options.Trust] ago. Tokens that other
	// processes have consumed since make the true wait longer, and tokens that they
	// have returned make it shorter. [Limiter.TimeUntilAvailable] always asks the
	// store.
	RetryAfter time.Duration
	// ResetsAt is when a quota's period ends, by the clock of the store, and ResetsIn how long
	// that was after the decision. Both are zero if the limit is no quota.
	ResetsAt time.Time
	ResetsIn time.Duration
	// CheckedAt is the instant, by the clock of the store, for which [Limiter.Available] has
	// worked out the status: one for all. It is zero in other answers.
	CheckedAt time.Time
}

// Deficit is how many tokens the limit lacks to admit the request, 0 unless Exceeded.
func (s Status) Deficit() int64 {
	if !s.Exceeded {
		return 0
	}
	return max(0, s.Requested-s.Available)
}

// RetryAfterSeconds is RetryAfter in whole seconds, rounded up, as the header Retry-After
// takes it. It is not ok if no wait helps: then send no such header.
func (s Status) RetryAfterSeconds() (seconds int64, ok bool) { return wholeSeconds(s.RetryAfter) }

func wholeSeconds(d time.Duration) (seconds int64, ok bool) {
	if d == Never {
		return 0, false
	}
	seconds = int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds, true
}

// statusJSON has the member names of the peer's error body, so that a client can read
// both bodies.
type statusJSON struct {
	Entity        string   `json:"entity_id"`
	Resource      string   `json:"resource"`
	Limit         string   `json:"limit_name"`
	Kind          string   `json:"kind"` // "rate" or "quota"
	Capacity      int64    `json:"capacity"`
	Amount        int64    `json:"refill_amount,omitempty"` // of a rate, which never has 0
	PeriodSeconds int64    `json:"refill_period_seconds,omitempty"`
	Available     int64    `json:"available"`
	Requested     int64    `json:"requested"`
	Exceeded      bool     `json:"exceeded"`
	Soft          bool     `json:"soft"`
	Mode          string   `json:"mode,omitempty"` // "shadow" or "off"
	WouldRefuse   bool     `json:"would_refuse,omitempty"`
	Bypassed      bool     `json:"bypassed,omitempty"`
	RetrySeconds  *float64 `json:"retry_after_seconds"`
	RetryMillis   *int64   `json:"retry_after_ms"`
	ResetsAt      *int64   `json:"resets_at_ms,omitempty"`
}

// jsonOf is a status in JSON; the wait is null if it is [Never].
func jsonOf(s *Status) statusJSON {
	seconds, millis := jsonWait(s.RetryAfter)
	kind := "rate"
	if s.Limit.Renews != nil {
		kind = "quota"
	}
	var resets *int64
	if !s.ResetsAt.IsZero() {
		ms := s.ResetsAt.UnixMilli()
		resets = &ms
	}
	mode := ""
	if s.Limit.Mode != Enforce {
		mode = s.Limit.Mode.String()
	}
	return statusJSON{
		Mode:     mode,
		ResetsAt: resets,
		Entity:   s.Entity, Resource: s.Resource, Limit: s.Limit.Name, Kind: kind,
		Capacity: s.Limit.Capacity, Amount: s.Limit.Amount, PeriodSeconds: int64(s.Limit.Period / time.Second),
		Available: s.Available, Requested: s.Requested, Exceeded: s.Exceeded, Soft: s.Limit.Soft, WouldRefuse: s.WouldRefuse, Bypassed: s.Bypassed,
		RetrySeconds: seconds, RetryMillis: millis,
	}
}

// MarshalJSON writes the status with the member names of the peer's error
// body; the wait is null if it is [Never].
func (s Status) MarshalJSON() ([]byte, error) { return json.Marshal(jsonOf(&s)) }

func jsonWait(d time.Duration) (seconds *float64, millis *int64) {
	if d == Never {
		return nil, nil
	}
	s, ms := d.Seconds(), d.Milliseconds()
	return &s, &ms
}

// An ExceededError is a refusal: [ErrExceeded]. Nothing was consumed.
type ExceededError struct {
	// Statuses has every limit that the request named, of the entity and then of its
	// parent, whether the limit refused or not. Those of each further resource follow.
	Statuses []Status
	// Degraded says that the store was away, and this process's share refused: Available and
	// RetryAfter are those of the share, see [ShareOptions].
	Degraded bool
	// wait is how long it takes until all limits admit the request together, if that may be
	// longer than the longest wait of one of them.
	wait time.Duration
}

// newRefusal returns a refusal with room for the statuses of n limits. It makes one
// allocation for one limit, and two for more.
func newRefusal(n int) *ExceededError {
	if n > 1 {
		return &ExceededError{Statuses: make([]Status, 0, n)}
	}
	e := new(struct {
		ExceededError
		room [1]Status
	})
	e.Statuses = e.room[:0]
	return &e.ExceededError
}

// Is reports whether target is [ErrExceeded].
func (e *ExceededError) Is(target error) bool { return target == ErrExceeded }

// RetryAfter is the smallest wait after which the same request is admitted if nobody
// else consumes, to the millisecond. It is [Never] if the request asks for more than a
// limit's capacity. After a refusal from memory it is exact for the image that the
// limiter refused on, see [Status]. It covers the parent's limits too, if the limiter
// could ask for the parent's bucket.
func (e *ExceededError) RetryAfter() time.Duration {
	return max(e.wait, longestWait(e.Statuses))
}

// RetryAfterSeconds is RetryAfter in whole seconds, rounded up, as the header Retry-After
// takes it. It is not ok if no wait helps: then send no such header.
func (e *ExceededError) RetryAfterSeconds() (seconds int64, ok bool) {
	return wholeSeconds(e.RetryAfter())
}

func longestWait(statuses []Status) time.Duration {
	var wait time.Duration
	for i := range statuses {
		wait = max(wait, statuses[i].RetryAfter)
	}
	return wait
}

// Error names the limits that refused, and the wait.
func (e *ExceededError) Error() string {
	var names []string
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded {
			names = append(names, fmt.Sprintf("%s of %s/%s (requested %d, available %d)",
				s.Limit.Name, s.Entity, s.Resource, s.Requested, s.Available))
		}
	}
	advice := "request no more than the capacity"
	if wait := e.RetryAfter(); wait != Never {
		advice = "retry after " + wait.String()
	}
	return fmt.Sprintf("%s: %s: %s", ErrExceeded, strings.Join(names, ", "), advice)
}

// MarshalJSON writes a body for an HTTP 429 response: the message, the wait (null if it
// is [Never]) and every limit's status.
func (e *ExceededError) MarshalJSON() ([]byte, error) {
	seconds, millis := jsonWait(e.RetryAfter())
	return json.Marshal(struct {
		Error        string   `json:"error"`
		Message      string   `json:"message"`
		RetrySeconds *float64 `json:"retry_after_seconds"`
		RetryMillis  *int64   `json:"retry_after_ms"`
		Limits       []Status `json:"limits"`
	}{"rate_limit_exceeded", e.Error(), seconds, millis, e.Statuses})
}

// verdict returns the refusal that follows from the claims of all resources, if any.
func verdict(parts []acquire.Part, up time.Duration) error {
	refused := false
	for i := range parts {
		child, parent := parts[i].Child, parts[i].Parent
		if unknown := acquire.UnknownToAll(child, parent); len(unknown) > 0 {
			return child.Terms.Target.NotConfigured(&child.Bucket, unknown)
		}
		refused = refused || child.Refused || parent != nil && parent.Refused
	}
	if !refused {
		return nil
	}
	// The limiter decided the claims at different instants; the wait counts from the latest.
	var at int64
	sides := make([]*acquire.Claim, 0, 2*len(parts))
	for i := range parts {
		for _, c := range [...]*acquire.Claim{parts[i].Child, parts[i].Parent} {
			if c != nil && (c.Granted || c.Refused || c.Looked) {
				sides, at = append(sides, c), max(at, decidedAt(c))
			}
		}
	}
	e := &ExceededError{}
	for _, c := range sides {
		e.Statuses = append(e.Statuses, asBefore(c, at, up)...)
	}
	if !isExceeded(e.Statuses) {
		e.Statuses = nil // the limits that refused one side have since earned enough
		for _, c := range sides {
			e.Statuses = append(e.Statuses, asBefore(c, c.At, up)...)
		}
		return e
	}
	var demands []plan.Demand
	for _, c := range sides {
		demands = c.Terms.Demands(demands, c.Terms.Amounts, c.Granted, c.Shards(up), at)
	}
	e.wait = plan.WaitForAll(demands, at, longestWait(e.Statuses))
	return e
}

// decidedAt is the instant for which a claim was decided; 0 if it was only looked at.
func decidedAt(c *acquire.Claim) int64 {
	if c.Looked {
		return 0
	}
	return c.At
}

// asBefore returns the status of every limit of a claim at an instant, as if the claim
// had not been debited. A claim that was only looked at keeps its own instant.
func asBefore(c *acquire.Claim, at int64, up time.Duration) []Status {
	if c.Looked {
		at = c.At
	}
	statuses := statusesOf(c, c.Shards(up), at)
	if !c.Granted {
		return statuses
	}
	for i := range statuses {
		if s := &statuses[i]; !c.Counts(s.Limit.Name) {
			s.Available += s.Requested
		}
	}
	return statuses
}

// statusesOf returns the status of each limit of the claim on the shards of a bucket,
// by number. The amounts may be debited already, or not. A nil shard is missing and
// will open empty. If the claim was granted, a nil shard was only not read: statusesOf
// assumes that it holds as much as the others.
func statusesOf(c *acquire.Claim, shards []*store.Image, now int64) []Status {
	statuses := make([]Status, 0, len(c.Terms.Amounts))
	for k, a := range c.Terms.Amounts {
		var behind int64
		if c.Behind != nil {
			behind = c.Behind[k]
		}
		statuses = appendStatus(statuses, c, a, behind, shards, now)
	}
	return statuses
}

// appendStatus appends the status of one limit, if the bucket has or is to have it.
// behind is the amount that later callers took of the limit in the same write.
func appendStatus(statuses []Status, c *acquire.Claim, a store.Amount, behind int64, shards []*store.Image, now int64) []Status {
	var room [1]plan.Holding
	params, parts := c.Terms.Holdings(room[:0], a.Limit, shards, now)
	if len(parts) == 0 {
		return statuses
	}
	held, unseen := plan.Balance(parts, now), plan.MissingOf(shards)
	if c.Granted && len(unseen) > 0 {
		count := int64(len(shards))
		held = max(held/(count-int64(len(unseen))), math.MinInt64/count) * count // saturates a debt at 64 bits
	}
	st := Status{
		Entity: c.Entity, Resource: c.Resource, Limit: limitOf(plan.InForce(params, now), a.Limit),
		Available: floorDiv(held+behind, milli), Requested: a.Milli / milli,
	}
	st.Limit.Soft, st.Limit.Mode, st.Limit.Returns, st.Bypassed = parts[0].Soft, parts[0].Mode, parts[0].Returns, parts[0].Bypassed
	if st.Limit.Mode == Shadow && !st.Bypassed && a.Milli > 0 {
		st.WouldRefuse = c.Counts(a.Limit) || !c.Granted && held < a.Milli
	}
	if r := params.Renewal; r != nil {
		if end := r.End(parts[0].Opened, now); end > now { // a session that has ended begins with the next use
			st.ResetsAt, st.ResetsIn = time.UnixMilli(end).UTC(), time.Duration(end-now)*time.Millisecond
		}
	}
	if !c.Granted && a.Milli > 0 {
		for _, i := range unseen {
			parts = append(parts, plan.Holding{Limit: plan.Share(params, i, len(shards), now), At: now})
		}
		st.RetryAfter = plan.WaitFor(parts, now, a.Milli)
		st.Exceeded = st.RetryAfter > 0
	}
	return append(statuses, st)
}

// limitOf is p as users see it: whole tokens, and whole seconds where the stored values
// are whole.
func limitOf(p store.Params, name string) Limit {
	if p.Renewal != nil {
		return Limit{Name: name, Capacity: max(1, p.Capacity/milli), Renews: p.Renewal, Carries: Carry{Rollover: p.Carries.Rollover / milli, Debt: p.Carries.Debt}}
	}
	return Limit{
		Name: name, Capacity: max(1, p.Capacity/milli), Amount: p.Amount / milli,
		Period: time.Duration(p.Period) * time.Millisecond,
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Available returns the status of every limit that the request names: the balance,
// and whether and how long the request would have to wait now. The entity's limits
// come first and then, if the entity cascades, its parent's, for each resource. An entity
// that never acquired has its configured capacity.
//
// A bucket that still has former limits gets the new ones from the next acquire, also from one
// that is refused. Waits count from that acquire.
//
// All balances and waits are those of one instant, [Status.CheckedAt]. If the request would
// have to wait for a bucket that uses a feature of a peer which this version cannot evaluate, the
// answer is [ErrUnsupported], as that of an acquire.
//
// Available takes nothing. It writes only if a bucket's stamp lies far ahead of the
// clock: then it moves the stamp back.
//
// It returns by its context's deadline and within [Options.Timeout], with
// [ErrUnavailable].
func (l *Limiter) Available(ctx context.Context, req Request) ([]Status, error) {
	ctx, seen := l.observe(ctx, Call{CallAvailable, req.Entity, req.Resource})
	statuses, err := l.ask(ctx, req)
	seen.endOther(ctx, nil, err)
	return statuses, err
}

// ask returns the status of every limit that a request names, within the time of a call.
func (l *Limiter) ask(ctx context.Context, req Request) ([]Status, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	req = req.clone()
	return process.InTime(ctx, l.driver.Process, req.op("ask for the balance of"), func(ctx context.Context) ([]Status, error) {
		if req.ClampPercent == 0 {
			return l.stand(ctx, &req)
		}
		clamped, _, err := l.clamped(ctx, &req)
		if err != nil {
			return nil, err
		}
		return l.stand(ctx, &clamped)
	})
}

// stand returns the status of every limit that a request names.
func (l *Limiter) stand(ctx context.Context, req *Request) ([]Status, error) {
	asked := asks(req)
	parts := l.driver.Inspector.Look(ctx, &asked)
	if err := outcome(parts, l.driver.Uptime()); err != nil {
		return nil, err
	}
	var claims []*acquire.Claim
	var at int64
	for i := range parts {
		for _, c := range [...]*acquire.Claim{parts[i].Child, parts[i].Parent} {
			if c != nil {
				claims, at = append(claims, c), max(at, c.At)
			}
		}
	}
	var statuses []Status
	for _, c := range claims {
		of := statusesOf(c, c.Shards(0), at)
		if err := c.Obstacle(at, isExceeded(of)); err != nil {
			return nil, err
		}
		statuses = append(statuses, of...)
	}
	for i := range statuses {
		statuses[i].CheckedAt = time.UnixMilli(at).UTC()
	}
	return statuses, nil
}

func isExceeded(statuses []Status) bool {
	return slices.ContainsFunc(statuses, func(s Status) bool { return s.Exceeded })
}

// TimeUntilAvailable returns the smallest wait after which the limiter admits the
// request if nobody else consumes, to the millisecond. It is 0 if the limiter would
// admit the request now, and [Never] if the request asks for more than a limit's
// capacity. It writes under the same condition as [Limiter.Available].
func (l *Limiter) TimeUntilAvailable(ctx context.Context, req Request) (time.Duration, error) {
	statuses, err := l.Available(ctx, req)
	if err != nil {
		return 0, err
	}
	return longestWait(statuses), nil
}
