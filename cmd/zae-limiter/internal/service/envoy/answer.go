package envoy

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

const (
	ok        = rls.RateLimitResponse_OK
	overLimit = rls.RateLimitResponse_OVER_LIMIT
)

// refusalID is the field with the ID of a refusal, which the body has, too: as the instance of its problem.
const refusalID = "x-refusal-id"

// response is the answer to a call that was decided.
func (c *call) response(ctx context.Context) *rls.RateLimitResponse {
	statuses := make([]told, len(c.asks))
	out := &rls.RateLimitResponse{OverallCode: ok, Statuses: make([]*rls.RateLimitResponse_DescriptorStatus, len(c.asks))}
	for i := range c.asks {
		out.Statuses[i] = c.asks[i].status(&statuses[i])
	}
	var fields headers
	fields.limits(c.fields(ctx))
	if out.DynamicMetadata = c.metadata(); c.isRefused() {
		out.OverallCode, out.RawBody = overLimit, c.refuse(&fields)
	}
	out.ResponseHeadersToAdd = fields.all
	return out
}

// refuse adds the fields of a refusal, and returns its body.
func (c *call) refuse(to *headers) (body []byte) {
	p := c.problem()
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	to.add("content-type", "application/problem+json") // without a body, Envoy drops it
	if p.Instance != "" {
		to.add(refusalID, p.Instance)
	}
	if refusal := c.refusing().refusal; refusal != nil {
		if seconds, helps := refusal.RetryAfterSeconds(); helps {
			to.add("retry-after", strconv.FormatInt(seconds, 10))
		}
	}
	return body
}

// problem is what the client is told of a refusal.
func (c *call) problem() (p *httpapi.Problem) {
	switch by := c.refusing(); {
	case by.disabled:
		p = httpapi.Disabled()
	case by.full != nil:
		p = httpapi.Full(by.full)
	default:
		p = httpapi.Told(by.refusal)
	}
	p.Instance = c.refusing().id
	return p
}

// refusing is the group that says why a call is over a limit. The call waits for all limits, so the longest wait says it:
// that for a limit in a descriptor that admits nothing is for ever. It waits for the first of its quotas only.
func (c *call) refusing() *group {
	var disabled, full, limit, quota *group
	for g := range c.deciding() {
		switch {
		case g.disabled:
			disabled = cmp.Or(disabled, g)
		case g.full != nil:
			full = cmp.Or(full, g)
		case g.refusal == nil:
		case g.quota && (quota == nil || g.refusal.RetryAfter() < quota.refusal.RetryAfter()):
			quota = g
		case !g.quota && (limit == nil || g.refusal.RetryAfter() > limit.refusal.RetryAfter()):
			limit = g
		}
	}
	if c.blocked != nil && c.blocked.quota {
		return cmp.Or(quota, c.blocked)
	}
	return cmp.Or(disabled, c.blocked, full, limit, quota)
}

// Outcome is what became of a call, and which limits refused it.
func (c *call) Outcome() (result limiter.Result, refusing []string) {
	if !c.isRefused() {
		return limiter.Admitted, nil
	}
	return limiter.Refused, c.problem().Violated
}

// fields are RateLimit-Policy and RateLimit, of the limits that the call takes of. If limits have
// the same name, the first one is told, or the first one that refuses. A call that is admitted
// is told nothing of quotas that are over. They are "" without a limit.
func (c *call) fields(ctx context.Context) (policies, limits string) {
	const usualLimits = 8
	var room [usualLimits]string
	names, isRefused := room[:0], c.isRefused()
	for _, refuses := range [...]bool{true, false} {
		for g := range c.deciding() {
			if g.isRefused() != refuses || refuses && !isRefused {
				continue
			}
			var own []limiter.Status
			own, names = g.untold(names)
			policy, limit := httplimit.Fields(ctx, g.entity, own)
			if policies != "" && policy != "" {
				policies, limits = policies+", ", limits+", "
			}
			policies, limits = policies+policy, limits+limit
		}
	}
	return policies, limits
}

// untold are the statuses of the group's own entity whose limits have none of the names, and the names with theirs.
func (g *group) untold(names []string) (own []limiter.Status, all []string) {
	for i := range g.statuses {
		s := &g.statuses[i]
		if s.Entity != g.entity || slices.Contains(names, s.Limit.Name) {
			continue
		}
		if names = append(names, s.Limit.Name); len(own) == i {
			own = g.statuses[:i+1] // as a rule, all of them
		} else {
			own = append(slices.Clip(own), *s)
		}
	}
	return own, names
}

// headers are the header fields of an answer, in one piece.
type headers struct {
	all  []*core.HeaderValue
	room []core.HeaderValue
}

func (h *headers) add(key, value string) {
	const most = 5
	if h.room == nil {
		h.room, h.all = make([]core.HeaderValue, most), make([]*core.HeaderValue, 0, most)
	}
	to := &h.room[len(h.all)]
	to.Key, to.Value = key, value
	h.all = append(h.all, to)
}

// limits adds the fields about limits, if there are any.
func (h *headers) limits(policies, limits string) {
	if policies != "" {
		h.add("ratelimit-policy", policies)
		h.add("ratelimit", limits)
	}
}

// outcome says what became of a descriptor, for metrics.
func (a *ask) outcome() string {
	g := a.in
	switch {
	case !a.isMapped:
		return "unmapped"
	case a.Unlimited:
		return "unlimited"
	case a.isBlocked():
		return a.named("over_limit")
	case g.failed:
		return "failed"
	case g.disabled:
		return "disabled"
	case a.Mode == mapping.Charge:
		return "charged"
	case a.Mode == mapping.Return:
		return "returned"
	case a.Mode == mapping.Settle:
		return a.settlement()
	case !g.isAsked:
		return "undecided"
	}
	outcome := "ok"
	if s := a.tightest(); g.full != nil && len(a.Slots) > 0 || s != nil && s.Exceeded {
		outcome = "over_limit"
	}
	return a.named(outcome)
}

func (a *ask) named(outcome string) string {
	if a.Mode == mapping.Shadow {
		return "shadow_" + outcome
	}
	return outcome
}

// told has room for what the proxy is told of a descriptor.
type told struct {
	status rls.RateLimitResponse_DescriptorStatus
	limit  rls.RateLimitResponse_RateLimit
	reset  durationpb.Duration
}

// status is what the proxy is told of a descriptor. Of several limits, it is told the tightest. A limit of a
// file of envoyproxy/ratelimit has the name that it has there.
func (a *ask) status(to *told) *rls.RateLimitResponse_DescriptorStatus {
	out := &to.status
	out.Code = ok
	switch {
	case a.Unlimited:
		out.LimitRemaining = math.MaxUint32
		return out
	case a.isBlocked():
		out.CurrentLimit = &to.limit
		to.limit.Name, to.limit.Unit = a.Name, unitOf(a.override.Period)
		if a.Mode == mapping.Take {
			out.Code = overLimit
		}
		return out
	case a.in == nil:
		return out
	}
	if (a.in.disabled || a.in.full != nil && len(a.Slots) > 0) && a.Mode == mapping.Take {
		out.Code = overLimit
	}
	s := a.tightest()
	if s == nil {
		return out
	}
	if s.Exceeded && a.Mode == mapping.Take {
		out.Code = overLimit
	}
	amount, period := s.Limit.Amount, s.Limit.Period
	if s.Limit.Renews != nil {
		under := s.Limit.Renews.Period(s.ResetsAt.UnixMilli() - 1)
		amount, period = s.Limit.Capacity, time.Duration(under.End-under.Start)*time.Millisecond
	}
	name, left := s.Limit.Name, s.Available
	if a.Counts {
		if name = a.Name; s.Exceeded {
			left = 0 // a refusal takes it
		}
	}
	out.CurrentLimit = &to.limit
	to.limit.Name, to.limit.RequestsPerUnit, to.limit.Unit = name, saturated(amount), unitOf(period)
	out.LimitRemaining = saturated(left)
	if seconds, helps := resetOf(s); helps {
		to.reset.Seconds, out.DurationUntilReset = seconds, &to.reset
	}
	return out
}

// limit is the tightest limit of a descriptor that was decided; nil if it was not.
func (a *ask) limit() *limiter.Status {
	if a.in == nil {
		return nil
	}
	return a.tightest()
}

// tightest is the limit of a descriptor that stops it first; nil if none is known. It may be the
// parent's.
func (a *ask) tightest() (tightest *limiter.Status) {
	for i := range a.in.statuses {
		s := &a.in.statuses[i]
		if _, isNamed := a.Amounts[s.Limit.Name]; !isNamed || s.Resource != a.Resource {
			continue
		}
		if tightest == nil || a.isTighter(s, tightest) {
			tightest = s
		}
	}
	return tightest
}

func (a *ask) isTighter(s, than *limiter.Status) bool {
	switch {
	case s.RetryAfter != than.RetryAfter:
		return s.RetryAfter > than.RetryAfter
	case s.Exceeded != than.Exceeded:
		return s.Exceeded
	case s.Entity != than.Entity:
		return s.Entity == a.Entity
	}
	return float64(s.Available)/float64(s.Limit.Capacity) < float64(than.Available)/float64(than.Limit.Capacity)
}

// saturated is a number in the 32 bits that the protocol has for it.
func saturated(n int64) uint32 {
	return uint32(min(max(0, n), math.MaxUint32)) //nolint:gosec // it is in the bounds
}

// unitOf is the unit of a period; UNKNOWN if it has none. The lengths of days, months and years
// differ with clocks and calendars.
func unitOf(period time.Duration) rls.RateLimitResponse_RateLimit_Unit {
	const clocks = time.Hour
	switch {
	case period == time.Second:
		return rls.RateLimitResponse_RateLimit_SECOND
	case period == time.Minute:
		return rls.RateLimitResponse_RateLimit_MINUTE
	case period == time.Hour:
		return rls.RateLimitResponse_RateLimit_HOUR
	case day-clocks <= period && period <= day+clocks:
		return rls.RateLimitResponse_RateLimit_DAY
	case 7*day-clocks <= period && period <= 7*day+clocks:
		return rls.RateLimitResponse_RateLimit_WEEK
	case 28*day-clocks <= period && period <= 31*day+clocks:
		return rls.RateLimitResponse_RateLimit_MONTH
	case 365*day-clocks <= period && period <= 366*day+clocks:
		return rls.RateLimitResponse_RateLimit_YEAR
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}

// resetOf is the exact wait of a limit that refuses, and else the time until it is full: in whole
// seconds, rounded up, because Envoy cuts off what is less. helps is false if no wait helps.
func resetOf(s *limiter.Status) (seconds int64, helps bool) {
	switch missing := s.Limit.Capacity - s.Available; {
	case s.Exceeded:
		return s.RetryAfterSeconds()
	case s.Limit.Renews != nil:
		seconds = int64(math.Ceil(s.ResetsIn.Seconds()))
	case missing > 0 && s.Limit.Amount > 0:
		seconds = int64(math.Ceil(min(float64(missing)/float64(s.Limit.Amount)*s.Limit.Period.Seconds(), math.MaxInt32)))
	}
	return seconds, true
}
